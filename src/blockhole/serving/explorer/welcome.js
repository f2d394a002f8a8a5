/**
 * What the page shows before anything is asked: queries to try, how answers are read, and what the run knows.
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
  const node = element(
    "div",
    { class: "welcome" },
    element("h1", {}, "Ask where a path leads"),
    element(
      "p",
      { class: "lead" },
      "Choose where it starts and click the relations to follow. What the graph lacks, the model fills in, ",
      "and says how sure it is.",
    ),
    examples.length > 0 ? element("h2", {}, "Try one") : null,
    element("ul", { class: "examples" }, ...links),
    readingAnswers(),
    aboutRun(place, run),
  );
  return { title: "", node, summary: "" };
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
