/**
 * What the browser remembers: the last queries and starred ones; and the drawers at the side, of these and of help.
 * Nothing of it leaves the browser.
 *
 * @module
 */

import { byId, element, percent, shorten, statusLabel } from "./elements.js";

/** @typedef {{href: string, query: string}} Note */

const KEYS = { recent: "blockhole.recent", starred: "blockhole.starred" };
const MOST = { recent: 30, starred: 200 };

/**
 * @param {"recent" | "starred"} kind
 * @returns {Note[]}
 */
function notes(kind) {
  try {
    const kept = JSON.parse(localStorage.getItem(KEYS[kind]) ?? "[]");
    return Array.isArray(kept)
      ? kept.filter((note) => typeof note?.query === "string" && String(note.href).startsWith("?"))
      : [];
  } catch {
    return []; // storage is forbidden, or holds something else
  }
}

/**
 * @param {"recent" | "starred"} kind
 * @param {Note[]} kept
 */
function keep(kind, kept) {
  try {
    localStorage.setItem(KEYS[kind], JSON.stringify(kept.slice(0, MOST[kind])));
  } catch {
    // what cannot be kept is forgotten
  }
}

/**
 * Remember a query that was answered.
 *
 * @param {string} href
 * @param {string} query
 */
export function remember(href, query) {
  keep("recent", [{ href, query }, ...notes("recent").filter((note) => note.href !== href)]);
}

/**
 * Star a query, or take its star away.
 *
 * @param {string} href
 * @param {string} query
 */
export function star(href, query) {
  const others = notes("starred").filter((note) => note.href !== href);
  keep("starred", others.length < notes("starred").length ? others : [{ href, query }, ...others]);
}

/** @param {string} href */
export function isStarred(href) {
  return notes("starred").some((note) => note.href === href);
}

// Drawers.

/** Let the buttons of the head open their drawers, and ? that of help. */
export function wireDrawers() {
  const drawers = {
    recent: { label: "Queries", content: recentContent },
    help: { label: "Help", content: helpContent },
  };
  for (const [id, { label, content }] of Object.entries(drawers)) {
    byId(id).addEventListener("click", () => openDrawer(label, content()));
  }
  document.addEventListener("keydown", (key) => {
    const isTyping = key.target instanceof HTMLElement && key.target.matches("input, select, textarea");
    if (key.key === "?" && !isTyping) byId("help").click();
  });
}

/**
 * @param {string} label
 * @param {HTMLElement[]} content
 */
function openDrawer(label, content) {
  const drawer = element(
    "dialog",
    { class: "drawer", "aria-label": label, close: () => drawer.remove() },
    element(
      "header",
      {},
      element("h2", {}, label),
      element("button", { class: "quiet", click: () => drawer.close() }, "Close"),
    ),
    ...content,
  );
  drawer.addEventListener("click", (click) => {
    const target = click.target instanceof Element ? click.target : null;
    if (target === drawer || target?.closest("a")) drawer.close();
  });
  document.body.append(drawer);
  drawer.showModal();
}

function recentContent() {
  const list = (/** @type {"recent" | "starred"} */ kind, /** @type {string} */ none) => {
    const kept = notes(kind);
    if (kept.length === 0) return element("p", { class: "muted" }, none);
    const links = kept.map(({ href, query }) =>
      element("li", {}, element("a", { href, title: query }, element("code", {}, shorten(query, 120)))),
    );
    return element("ul", {}, ...links);
  };
  const forget = element("button", {}, "Forget the last queries");
  forget.addEventListener("click", () => {
    keep("recent", []);
    forget.closest("dialog")?.close();
  });
  return [
    element("h3", {}, "Starred"),
    list("starred", "Star a query above its answers to keep it here."),
    element("h3", {}, "Last asked"),
    list("recent", "What you ask is listed here, in this browser alone."),
    forget,
  ];
}

/** @returns {HTMLElement[]} */
function helpContent() {
  const rows = (/** @type {[string, string][]} */ pairs) =>
    element(
      "dl",
      { class: "help-list" },
      ...pairs.flatMap(([mark, meaning]) => [element("dt", {}, element("code", {}, mark)), element("dd", {}, meaning)]),
    );
  return [
    element("h3", {}, "Build a query"),
    element(
      "p",
      {},
      "Choose where to start, then click relations one after the other. Backwards means from the end of a relation ",
      "to its beginning: father of, backwards, leads from a child to the father. And, or and not join a second ",
      "path. ",
      "A chip that is clicked can be turned round, replaced, moved or removed; chips can also be dragged.",
    ),
    element("h3", {}, "Known and predicted"),
    element("p", {}, statusLabel("known"), " The facts of the graph lead there."),
    element(
      "p",
      {},
      statusLabel("predicted"),
      ` Only the model says so. Of answers that it gives ${percent(0.7)}, about seven in ten are true, as far as `,
      "facts that were set aside in training can tell. Open an answer to see the steps it rests on: it is at least ",
      "as probable as its best proof.",
    ),
    element("h3", {}, "Write a query"),
    rows([
      ["William/fatherOf", "along a relation"],
      ["William/^fatherOf", "backwards"],
      ["a/r & b/s", "where both paths lead"],
      ["a/r | b/s", "where either leads"],
      ["a/r & !b/s", "where the first leads and the other does not"],
      ["(a/r & b/s)/t", "on from there"],
      ['"a name"/r', "names with spaces or marks"],
    ]),
    element("h3", {}, "Keys"),
    rows([
      ["/", "go to the query"],
      ["?", "this help"],
      ["↑ ↓", "through suggestions and answers"],
      ["Enter", "take a suggestion, open an answer"],
      ["Tab", "complete a name in the text box"],
      ["Esc", "close what is open"],
    ]),
  ];
}
