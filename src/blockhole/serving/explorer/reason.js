/**
 * Why an entity is an answer: its chains, or that there is none to show.
 *
 * @module
 */

import { hrefOf, withEntity } from "./address.js";
import { Failure, explain } from "./api.js";
import { chainFigure } from "./chains.js";
import { element } from "./elements.js";
import { percent } from "./marks.js";
import { problem } from "./problem.js";

/** @typedef {import("./address.js").Place} Place */

const CHAINS_SHOWN = 5;

/**
 * The panel of an answer, which fills itself when the server has answered.
 *
 * @param {Place & {run: string}} place
 * @param {string} entity
 * @param {string} id
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 */
export function reasonPanel(place, entity, id, signal, announce) {
  const body = element("div", { class: "reason-body", "aria-busy": "true" }, "Looking for chains …");
  const panel = element(
    "section",
    { class: "reason", id, "aria-label": `Why ${entity}, according to ${place.run}` },
    body,
    element(
      "p",
      { class: "onward" },
      element("a", { href: hrefOf(withEntity(place, entity)) }, `All facts about ${entity}`),
    ),
  );
  fill(body, place, entity, signal, announce);
  return panel;
}

/**
 * @param {HTMLElement} body
 * @param {Place & {run: string}} place
 * @param {string} entity
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 */
async function fill(body, place, entity, signal, announce) {
  try {
    const explanation = await explain({ run: place.run, query: place.query, entity, top: CHAINS_SHOWN }, signal);
    body.replaceChildren(...explained(explanation, place));
    announce(summary(explanation));
  } catch (failure) {
    if (signal.aborted) return;
    if (!(failure instanceof Failure)) throw failure;
    body.replaceChildren(problem(failure, () => {}));
  } finally {
    body.removeAttribute("aria-busy");
  }
}

/**
 * @param {import("./api.js").Explanation} explanation
 * @param {Place} place
 * @returns {HTMLElement[]}
 */
function explained(explanation, place) {
  const { chains, best } = explanation;
  if (chains.length > 0) {
    const judged = "A chain is as probable as its steps together; the answer is judged by the path as a whole.";
    return [
      element("p", { class: "reason-summary" }, summary(explanation)),
      chainFigure(chains, place),
      ...(isKnown(chains[0]) ? [] : [element("p", { class: "judged" }, judged)]),
    ];
  }
  return [
    element("p", { class: "reason-summary" }, summary(explanation)),
    element(
      "p",
      { class: "muted" },
      best > 0 ? `The best one has a probability of ${percent(best)}. ` : "",
      "The model takes the path as a whole as evidence, which no single chain of entities need carry.",
    ),
  ];
}

/** @param {import("./api.js").Explanation} explanation */
function summary({ chains, entity }) {
  if (chains.length === 0) return `No single chain to ${entity} is plausible.`;
  const missing = chains[0].hops.filter((hop) => hop.status === "predicted").length;
  if (isKnown(chains[0])) return `The graph leads to ${entity}: every step is a known fact.`;
  const steps = missing === 1 ? "one step" : `${missing} steps`;
  const probability = percent(chains[0].probability);
  return `The best chain to ${entity} takes ${steps} that the graph does not have; its probability is ${probability}.`;
}

/** @param {import("./api.js").Chain} chain */
function isKnown({ hops }) {
  return hops.every((hop) => hop.status === "known");
}
