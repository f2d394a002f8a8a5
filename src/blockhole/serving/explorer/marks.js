/**
 * How things are written: the marks of known and predicted, told apart by form and word as well as colour;
 * probabilities, counts and queries as people read them.
 *
 * @module
 */

import { element } from "./elements.js";
import { pieces } from "./query-text.js";

/**
 * A full dot for known, a dashed ring for predicted; decoration beside the word.
 *
 * @param {import("./api.js").Status} status
 */
export function statusMark(status) {
  return element("span", { class: `mark ${status}`, "aria-hidden": "true" });
}

/**
 * The mark and the word.
 *
 * @param {import("./api.js").Status} status
 */
export function statusLabel(status) {
  return element("span", { class: `status ${status}` }, statusMark(status), status);
}

/**
 * Such as 62 %, 6.2 %, < 0.1 %.
 *
 * @param {number} probability
 */
export function percent(probability) {
  const hundredth = 100 * probability;
  if (hundredth === 0) return "0 %";
  if (hundredth < 0.1) return "< 0.1 %";
  if (hundredth > 99 && hundredth < 100) return `${Math.min(hundredth, 99.9).toFixed(1)} %`;
  return `${hundredth.toFixed(hundredth < 10 ? 1 : 0)} %`;
}

/**
 * Such as 75,043 entities, 1 fact.
 *
 * @param {number} count
 * @param {string} one
 * @param {string} many
 */
export function counted(count, one, many) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/**
 * A name that may break into lines after its underscores and slashes.
 *
 * @param {string} name
 */
export function breakable(name) {
  return name.split(/(?<=[_/.:-])/).flatMap((part, at) => (at === 0 ? [part] : [element("wbr"), part]));
}

/**
 * A query, which may break into lines before its slashes.
 *
 * @param {string} query
 */
export function queryCode(query) {
  const [source, ...hops] = pieces(query).map((piece) => piece.text);
  return element("code", {}, ...breakable(source), ...hops.flatMap((hop) => [element("wbr"), `/${hop}`]));
}
