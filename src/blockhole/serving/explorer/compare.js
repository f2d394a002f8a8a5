/**
 * The view of a query asked of two runs, side by side.
 *
 * @module
 */

import { go, here, hrefOf, withQuery } from "./address.js";
import { Failure } from "./api.js";
import { AnswerColumn } from "./answers.js";
import { answerColumn, uncalibrated } from "./asking.js";
import { element } from "./elements.js";
import { queryCode } from "./marks.js";
import { problem } from "./problem.js";
import { otherOrders } from "./query-text.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").RunInfo} RunInfo */

/**
 * The answers of two runs; what is opened in one is opened in the other. A run that refuses the query, such as one of
 * another graph, says so in its column; where both refuse it, nothing is compared.
 *
 * @param {Place} place
 * @param {[RunInfo, RunInfo]} runs
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 * @returns {Promise<import("./asking.js").View>}
 */
export async function compareView(place, runs, signal, announce) {
  const outcomes = await Promise.all(runs.map((run) => askOne(place, run, signal, announce)));
  const columns = outcomes.filter((outcome) => outcome instanceof AnswerColumn);
  if (columns.length === 0) throw outcomes[0];
  if (columns.length === 2) {
    columns[0].compareWith(columns[1], runs[1].name);
    columns[1].compareWith(columns[0], runs[0].name);
  }
  const nodes = outcomes.map((outcome, at) => {
    const node = outcome instanceof AnswerColumn ? outcome.node : refusal(outcome);
    node.prepend(columnHeading(runs[at], runs[1 - at], columns.length === 2), uncalibrated(runs[at]) ?? "");
    return node;
  });
  const open = (/** @type {string | null} */ answer) => columns.forEach((column) => column.open(answer));
  open(place.answer);
  return {
    title: `${columns[0].result.query}: ${runs[0].name} beside ${runs[1].name}`,
    node: element("div", {}, orders(place), element("div", { class: "columns" }, ...nodes)),
    summary: outcomes.map((outcome, at) => `${runs[at].name}: ${summaryOf(outcome)}`).join(". "),
    open,
  };
}

/**
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 */
async function askOne(place, run, signal, announce) {
  try {
    return await answerColumn(place, run, signal, announce);
  } catch (failure) {
    if (failure instanceof Failure) return failure;
    throw failure;
  }
}

/** @param {AnswerColumn | Failure} outcome */
function summaryOf(outcome) {
  return outcome instanceof AnswerColumn ? outcome.summary : outcome.message;
}

/** @param {Failure} failure */
function refusal(failure) {
  return element(
    "section",
    { class: "column" },
    problem(failure, (query) => go(withQuery(here(), query))),
  );
}

/**
 * @param {RunInfo} run
 * @param {RunInfo} other
 * @param {boolean} compared
 */
function columnHeading(run, other, compared) {
  const model = run.model === run.name ? null : element("small", {}, ` ${run.model}`);
  const places = element("span", { class: "elsewhere-heading", "aria-hidden": "true" }, `place at ${other.name}`);
  return element("header", {}, element("h1", {}, run.name, model), compared ? places : null);
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
