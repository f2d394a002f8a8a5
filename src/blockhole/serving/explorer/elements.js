/**
 * Elements in one call, and how names, numbers and failures are written with them. Children that are strings become
 * text nodes and nothing here parses markup, so the names of a graph, which anybody may have written, stay text.
 *
 * @module
 */

import { here, hrefOf, withEntity } from "./address.js";
import { Failure } from "./api.js";

/** @typedef {Node | string | null} Child */

/**
 * An HTML element: `element("a", {href: "#", class: "link"}, "text")`. A function as a value listens to an event, as in
 * `{click: run}`; `true` sets a bare attribute; `false` and `null` set none. No button sends a form.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} attributes
 * @param {Child[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  if (made instanceof HTMLButtonElement) made.type = "button";
  return fill(made, attributes, children);
}

/**
 * The same for SVG.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} attributes
 * @param {Child[]} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function drawing(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/**
 * @template {Element} Kind
 * @param {Kind} made
 * @param {Record<string, unknown>} attributes
 * @param {Child[]} children
 * @returns {Kind}
 */
function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, /** @type {EventListener} */ (value));
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/**
 * The element of the page that has this id; the page always has it.
 *
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * Tell a screen reader.
 *
 * @param {string} text
 */
export function announce(text) {
  byId("announcer").textContent = text;
}

// The marks of known and predicted, told apart by form and word as well as colour; numbers as people read them.

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
 * How often a rule is right.
 *
 * @param {number} share
 */
export function inKnownCases(share) {
  return `right in ${percent(share)} of known cases`;
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

// Names and queries.

/**
 * A relation in words: fatherOf is father of, and its inverse father of, backwards.
 *
 * @param {string} name
 * @param {boolean} inverse
 */
export function inWords(name, inverse = false) {
  const isPath = !/\s/.test(name); // as of IRIs, and of names such as /people/person/nationality
  const last = (isPath ? name.split(/[/#]/).filter(Boolean).at(-1) : null) ?? name;
  const words = last
    .replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2")
    .replaceAll(/[_.]+/g, " ")
    .trim()
    .toLowerCase();
  return shorten(words || name, 60) + (inverse ? ", backwards" : "");
}

const HOP = /(\^?)(?:"((?:[^"\\]|\\.)*)"|<([^>]*)>|([^/"<]+))/gu;

/**
 * The hops of a path as the server writes it.
 *
 * @param {string} path
 */
export function hopsOf(path) {
  return [...path.matchAll(HOP)].map(([, mark, quoted, iri, bare]) => {
    const name = quoted?.replaceAll(/\\(?:u(.{4})|U(.{8})|(.))/gu, (_, short, long, letter) => {
      return letter ?? String.fromCodePoint(parseInt(short ?? long, 16));
    });
    return { name: name ?? iri ?? bare, inverse: mark === "^" };
  });
}

/**
 * A name as queries hold it, in quotes unless it is a plain word.
 *
 * @param {string} name
 */
