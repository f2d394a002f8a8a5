/**
 * What the page shows before anything is asked: how a query is written, queries to try, and what the run knows.
 *
 * @module
 */

import { hrefOf, withEntity, withQuery } from "./address.js";
import { counted, element, queryCode, shorten, statusLabel } from "./elements.js";

/** @typedef {import("./address.js").Place} Place */

/**
 * @param {Place} place
 * @param {import("./api.js").RunInfo} run
 * @returns {import("./answers.js").View}
 */
export function welcomeView(place, run) {
  const { examples } = run;
  const links = examples.map((example) =>
    element(
      "li",
      {},
      element(
        "a",
        { href: hrefOf({ ...withQuery(place, example.query), candidates: example.candidates }) },
        queryCode(example),
        element("span", {}, shorten(example.words)),
      ),
    ),
  );
  const paths = examples.filter(isPath);
  const node = element(
    "div",
    { class: "welcome" },
    element("h1", {}, "Ask where a path leads"),
    element(
      "p",
      { class: "lead" },
      "Name where it starts and the relations to follow. What the graph lacks, the model fills in, ",
      "and says how sure it is.",
    ),
    paths.length > 0 ? anatomy(longest(paths)) : null,
    joiningPaths(),
    examples.length > 0 ? element("h2", {}, "Try one") : null,
    element("ul", { class: "examples" }, ...links),
    readingAnswers(),
    aboutRun(place, run),
  );
  return { title: "", node, summary: "" };
}

/**
 * Whether a query joins no paths: it has one entity, where it starts.
 *
 * @param {import("./api.js").Example} example
 */
function isPath({ pieces }) {
  return pieces.every(({ kind }, at) => kind === (at === 0 ? "entity" : "relation"));
}

/**
 * The query with the most hops, which shows the most; the first of them.
 *
 * @param {import("./api.js").Example[]} examples
 */
function longest(examples) {
  return examples.reduce((best, each) => (each.pieces.length > best.pieces.length ? each : best));
}

/**
 * A query taken apart, each part with what it means.
 *
 * @param {import("./api.js").Example} example
 */
function anatomy({ pieces: [source, ...hops] }) {
  const part = (/** @type {string} */ text, /** @type {string} */ meaning) =>
    element("li", {}, element("code", {}, shorten(text)), element("span", {}, shorten(meaning)));
  return element(
    "ol",
    { class: "anatomy", "aria-label": "A query, part by part" },
    part(source.text, "start here"),
    ...hops.map(({ text, inverse, name }) => part(`/${text}`, inverse ? `back over ${name}` : `along ${name}`)),
  );
}

function joiningPaths() {
  const joined = (/** @type {string} */ mark, /** @type {string} */ meaning) =>
    element("div", {}, element("dt", {}, element("code", {}, mark)), element("dd", {}, meaning));
  return element(
    "dl",
    { class: "reading" },
    joined("one & other", "where both paths lead"),
    joined("one | other", "where either leads"),
    joined("one & !other", "where the first leads and the other does not"),
  );
}

function readingAnswers() {
  return element(
    "dl",
    { class: "reading" },
    element("div", {}, element("dt", {}, statusLabel("known")), element("dd", {}, "the facts lead there")),
    element(
      "div",
      {},
      element("dt", {}, statusLabel("predicted")),
      element("dd", {}, "only the model says so; open it to see why"),
    ),
  );
}

/**
 * @param {Place} place
 * @param {import("./api.js").RunInfo} run
 */
function aboutRun(place, run) {
  const source = run.examples.at(-1)?.pieces[0].name; // the first are of the paper, the last of this run
  return element(
    "p",
    { class: "muted" },
    `${run.name} is a ${run.model} model of ${counted(run.entities, "entity", "entities")}, `,
    `${counted(run.relations, "relation", "relations")} and ${counted(run.facts, "fact", "facts")}`,
    run.data === null ? "." : ` from ${run.data}.`,
    ...(source === undefined
      ? []
      : [" See what it knows about ", element("a", { href: hrefOf(withEntity(place, source)) }, shorten(source)), "."]),
  );
}
