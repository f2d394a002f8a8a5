/**
 * The runs and the options beside the query: they show the address, and changing one changes the address.
 *
 * @module
 */

import { go, here, withQuery } from "./address.js";
import { byId, element } from "./elements.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").Runs} Runs */

const run = select("run");
const versus = select("versus");
const candidates = select("candidates");
const only = select("only");
const top = select("top");

/**
 * Offer the runs, and follow the choices. A query that is typed and not yet asked is asked with them.
 *
 * @param {Runs} runs
 * @param {() => string} typed what stands in the query box
 */
export function wireControls(runs, typed) {
  const current = () => (typed() && typed() !== here().query ? withQuery(here(), typed()) : here());
  run.replaceChildren(...runs.runs.map(({ name }) => element("option", { value: name }, name)));
  versus.replaceChildren(
    element("option", { value: "" }, "nothing"),
    ...runs.runs.map(({ name }) => element("option", { value: name }, name)),
  );
  for (const part of document.querySelectorAll(".beside")) part.toggleAttribute("hidden", runs.runs.length < 2);
  run.addEventListener("change", () => {
    const place = current();
    go({ ...place, run: run.value, versus: place.versus === run.value ? null : place.versus });
  });
  versus.addEventListener("change", () => go({ ...current(), versus: versus.value || null }));
  for (const option of [candidates, only, top]) {
    option.addEventListener("change", () => go({ ...current(), ...chosen() }));
  }
}

/**
 * Show a place.
 *
 * @param {Place} place
 * @param {string} running the run that answers there
 */
export function showControls(place, running) {
  run.value = running;
  versus.value = place.versus ?? "";
  for (const option of versus.options) option.disabled = option.value === running;
  candidates.value = place.candidates;
  only.value = place.only ?? "";
  top.value = String(place.top);
}

/**
 * The options as they are chosen.
 *
 * @returns {Pick<Place, "candidates" | "only" | "top">}
 */
function chosen() {
  return {
    candidates: candidates.value === "all" ? "all" : "typed",
    only: only.value === "known" || only.value === "predicted" ? only.value : null,
    top: Number(top.value),
  };
}

/** @param {string} id */
function select(id) {
  return /** @type {HTMLSelectElement} */ (byId(id));
}
