/**
 * The text of a path query while it is typed: which name the caret is in, and what stands before it. The server parses
 * queries; this only has to find the slashes that divide names, which do not stand inside quotes or brackets.
 *
 * @module
 */

/** @typedef {{start: number, end: number, text: string}} Piece a name with its marks, and where it stands */

const ENCLOSED = /"(?:[^"\\]|\\.)*(?:"|$)|<[^>]*(?:>|$)/sy;

/**
 * The pieces between slashes, in order; the last one is empty after a slash.
 *
 * @param {string} text
 * @returns {Piece[]}
 */
export function pieces(text) {
  const found = [];
  let start = 0;
  for (let at = 0; at <= text.length; at += 1) {
    ENCLOSED.lastIndex = at;
    const enclosed = ENCLOSED.exec(text);
    if (enclosed !== null) at += enclosed[0].length;
    if (at >= text.length || text[at] === "/") {
      found.push({ start, end: Math.min(at, text.length), text: text.slice(start, at) });
      start = at + 1;
    } else if (enclosed !== null) {
      at -= 1; // the character after the name is looked at next
    }
  }
  return found;
}

/**
 * The piece that the caret is in, and its place: 0 is the source, all others are hops.
 *
 * @param {string} text
 * @param {number} caret
 * @returns {{piece: Piece, place: number}}
 */
export function pieceAt(text, caret) {
  const all = pieces(text);
  const place = all.findIndex((piece) => caret <= piece.end);
  return { piece: all[place], place };
}

/**
 * The part of a piece that is being looked for: its inverse marks, and the name without quotes.
 *
 * @param {string} text
 * @returns {{inverse: boolean, name: string}}
 */
export function typedName(text) {
  const [, marks, rest] = /** @type {RegExpExecArray} */ (/^((?:\s|\^|\*\*)*)(.*)$/s.exec(text));
  const inverse = marks.replaceAll("**", "^").replaceAll(/\s/g, "").length % 2 === 1;
  const name = rest.trimEnd();
  if (name.startsWith("<")) return { inverse, name: name.slice(1).replace(/>$/, "") };
  if (!name.startsWith('"')) return { inverse, name };
  const inside = name.length > 1 && /[^\\]"$/.test(name) ? name.slice(1, -1) : name.slice(1);
  return { inverse, name: inside.replaceAll(/\\(["\\])/g, "$1") };
}

/**
 * The queries with two neighbouring, different hops exchanged: the same relations in another order.
 *
 * @param {string} query
 * @returns {string[]}
 */
export function otherOrders(query) {
  const [source, ...hops] = pieces(query).map((piece) => piece.text.trim());
  const orders = new Set();
  for (let at = 0; at + 1 < hops.length; at += 1) {
    const swapped = hops.with(at, hops[at + 1]).with(at + 1, hops[at]);
    orders.add([source, ...swapped].join("/"));
  }
  orders.delete([source, ...hops].join("/"));
  return [...orders];
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
