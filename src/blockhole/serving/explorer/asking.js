/**
 * The view of a query: the answers of one run, or of two runs side by side.
 *
 * @module
 */

import { hrefOf, withQuery } from "./address.js";
import { AnswerColumn } from "./answers.js";
import { ask } from "./api.js";
import { element } from "./elements.js";
import { counted, queryCode } from "./marks.js";
import { otherOrders } from "./query-text.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").RunInfo} RunInfo */
/** @typedef {{title: string, node: HTMLElement, summary: string, open?: (answer: string | null) => void}} View */

/**
 * The answers of one run.
 *
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 * @returns {Promise<View>}
 */
export async function answersView(place, run, signal, announce) {
  const column = await answerColumn(place, run, signal, announce);
  column.open(place.answer);
  return {
    title: column.result.query,
    node: element("div", {}, heading(column.result, run), uncalibrated(run), column.node),
    summary: column.summary,
    open: (answer) => column.open(answer),
  };
}

/**
 * The answers of two runs side by side; what is opened in one is opened in the other.
 *
 * @param {Place} place
 * @param {[RunInfo, RunInfo]} runs
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 * @returns {Promise<View>}
 */
export async function compareView(place, runs, signal, announce) {
  const columns = await Promise.all(runs.map((run) => answerColumn(place, run, signal, announce)));
  columns[0].compareWith(columns[1], runs[1].name);
  columns[1].compareWith(columns[0], runs[0].name);
  columns.forEach((column, at) =>
    column.node.prepend(columnHeading(runs[at], runs[1 - at]), uncalibrated(runs[at]) ?? ""),
  );
  const open = (/** @type {string | null} */ answer) => columns.forEach((column) => column.open(answer));
  open(place.answer);
  return {
    title: `${columns[0].result.query}: ${runs[0].name} beside ${runs[1].name}`,
    node: element(
      "div",
      {},
      orders(place),
      element("div", { class: "columns" }, ...columns.map((column) => column.node)),
    ),
    summary: columns.map((column, at) => `${runs[at].name}: ${column.summary}`).join(". "),
    open,
  };
}

/**
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 */
async function answerColumn(place, run, signal, announce) {
  const { query, top, candidates, only } = place;
  const result = await ask({ run: run.name, query, top, candidates, only }, signal);
  return new AnswerColumn({ ...place, run: run.name }, run, result, announce);
}

/**
 * @param {import("./api.js").Answers} result
 * @param {RunInfo} run
 */
function heading({ answers, milliseconds }, run) {
  const known = answers.filter((answer) => answer.status === "known").length;
  const share = known === 0 ? "" : known === answers.length ? ", all known" : `, ${known} known`;
  return element(
    "h1",
    { class: "count" },
    `${counted(answers.length, "answer", "answers")}${share}`,
    element("small", {}, ` from ${run.name} in ${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`),
  );
}

/**
 * @param {RunInfo} run
 * @param {RunInfo} other
 */
function columnHeading(run, other) {
  return element(
    "header",
    {},
    element("h1", {}, run.name, run.model === run.name ? null : element("small", {}, ` ${run.model}`)),
    element("span", { class: "elsewhere-heading", "aria-hidden": "true" }, `place at ${other.name}`),
  );
}

/** @param {RunInfo} run */
function uncalibrated(run) {
  if (run.calibrated) return null;
  return element(
    "p",
    { class: "muted" },
    `${run.name} has no calibration, so its answers have scores and no probabilities. Make it with `,
    element("code", {}, "blockhole calibrate"),
    ".",
  );
}

/**
 * Links to the same relations in another order, which a commutative model cannot tell apart.
 *
 * @param {Place} place
 */
function orders(place) {
  const others = otherOrders(place.query);
  if (others.length === 0) return null;
  return element(
    "p",
    { class: "orders" },
    "The same relations in another order: ",
    ...others.map((query) => element("a", { href: hrefOf(withQuery(place, query)) }, queryCode(query))),
  );
}
