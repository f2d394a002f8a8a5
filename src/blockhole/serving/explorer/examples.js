/**
 * Queries to begin with, made of the run's own relations.
 *
 * @module
 */

import { findEntities, findRelations } from "./api.js";
import { pieces } from "./query-text.js";

/** @typedef {{query: string, candidates: "typed" | "all", words: string}} Example */

/**
 * The two paths of the paper's Figure 1, for runs on the bundled royal family. William's father is held out of it, so
 * William is none of those that fatherOf is known to take: all entities are candidates.
 *
 * @type {Example[]}
 */
const FIGURE_1 = [
  { query: "William/^fatherOf/brotherOf/fatherOf", candidates: "all", words: "children of his paternal uncles" },
  { query: "William/brotherOf/^fatherOf/fatherOf", candidates: "all", words: "children of his brother’s father" },
];

const HOPS = 3;

/**
 * Queries of the run's own names: those of Figure 1 where it has them, and walks along its facts.
 *
 * @param {import("./api.js").RunInfo} run
 * @param {AbortSignal} signal
 * @returns {Promise<Example[]>}
 */
export async function examplesOf(run, signal) {
  const [figure, walks] = await Promise.all([figureOf(run, signal), walksOf(run, signal)]);
  return [...figure, ...walks.slice(figure.length > 0 ? 1 : 0)];
}

/**
 * @param {import("./api.js").RunInfo} run
 * @param {AbortSignal} signal
 */
async function figureOf(run, signal) {
  const [{ entities }, { relations }] = await Promise.all([
    findEntities({ run: run.name, prefix: "William", limit: 100 }, signal),
    findRelations({ run: run.name }, signal),
  ]);
  const names = new Set([...entities, ...relations].map(({ name }) => name));
  return ["William", "fatherOf", "brotherOf"].every((name) => names.has(name)) ? FIGURE_1 : [];
}

/**
 * The run's example, and walks of two and three hops from it that go on where facts lead.
 *
 * @param {import("./api.js").RunInfo} run
 * @param {AbortSignal} signal
 * @returns {Promise<Example[]>}
 */
async function walksOf(run, signal) {
  if (run.example === null) return [];
  const queries = [run.example];
  while (queries.length < HOPS) {
    const last = queries[queries.length - 1];
    const { relations } = await findRelations({ run: run.name, after: last }, signal);
    const used = new Set(pieces(last).map((piece) => piece.text.replace("^", "")));
    const onward = relations.filter((relation) => relation.known);
    const next = onward.find((relation) => !used.has(relation.text.replace("^", ""))) ?? onward[0];
    if (next === undefined) break;
    queries.push(`${last}/${next.text}`);
  }
  return queries.map((query) => ({ query, candidates: "typed", words: inWords(query) }));
}

/**
 * A query as a sentence: from William, back over fatherOf, along brotherOf.
 *
 * @param {string} query
 */
function inWords(query) {
  const [source, ...hops] = pieces(query).map((piece) => piece.text);
  const steps = hops.map((hop) => (hop.startsWith("^") ? `back over ${hop.slice(1)}` : `along ${hop}`));
  return [`from ${source}`, ...steps].join(", ");
}
