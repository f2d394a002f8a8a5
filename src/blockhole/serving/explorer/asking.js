/**
 * The view of a query: the answers of one run.
 *
 * @module
 */

import { AnswerColumn } from "./answers.js";
import { ask } from "./api.js";
import { element } from "./elements.js";
import { counted } from "./marks.js";

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
 * Ask one run, and list what it answers.
 *
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 */
export async function answerColumn(place, run, signal, announce) {
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
 * What is missing where a run has no calibration; null where it has one.
 *
 * @param {RunInfo} run
 */
export function uncalibrated(run) {
  if (run.calibrated) return null;
  return element(
    "p",
    { class: "muted" },
    `${run.name} has no calibration, so its answers have scores and no probabilities. Make it with `,
    element("code", {}, "blockhole calibrate"),
    ".",
  );
}
