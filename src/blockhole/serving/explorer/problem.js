/**
 * What went wrong, where in the query, and what to do about it.
 *
 * @module
 */

import { element } from "./elements.js";
import { offsetOf, pieces } from "./query-text.js";

/** @typedef {import("./api.js").Failure} Failure */

/**
 * A failure as people see it: the sentence, the query with a caret under the wrong place, and names that were perhaps
 * meant, each a button that puts it in.
 *
 * @param {Failure} failure
 * @param {(query: string) => void} mend asks the mended query
 */
export function problem(failure, mend) {
  const { field, text, column } = failure.where ?? { field: "", text: null, column: null };
  const box = element("div", { class: "problem", role: "alert" }, element("p", {}, sentence(failure.message)));
  if (text !== null && column !== null) {
    box.append(pointedAt(text, column));
    if (field === "query" && failure.nearest.length > 0) box.append(remedies(failure.nearest, text, column, mend));
  }
  return box;
}

/**
 * The text with a caret under a column, which counts code points.
 *
 * @param {string} text
 * @param {number} column
 */
function pointedAt(text, column) {
  const from = offsetOf(text, column);
  const to = wrongEnd(text, from);
  return element(
    "p",
    { class: "pointed" },
    element("span", { class: "unseen" }, `At character ${column + 1}: `),
    element(
      "code",
      {},
      text.slice(0, from),
      element("span", { class: "wrong" }, text.slice(from, to) || "\u00a0"),
      text.slice(to),
    ),
  );
}

/**
 * Where the name that begins at `from` ends.
 *
 * @param {string} text
 * @param {number} from
 */
function wrongEnd(text, from) {
  const piece = pieces(text).find(({ end }) => from < end);
  return piece === undefined || from < piece.start ? offsetOf(text.slice(from), 1) + from : piece.end;
}

/**
 * @param {string[]} nearest
 * @param {string} text
 * @param {number} column
 * @param {(query: string) => void} mend
 */
function remedies(nearest, text, column, mend) {
  const from = offsetOf(text, column);
  const buttons = nearest.map((name) => {
    const mended = text.slice(0, from) + quoted(name) + text.slice(wrongEnd(text, from));
    return element("button", { type: "button", click: () => mend(mended) }, name);
  });
  return element("p", { class: "remedies" }, "Take ", ...buttons);
}

/**
 * A name in a form that any query may hold.
 *
 * @param {string} name
 */
function quoted(name) {
  return /^[\p{L}\p{N}_.:'-]+$/u.test(name) ? name : `"${name.replaceAll(/["\\]/g, "\\$&")}"`;
}

/** @param {string} message */
function sentence(message) {
  const capital = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.?!]$/.test(capital) ? capital : `${capital}.`;
}
