/**
 * Why an entity is an answer: its proofs, or that there is none to show. Proofs that are chains are drawn in layers and
 * told in words; of others, which join several chains, the best is drawn as a tree and all are told as nested lists.
 *
 * @module
 */

import { hrefOf, withEntity } from "./address.js";
import { Failure, post } from "./api.js";
import { announce, element, inKnownCases, percent, problem, shorten } from "./elements.js";
import { layersOf, legend, pointOut, treeOf } from "./layers.js";
import { watched } from "./searches.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").Explanation} Explanation */
/** @typedef {import("./api.js").Proof} Proof */
/** @typedef {import("./api.js").ProofNode} ProofNode */
/** @typedef {import("./api.js").Status} Status */
/** @typedef {{source: string, relation: string, target: string, status: Status, probability: number}} ChainHop */
/** @typedef {import("./api.js").Exclusion & {entity: string}} Unless what is excluded, and whom it would exclude */
/** @typedef {{hops: ChainHop[], probability: number, unless: Unless[]}} Chain */

const PROOFS_SHOWN = 5;

/**
 * The panel of an answer, which fills itself when the server has answered.
 *
 * @param {Place & {run: string}} place
 * @param {string} entity
 * @param {string} id
 * @param {AbortSignal} signal
 */
export function reasonPanel(place, entity, id, signal) {
  const progress = element("div", { class: "searching", hidden: true });
  const body = element("div", { class: "reason-body", "aria-busy": "true" }, "Looking for proofs …", progress);
  const panel = element(
    "section",
    { class: "reason", id, "aria-label": `Why ${entity}, according to ${place.run}` },
    body,
    element(
      "p",
      { class: "onward" },
      element("a", { href: hrefOf(withEntity(place, entity)) }, `All facts about ${shorten(entity)}`),
    ),
  );
  fill(body, progress, place, entity, signal);
  return panel;
}

/**
 * @param {HTMLElement} body
 * @param {HTMLElement} progress
 * @param {Place & {run: string}} place
 * @param {string} entity
 * @param {AbortSignal} signal
 */
