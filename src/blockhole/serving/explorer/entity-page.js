/**
 * The page of an entity: the graph around it, how it is connected with another, and the facts about it, by relation, a
 * page of names at a time.
 *
 * @module
 */

import { go, here, hrefOf, withEntity, withQuery, withRelation } from "./address.js";
import { get, post } from "./api.js";
import {
  attempt,
  breakable,
  counted,
  element,
  entityLink,
  hopsOf,
  inWords,
  percent,
  shorten,
  statusMark,
} from "./elements.js";
import { Graph } from "./graph.js";
import { Picker, entityChoices } from "./picker.js";
import { chainOf } from "./reason.js";
import { watched } from "./searches.js";

/** @typedef {import("./address.js").Place} Place */

const FIRST = 20;
const MORE = 100;
const CONNECTIONS = { max_length: 3, top: 12 };
const LIKELY = 0.5; // the least probability of a predicted path that is drawn

/**
 * @param {Place & {entity: string}} place
 * @param {import("./api.js").RunInfo} run
 * @param {AbortSignal} signal
 * @returns {Promise<import("./answers.js").View>}
 */
export async function entityView(place, run, signal) {
  const found = await get("entity", { run: run.name, name: place.entity, limit: FIRST }, signal);
  const facts = `${counted(found.facts, "fact", "facts")} in ${run.name}`;
  const graph = new Graph(place, run.name, signal);
  graph.begin(found);
  const node = element(
    "article",
    { class: "entity" },
    element(
      "header",
      {},
      element("h1", { title: found.entity, dir: "auto" }, ...breakable(found.entity)),
      element("p", { class: "muted" }, facts),
    ),
    connections(place, found, run, graph, signal),
    graph.node,
    found.relations.length === 0 ? element("p", { class: "nothing" }, "The graph has no facts about it.") : null,
    ...found.relations.map((group) => groupSection(group, found, place, run, signal)),
  );
  return { title: shorten(found.entity), node, summary: `${shorten(found.entity)}: ${facts}` };
}

/**
 * How an entity is connected with another: the paths between them, each a query, the best drawn in the graph.
 *
 * @param {Place & {entity: string}} place
 * @param {import("./api.js").Neighbourhood} found
 * @param {import("./api.js").RunInfo} run
 * @param {Graph} graph
 * @param {AbortSignal} signal
 */
function connections(place, found, run, graph, signal) {
  const picker = new Picker({
    label: "How is it connected with",
    placeholder: "another entity",
    source: entityChoices(() => run.name),
    take: ({ name }) => go({ ...withEntity(here(), place.entity), to: name }),
  });
  if (place.to !== null) picker.input.value = place.to;
  const room = element("div");
  const { to } = place;
  if (to !== null) {
    attempt(room, signal, async () => {
      const progress = element("div", { class: "searching", hidden: true });
      room.append(element("p", { class: "muted", "aria-busy": "true" }, "Looking for paths …"), progress);
      const question = { run: run.name, source: found.entity, target: to, ...CONNECTIONS };
      const { paths, target } = await watched(progress, signal, (search) => post("paths", question, signal, search()));
      room.replaceChildren(
        paths.length === 0
          ? element("p", { class: "nothing" }, `No path of up to three steps leads to ${shorten(target)}.`)
          : element("ol", { class: "paths" }, ...paths.map((path) => pathItem(path, place, found.text, target))),
      );
      const predicted = paths.find(({ status, probability }) => status === "predicted" && probability >= LIKELY);
      for (const best of new Set([paths[0], predicted])) {
        if (best !== undefined) await drawPath(graph, run.name, `${found.text}/${best.path}`, target, signal);
      }
    });
  }
  return element(
    "section",
    { class: "connect", "aria-label": "Connections" },
    element("div", { class: "connect-line" }, element("span", {}, "How is it connected with"), picker.node),
    room,
  );
}

/**
 * @param {import("./api.js").Connection} path
 * @param {Place} place
 * @param {string} from
 * @param {string} target
 */
function pathItem({ path, probability, status }, place, from, target) {
  const href = hrefOf({ ...withQuery(place, `${from}/${path}`), candidates: "all", answer: target });
  const words = hopsOf(path)
    .map(({ name, inverse }) => inWords(name, inverse))
    .join(" → ");
  return element(
    "li",
    {},
    statusMark(status),
    element("a", { href, title: path }, words),
    element("small", {}, status === "known" ? " known" : ` predicted ${percent(probability)}`),
  );
}

/**
 * Draw the best proof of a path.
 *
 * @param {Graph} graph
 * @param {string} run
 * @param {string} query
 * @param {string} entity
 * @param {AbortSignal} signal
 */
async function drawPath(graph, run, query, entity, signal) {
  const { proofs } = await post("explain", { run, query, entity, top: 1 }, signal);
  const chain = proofs.length > 0 ? chainOf(proofs[0]) : null;
  const steps = chain?.hops.map(({ relation, ...step }) => ({ ...step, ...hopsOf(relation)[0] }));
  graph.addSteps(steps ?? []);
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
  const more = element("button", { class: "quiet" });
  const refused = element("div");
  /** @param {string[]} names */
  const add = (names) => {
    list.append(...names.map((name) => element("li", {}, entityLink(place, name))));
    const left = group.total - list.children.length;
    more.textContent = `${Math.min(left, MORE)} more of ${left.toLocaleString("en")}`;
    more.hidden = left === 0;
  };
  more.addEventListener("click", async () => {
    more.disabled = true;
    const offset = list.children.length;
    const question = { run: run.name, name: found.entity, relation: group.text, offset, limit: MORE };
    await attempt(refused, signal, async () => {
      const next = await get("entity", question, signal);
      add(next.relations.flatMap(({ entities }) => entities));
      list.children[offset]?.querySelector("a")?.focus();
    });
    more.disabled = false;
  });
  add(group.entities);
  const self = shorten(found.entity, 40);
  const missing = { ...withQuery(place, `${found.text}/${group.text}`), only: /** @type {const} */ ("missing") };
  return element(
    "section",
    { class: "group" },
    element(
      "h2",
      {},
      element("a", { href: hrefOf(withRelation(place, group.name)) }, element("code", {}, shorten(group.text))),
      element("small", {}, ` ${group.total.toLocaleString("en")}`),
    ),
    element(
      "a",
      { class: "predict", href: hrefOf(missing) },
      "What is missing?",
      element("span", { class: "unseen" }, ` Predicted answers to ${shorten(group.text)}`),
    ),
    element(
      "p",
      { class: "meaning" },
      group.inverse ? `… ${shorten(group.name, 60)} ${self}` : `${self} ${shorten(group.name, 60)} …`,
    ),
    list,
    more,
    refused,
  );
}
