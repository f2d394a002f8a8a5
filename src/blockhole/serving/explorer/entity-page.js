/**
 * The page of an entity: the facts about it, by relation, a page of names at a time.
 *
 * @module
 */

import { hrefOf, withEntity, withQuery } from "./address.js";
import { Failure, getEntity } from "./api.js";
import { breakable, counted, element, problem, shorten } from "./elements.js";

/** @typedef {import("./address.js").Place} Place */

const FIRST = 20;
const MORE = 100;

/**
 * @param {Place & {entity: string}} place
 * @param {import("./api.js").RunInfo} run
 * @param {AbortSignal} signal
 * @param {(beginning: string) => void} askFrom puts the beginning of a query into the box
 * @returns {Promise<import("./answers.js").View>}
 */
export async function entityView(place, run, signal, askFrom) {
  const found = await getEntity({ run: run.name, name: place.entity, limit: FIRST }, signal);
  const facts = `${counted(found.facts, "fact", "facts")} in ${run.name}`;
  const node = element(
    "article",
    { class: "entity" },
    element(
      "header",
      {},
      element("h1", { title: found.entity }, ...breakable(found.entity)),
      element("p", { class: "muted" }, facts),
      element("button", { type: "button", class: "primary", click: () => askFrom(`${found.text}/`) }, "Ask from here"),
    ),
    found.relations.length === 0 ? element("p", { class: "nothing" }, "The graph has no facts about it.") : null,
    ...found.relations.map((group) => groupSection(group, found, place, run, signal)),
  );
  return { title: shorten(found.entity), node, summary: `${shorten(found.entity)}: ${facts}` };
}

/**
 * @param {import("./api.js").Group} group
 * @param {import("./api.js").Neighbourhood} found
 * @param {Place & {entity: string}} place
 * @param {import("./api.js").RunInfo} run
 * @param {AbortSignal} signal
 */
function groupSection(group, found, place, run, signal) {
  const list = element("ul", { class: "names" });
  const more = element("button", { type: "button", class: "quiet" });
  const refused = element("div");
  /** @param {string[]} names */
  const add = (names) => {
    list.append(
      ...names.map((name) =>
        element("li", {}, element("a", { href: hrefOf(withEntity(place, name)), title: name }, ...breakable(name))),
      ),
    );
    const left = group.total - list.children.length;
    more.textContent = `${Math.min(left, MORE)} more of ${left.toLocaleString("en")}`;
    more.hidden = left === 0;
  };
  more.addEventListener("click", async () => {
    more.disabled = true;
    refused.replaceChildren();
    const offset = list.children.length;
    const question = { run: run.name, name: found.entity, relation: group.text, offset, limit: MORE };
    try {
      const next = await getEntity(question, signal);
      add(next.relations.flatMap(({ entities }) => entities));
      list.children[offset]?.querySelector("a")?.focus();
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof Failure)) throw failure;
      refused.replaceChildren(problem(failure, () => {}));
    } finally {
      more.disabled = false;
    }
  });
  add(group.entities);
  const missing = { ...withQuery(place, `${found.text}/${group.text}`), only: /** @type {const} */ ("missing") };
  return element(
    "section",
    { class: "group" },
    element("h2", {}, element("code", {}, group.text), element("small", {}, ` ${group.total.toLocaleString("en")}`)),
    element(
      "a",
      { class: "predict", href: hrefOf(missing) },
      "What is missing?",
      element("span", { class: "unseen" }, ` Predicted answers to ${group.text}`),
    ),
    element(
      "p",
      { class: "meaning" },
      group.inverse ? `… ${group.name} ${shorten(found.entity)}` : `${shorten(found.entity)} ${group.name} …`,
    ),
    list,
    more,
    refused,
  );
}