export function quoteName(name) {
  if (/^[\p{L}\p{N}_.:,'-]+$/u.test(name) && !["and", "or", "not"].includes(name)) return name;
  const escaped = name.replace(/["\\]/g, "\\$&").replace(/[\u0000-\u001f\u007f-\u009f]/g, (letter) => {
    return `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
  return `"${escaped}"`;
}

const LONGEST_SHOWN = 160;
const LONGEST_MESSAGE = 400;

/**
 * A name that may be as long as a page, cut in its middle, since names often differ at their ends.
 *
 * @param {string} name
 * @param {number} most characters that stay
 */
export function shorten(name, most = LONGEST_SHOWN) {
  if (name.length <= most) return name;
  const letters = [...name];
  if (letters.length <= most) return name;
  return letters.toSpliced(Math.ceil(most / 2), letters.length - most, "…").join("");
}

/**
 * A name as a child of an element: it may break into lines after its underscores and slashes, and has no end of them.
 *
 * @param {string} name
 * @param {number} [most] characters that stay
 */
export function breakable(name, most) {
  return shorten(name, most)
    .split(/(?<=[_/.:-])/)
    .flatMap((part, at) => (at === 0 ? [part] : [element("wbr"), part]));
}

/**
 * A link to the page of an entity.
 *
 * @param {import("./address.js").Place} place
 * @param {string} name
 * @param {number} [most] characters that are shown
 */
export function entityLink(place, name, most) {
  return element("a", { href: hrefOf(withEntity(place, name)), title: name, dir: "auto" }, ...breakable(name, most));
}

/**
 * A query, which may break into lines before the marks between its names.
 *
 * @param {import("./api.js").Taken} taken
 */
export function queryCode({ query, pieces }) {
  const letters = [...query]; // columns count code points
  const between = (/** @type {number} */ from, /** @type {number} */ to) => letters.slice(from, to).join("");
  const parts = pieces.flatMap(({ column, end }, at) => {
    const marks = between(at === 0 ? 0 : pieces[at - 1].end, column);
    const name = between(column, end);
    return at === 0 ? [marks, ...breakable(name)] : [element("wbr"), marks, shorten(name)];
  });
  return element("code", {}, ...parts, between(pieces[pieces.length - 1].end, letters.length));
}

/**
 * Where a column, counted in code points as the server counts, stands in a JavaScript string.
 *
 * @param {string} text
 * @param {number} column
 * @returns {number}
 */
export function offsetOf(text, column) {
  return [...text].slice(0, column).join("").length;
}

/**
 * The column, as the server counts, of a place in a JavaScript string.
 *
 * @param {string} text
 * @param {number} offset
 */
export function columnOf(text, offset) {
  return [...text.slice(0, offset)].length;
}

// What went wrong, where in the query, and what to do about it.

/**
 * A failure as people see it: the sentence, the query with a caret under the wrong place, and names that were perhaps
 * meant, each a button that puts it in.
 *
 * @param {import("./api.js").Failure} failure
 * @param {(query: string) => void} mend asks the mended query
 */
export function problem(failure, mend) {
  const { where, nearest, mended } = failure;
  const message = sentence(shorten(failure.message, LONGEST_MESSAGE));
  const box = element("div", { class: "problem", role: "alert" }, element("p", {}, message));
  if (where?.field === "run") {
    // A new page, which learns what runs there are.
    const open = (/** @type {string} */ run) => location.assign(hrefOf({ ...here(), run, versus: null }));
    box.append(remedies(nearest.map((run) => ({ label: run, take: () => open(run) }))));
  }
  if (where === null || where.text === null || where.column === null) return box;
  box.append(pointedAt(where.text, where.column, where.end ?? where.column + 1));
  if (where.field === "query" && mended.length > 0) {
    box.append(remedies(mended.map((query, at) => ({ label: nearest[at] ?? query, take: () => mend(query) }))));
  }
  return box;
}

/** @param {{label: string, take: () => void}[]} offered */
function remedies(offered) {
  const buttons = offered.map(({ label, take }) =>
    element("button", { title: label, click: take }, shorten(label)),
  );
  return element("p", { class: "remedies" }, "Take ", ...buttons);
}

/**
 * Do what the server may refuse, and show in `room` why it did; nothing where the page has gone on meanwhile.
 *
 * @param {HTMLElement} room
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} work
 */
export async function attempt(room, signal, work) {
  room.replaceChildren();
  try {
    await work();
  } catch (failure) {
    if (signal.aborted) return;
    if (!(failure instanceof Failure)) throw failure;
    room.replaceChildren(problem(failure, () => {}));
  }
}

/**
 * The text with a caret under a column.
 *
 * @param {string} text
 * @param {number} column
 * @param {number} end
 */
function pointedAt(text, column, end) {
  const [from, to] = [offsetOf(text, column), offsetOf(text, end)];
  const [before, after] = [text.slice(0, from), text.slice(to)];
  return element(
    "p",
    { class: "pointed" },
    element("span", { class: "unseen" }, `At character ${column + 1}: `),
    element(
      "code",
      {},
      before.length > LONGEST_SHOWN ? `…${before.slice(-LONGEST_SHOWN)}` : before,
      element("span", { class: "wrong" }, shorten(text.slice(from, to)) || "\u00a0"),
      after.length > LONGEST_SHOWN ? `${after.slice(0, LONGEST_SHOWN)}…` : after,
    ),
  );
}

/** @param {string} message */
function sentence(message) {
  const capital = message.charAt(0).toUpperCase() + message.slice(1);
  return /[.?!]$/.test(capital) ? capital : `${capital}.`;
}