async function fill(body, progress, place, entity, signal) {
  const question = { run: place.run, query: place.query, entity, top: PROOFS_SHOWN };
  try {
    const explanation = await watched(progress, signal, (search) => post("explain", question, signal, search()));
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
 * @param {Explanation} explanation
 * @param {Place} place
 * @returns {HTMLElement[]}
 */
function explained(explanation, place) {
  const { proofs, probability } = explanation;
  const said = element("p", { class: "reason-summary" }, summary(explanation));
  if (proofs.length === 0) {
    const whole =
      `Its probability is ${percent(probability)}. Proofs below 0.1 % are not shown, ` +
      "and a path as a whole may say more than any of them.";
    return [said, element("p", { class: "muted" }, whole)];
  }
  const chains = proofs.map(chainOf);
  const figures = chains.every((chain) => chain !== null) ? chainFigures(chains, place) : [proofTrees(proofs, place)];
  const judged = "An answer is at least as probable as its best proof; the path as a whole may add to it.";
  const certain = proofs[0].probability === 1;
  const more = certain ? [] : [element("p", { class: "judged" }, judged)];
  return [said, ...figures, ...rulesOf(proofs[0].tree), ...more];
}

/**
 * The rules that speak for predicted hops of a proof, each with the facts that fire it.
 *
 * @param {ProofNode} node
 * @returns {HTMLElement[]}
 */
function rulesOf({ entity, relation, rule, parts }) {
  const before = parts.flatMap(rulesOf);
  if (rule === null || relation === null) return before;
  const hop = `${shorten(parts[0].entity)} ${relation} ${shorten(entity)}`;
  const facts = rule.facts.map((fact) => fact.map((name) => shorten(name)).join(" ")).join(", ");
  const worth = `, ${inKnownCases(rule.pca_confidence)}: ${facts}.`;
  const name = element("code", {}, rule.rule);
  return [...before, element("p", { class: "rule" }, `${hop} follows by the rule `, name, worth)];
}

/** @param {Explanation} explanation */
function summary({ proofs, entity: whole }) {
  const entity = shorten(whole);
  if (proofs.length === 0) return `No single proof of ${entity} is plausible.`;
  const [{ tree, probability }] = proofs;
  const missing = predictedHops(tree);
  if (missing === 0) {
    const refuted = probability < 1 ? ", and none excludes it" : "";
    return `The graph leads to ${entity}: every step is a known fact${refuted}.`;
  }
  const steps = missing === 1 ? "one step" : `${missing} steps`;
  const said = percent(probability);
  return `The best proof of ${entity} takes ${steps} that the graph does not have; its probability is ${said}.`;
}

/**
 * @param {ProofNode} node
 * @returns {number}
 */
function predictedHops({ relation, status, parts }) {
  const own = relation !== null && status === "predicted" ? 1 : 0;
  return parts.reduce((sum, part) => sum + predictedHops(part), own);
}

// Proofs as chains.

/**
 * The hops that lead to a node from where nothing goes on as a chain, and what is there: the entity that the query
 * names, or one that answers several parts. An entity that answers one part and no excluded one is on the way.
 *
 * @param {ProofNode} node
 * @returns {{hops: ChainHop[], root: ProofNode, unless: Unless[]}}
 */
function follow(node) {
  if (node.parts.length !== 1) return { hops: [], root: node, unless: [] };
  const [part] = node.parts;
  const before = follow(part);
  const unless = before.unless.concat(exclusionsOf(node));
  if (node.relation === null) return { ...before, unless };
  const { relation, status, probability } = node;
  const hop = { source: part.entity, relation, target: node.entity, status, probability };
  return { ...before, hops: [...before.hops, hop], unless };
}

/**
 * A proof as a chain from an entity that the query names; null if it joins several.
 *
 * @param {Proof} proof
 * @returns {Chain | null}
 */
export function chainOf({ probability, tree }) {
  const { hops, root, unless } = follow(tree);
  return hops.length > 0 && root.parts.length === 0 ? { hops, probability, unless } : null;
}

/**
 * What would exclude the entity of a node, if it can.
 *
 * @param {ProofNode} node
 * @returns {Unless[]}
 */
function exclusionsOf({ entity, excluded }) {
  return excluded.filter(({ probability }) => probability > 0).map((each) => ({ ...each, entity }));
}

/**
 * The drawings and lists of chains, one for those over the same relations: the parts of a union have others.
 *
 * @param {Chain[]} chains at least one
 * @param {Place} place
 */
function chainFigures(chains, place) {
  const groups = Object.values(
    Object.groupBy(chains, ({ hops }) => JSON.stringify(hops.map(({ relation }) => relation))),
  );
  return groups.map((group, at) => chainFigure(/** @type {Chain[]} */ (group), place, at === 0));
}

/**
 * The drawing and the list together; a chain of the list that is pointed at stands out in the drawing.
 *
 * @param {Chain[]} chains
 * @param {Place} place
 * @param {boolean} withLegend
 */
function chainFigure(chains, place, withLegend) {
  const layers = layersOf(chains, place);
  const shared = new Set(sharedBy(chains.map(({ unless }) => unless)));
  const words = element(
    "ol",
    { class: "words" },
    ...chains.map(({ hops, probability, unless }) =>
      inWords(
        probability,
        chainInWords(hops[0].source, hops),
        unless.filter((each) => !shared.has(keyOf(each))),
      ),
    ),
  );
  [...words.children].forEach((item, at) => {
    item.addEventListener("mouseenter", () => pointOut(layers, at));
    item.addEventListener("mouseleave", () => pointOut(layers, null));
  });
  const notes = chains[0].unless.filter((each) => shared.has(keyOf(each))).map(unlessInWords);
  const caption = withLegend ? legend() : null;
  return element("figure", { class: "chains" }, layers, caption, words, notes.length > 0 ? unlessList(notes) : null);
}

/**
 * The keys of what every chain has, which is said once.
 *
 * @param {Unless[][]} lists
 */
function sharedBy([first, ...others]) {
  const keys = others.map((list) => new Set(list.map(keyOf)));
  return first.map(keyOf).filter((key) => keys.every((own) => own.has(key)));
}

/** @param {Unless} unless */
function keyOf(unless) {
  return JSON.stringify(unless);
}

// Proofs as nested lists.

/**
 * @param {Proof[]} proofs
 * @param {Place} place
 */
function proofTrees(proofs, place) {
  return element(
    "figure",
    { class: "chains" },
    treeOf(proofs[0].tree, place),
    legend(),
    element(
      "ol",
      { class: "words trees" },
      ...proofs.map(({ probability, tree }) =>
        element(
          "li",
          {},
          element("span", { class: "probability" }, percent(probability)),
          element("div", {}, ...treeInWords(tree, place)),
        ),
      ),
    ),
  );
}

/**
 * A node in words: the chain to it, and below that, what the entity at the chain's beginning answers and does not.
 *
 * @param {ProofNode} node
 * @param {Place | null} place
 * @returns {HTMLElement[]}
 */
function treeInWords(node, place) {
  const { hops, root, unless } = follow(node);
  const line = element("div", {}, ...chainInWords(root.entity, hops, place));
  const parts = root.parts.map((part, at) => reasonItem(at === 0 ? "since" : "and", treeInWords(part, place)));
  const items = [...parts, ...[...exclusionsOf(root), ...unless].map(unlessInWords)];
  return items.length === 0 ? [line] : [line, element("ul", { class: "because" }, ...items)];
}

/**
 * @param {string} label
 * @param {import("./elements.js").Child[]} content
 */
function reasonItem(label, content) {
  return element("li", {}, element("span", { class: "joint" }, label), element("div", {}, ...content));
}

// What both are told in.

/**
 * @param {number} probability
 * @param {import("./elements.js").Child[]} steps
 * @param {Unless[]} unless
 */
function inWords(probability, steps, unless) {
  const list = unless.length > 0 ? unlessList(unless.map(unlessInWords)) : null;
  return element(
    "li",
    {},
    element("span", { class: "probability" }, percent(probability)),
    element("div", {}, element("span", {}, ...steps), list),
  );
}

/**
 * @param {string} source
 * @param {ChainHop[]} hops
 * @param {Place | null} place where names lead; null where a drawing beside them has the links
 * @returns {import("./elements.js").Child[]}
 */
function chainInWords(source, hops, place = null) {
  const steps = hops.flatMap(({ relation, target, status, probability }) => [
    element(
      "span",
      { class: `step ${status}` },
      element("code", {}, relation),
      status === "known" ? " known" : ` predicted ${percent(probability)}`,
    ),
    " ",
    nameOf(target, place),
    " ",
  ]);
  return [nameOf(source, place), " ", ...steps];
}

/**
 * What would exclude an entity, with the best reason why it may, if any is plausible.
 *
 * @param {Unless} unless
 */
function unlessInWords({ entity, probability, counterproof }) {
  const said = element("small", {}, ` ${percent(probability)} probable`);
  if (counterproof === null) return reasonItem("unless", ["missing facts exclude ", nameOf(entity), said]);
  return reasonItem("unless", [...treeInWords(counterproof, null), said]);
}

/** @param {HTMLElement[]} items */
function unlessList(items) {
  return element("ul", { class: "because" }, ...items);
}

/**
 * @param {string} entity
 * @param {Place | null} place
 */
function nameOf(entity, place = null) {
  const attributes = { class: "name", title: entity };
  if (place === null) return element("span", attributes, shorten(entity));
  return element("a", { ...attributes, href: hrefOf(withEntity(place, entity)) }, shorten(entity));
}
