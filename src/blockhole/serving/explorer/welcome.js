/**
 * What the page shows before anything is asked: how a query is written, queries to try, and what the run knows.
 *
 * @module
 */

import { hrefOf, withEntity, withQuery } from "./address.js";
import { element } from "./elements.js";
import { examplesOf } from "./examples.js";
import { counted, queryCode, statusLabel } from "./marks.js";
import { pieces, typedName } from "./query-text.js";

/** @typedef {import("./address.js").Place} Place */

/**
 * @param {Place} place
 * @param {import("./api.js").RunInfo} run
 * @param {AbortSignal} signal
 * @returns {Promise<import("./asking.js").View>}
 */
export async function welcomeView(place, run, signal) {
  const examples = await examplesOf(run, signal);
  const links = examples.map(({ query, candidates, words }) =>
    element(
      "li",
      {},
      element(
        "a",
        { href: hrefOf({ ...withQuery(place, query), candidates }) },
        queryCode(query),
        element("span", {}, words),
      ),
    ),
  );
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
    examples.length > 0 ? anatomy(longest(examples)) : null,
    examples.length > 0 ? element("h2", {}, "Try one") : null,
    element("ul", { class: "examples" }, ...links),
    readingAnswers(),
    aboutRun(place, run),
  );
  return { title: "", node, summary: "" };
}

/**
 * The query with the most hops, which shows the most; the first of them.
 *
 * @param {import("./examples.js").Example[]} examples
 */
function longest(examples) {
  const hops = (/** @type {string} */ query) => pieces(query).length;
  return examples.map(({ query }) => query).reduce((best, query) => (hops(query) > hops(best) ? query : best));
}

/**
 * A query taken apart, each part with what it means.
 *
 * @param {string} query
 */
function anatomy(query) {
  const [source, ...hops] = pieces(query).map((piece) => piece.text);
  const part = (/** @type {string} */ text, /** @type {string} */ meaning) =>
    element("li", {}, element("code", {}, text), element("span", {}, meaning));
  const steps = hops.map((hop) => {
    const { inverse, name } = typedName(hop);
    return part(`/${hop}`, inverse ? `back over ${name}` : `along ${name}`);
  });
  return element(
    "ol",
    { class: "anatomy", "aria-label": "A query, part by part" },
    part(source, "start here"),
    ...steps,
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
  const source = run.example === null ? null : typedName(pieces(run.example)[0].text).name;
  return element(
    "p",
    { class: "muted" },
    `${run.name} is a ${run.model} model of ${counted(run.entities, "entity", "entities")}, `,
    `${counted(run.relations, "relation", "relations")} and ${counted(run.facts, "fact", "facts")}`,
    run.data === null ? "." : ` from ${run.data.split("/").at(-1)}.`,
    ...(source === null
      ? []
      : [" See what it knows about ", element("a", { href: hrefOf(withEntity(place, source)) }, source), "."]),
  );
}
