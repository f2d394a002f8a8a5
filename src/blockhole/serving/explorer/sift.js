/**
 * What is done with answers: choosing them by probability, narrowing them by what they have in common, and taking them
 * away as a link, a file or a command.
 *
 * @module
 */

import { go, here, hrefOf, statusOf, withQuery } from "./address.js";
import { askTable, get, post } from "./api.js";
import { narrowedHref } from "./builder.js";
import { announce, attempt, drawing, element, inWords, percent, shorten } from "./elements.js";
import { isStarred, star } from "./notebook.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./answers.js").AnswerColumn} AnswerColumn */

const BINS = 20;
const HUNDREDTHS = 100; // steps of the slider
const QUICK = 1000; // milliseconds: what took longer is not asked for twice
const ALL = 1_000_000;
const NAMES = { count: 100, letters: 20_000, least: 0.1 }; // of predicted answers whose facts are compared
const FACETS = 9;

// By probability.

/**
 * A slider for the least probability, with a histogram of the predicted answers above it.
 *
 * @param {AnswerColumn} column
 * @returns {{node: HTMLElement, show: (least: number) => void}}
 */
export function thresholdOf(column) {
  const listed = column.predicted.map(({ answer }) => answer.probability ?? 0);
  let { counts, least: complete } = spreadOf(listed, column.place.top);
  const bars = element("div", { class: "histogram" });
  const said = element("span", { class: "said" });
  const slider = element("input", {
    type: "range",
    min: "0",
    max: "0.99",
    step: "0.01",
    "aria-label": "Least probability of predicted answers",
    input: () => show(Number(slider.value)),
    change: () => go({ ...here(), least: Number(slider.value) }, { replace: true }),
  });
  const show = (/** @type {number} */ least) => {
    if (Number(slider.value) !== least) slider.value = String(least);
    for (const { answer, row } of column.predicted) row.hidden = (answer.probability ?? 1) < least;
    const shown = column.predicted.filter(({ row }) => !row.hidden).length;
    const all = counts.slice(Math.round(least * HUNDREDTHS)).reduce((sum, each) => sum + each, 0);
    const more = least < complete ? "more than " : "";
    const rest = all > shown ? `, of which ${shown.toLocaleString("en")} are listed` : "";
    said.textContent = `at least ${percent(least)}: ${more}${all.toLocaleString("en")}${rest}`;
    [...bars.querySelectorAll("rect")].forEach((bar, at) => bar.classList.toggle("out", (at + 1) / BINS <= least));
  };
  const draw = () => bars.replaceChildren(histogram(counts));
  draw();
  if (column.result.milliseconds < QUICK && listed.length >= column.place.top) {
    const { run, query, candidates } = column.place;
    post("spread", { run, query, candidates }, column.signal).then(
      (spread) => {
        ({ counts, least: complete } = spread);
        draw();
        show(Number(slider.value));
      },
      () => {}, // the histogram is then of what is listed
    );
  }
  return { node: element("div", { class: "threshold" }, bars, slider, said), show };
}

/**
 * What is known of the spread by the answers that are listed, which are the most probable.
 *
 * @param {number[]} listed
 * @param {number} top
 */
function spreadOf(listed, top) {
  const counts = Array.from({ length: HUNDREDTHS }, () => 0);
  for (const each of listed) counts[Math.min(HUNDREDTHS - 1, Math.floor(each * HUNDREDTHS))] += 1;
  return { counts, least: listed.length < top ? 0 : Math.min(...listed) };
}

/** @param {number[]} spread */
function histogram(spread) {
  const counts = Array.from({ length: BINS }, (_, at) =>
    spread.slice((at * HUNDREDTHS) / BINS, ((at + 1) * HUNDREDTHS) / BINS).reduce((sum, each) => sum + each, 0),
  );
  const most = Math.max(1, ...counts);
  return drawing(
    "svg",
    { viewBox: `0 0 ${BINS * 10} 40`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...counts.map((count, at) => {
      const height = count === 0 ? 0 : Math.max(2, 40 * Math.sqrt(count / most)); // a single answer can be seen
      return drawing("rect", { x: at * 10 + 1, y: 40 - height, width: 8, height });
    }),
  );
}

// By what they have in common.

/**
 * Links that narrow the query to answers with a fact in common; empty where they have none.
 *
 * @param {AnswerColumn} column
 */
export function facetsOf(column) {
  const room = element("section", { class: "facets", "aria-label": "What the answers have in common" });
  const { run, query } = column.place;
  let letters = 0;
  const entities = column.predicted
    .filter(({ answer }) => (answer.probability ?? 1) >= NAMES.least)
    .map(({ answer }) => answer.entity)
    .slice(0, NAMES.count)
    .filter((name) => (letters += name.length) < NAMES.letters);
  const failed = element("div");
  attempt(failed, column.signal, async () => {
    const found = await post("facets", { run, query, entities }, column.signal);
    const { facets } = found;
    if (facets.length === 0 || found.entities < 2) return;
    room.append(
      element("h2", {}, "In common"),
      element(
        "ul",
        {},
        ...facets
          .slice(0, FACETS)
          .map(({ name, inverse, entity, branch, count }) =>
            element(
              "li",
              {},
              element(
                "a",
                { href: narrowedHref(column.place, query, branch), title: `and ${branch}` },
                element("span", { class: "muted" }, `${inWords(name, inverse)} `),
                element("bdi", {}, shorten(entity, 60)),
                element("small", {}, ` ${count.toLocaleString("en")} of ${found.entities.toLocaleString("en")}`),
              ),
            ),
          ),
      ),
    );
  }).then(() => (failed.childElementCount > 0 ? failed.remove() : undefined));
  return room;
}

// Taking them away.

/**
 * @param {AnswerColumn} column
 */
export function takeAway(column) {
  const { place } = column;
  const failed = element("div");
  const starred = element("button", { class: "quiet" });
  const showStar = () => {
    const on = isStarred(hrefOf(withQuery(here(), place.query)));
    starred.textContent = on ? "★ Starred" : "☆ Star";
    starred.setAttribute("aria-pressed", String(on));
  };
  starred.addEventListener("click", () => {
    star(hrefOf(withQuery(here(), place.query)), place.query);
    showStar();
  });
  showStar();
  const download = (/** @type {string} */ label, /** @type {() => Promise<{text: string, kind: string}>} */ make) => {
    const button = element("button", { class: "quiet" }, label);
    button.addEventListener("click", () => {
      button.disabled = true;
      attempt(failed, column.signal, async () => {
        const { text, kind } = await make();
        save(`answers.${label.toLowerCase()}`, text, kind);
        announce(`${label} saved`);
      }).finally(() => {
        button.disabled = false;
      });
    });
    return button;
  };
  const more = element("details", { class: "share" }, element("summary", {}, "Share"));
  more.addEventListener("toggle", () => {
    if (more.open && more.childElementCount === 1) more.append(shared(column));
  });
  return element(
    "div",
    { class: "takeaway", role: "group", "aria-label": "Take the answers away" },
    starred,
    download("CSV", async () => ({ text: await asCsv(column), kind: "text/csv" })),
    download("JSON", async () => ({
      text: JSON.stringify(await everyAnswer(column), null, 1),
      kind: "application/json",
    })),
    more,
    failed,
  );
}

/**
 * What is taken away: all known answers, and the predicted ones that are shown.
 *
 * @param {AnswerColumn} column
 * @returns {import("./api.js").Question[]}
 */
function questionsOf({ place, predicted }) {
  const { run, query, candidates } = place;
  const shown = predicted.filter(({ row }) => !row.hidden).length;
  const only = statusOf(place);
  /** @type {import("./api.js").Question[]} */
  const asked = only === "predicted" ? [] : [{ run, query, candidates, only: "known", top: ALL }];
  return shown === 0 ? asked : [...asked, { run, query, candidates, only: "predicted", top: shown }];
}

/** @param {AnswerColumn} column */
async function asCsv(column) {
  const tables = await Promise.all(questionsOf(column).map((question) => askTable(question, column.signal)));
  return tables.map((table, at) => (at === 0 ? table : table.slice(table.indexOf("\n") + 1))).join("");
}

/** @param {AnswerColumn} column */
async function everyAnswer(column) {
  const lists = await Promise.all(questionsOf(column).map((question) => post("ask", question, column.signal)));
  return { run: column.place.run, query: column.place.query, answers: lists.flatMap(({ answers }) => answers) };
}

/**
 * Save a text as a file.
 *
 * @param {string} name
 * @param {string} text
 * @param {string} kind
 */
export function save(name, text, kind) {
  const href = URL.createObjectURL(new Blob([text], { type: kind }));
  saveFrom(name, href);
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

/**
 * @param {string} name
 * @param {string} href
 */
export function saveFrom(name, href) {
  element("a", { href, download: name }).click();
}

/**
 * The same question for others: as a link, for a shell, for Python, for SPARQL.
 *
 * @param {AnswerColumn} column
 */
function shared(column) {
  const { run, query, candidates, top } = column.place;
  const body = JSON.stringify({ run, query, candidates, top });
  const api = new URL("api/v1/ask", location.origin + location.pathname).href;
  const python = [
    "import blockhole",
    `run = ${JSON.stringify(run)}  # the folder of the run`,
    `answers = blockhole.ask(run, ${JSON.stringify(query)}, top=${top}, candidates="${candidates}")`,
    "for answer in answers:",
    "    print(answer.entity, answer.probability, answer.status)",
  ].join("\n");
  const inShell = (/** @type {string} */ text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const list = element("dl", {});
  const add = (/** @type {string} */ label, /** @type {string} */ text) => {
    const code = element("code", {}, text);
    const copy = element(
      "button",
      { class: "quiet", "aria-label": `Copy ${label}`, click: () => copyText(text, code) },
      "Copy",
    );
    list.append(element("dt", {}, label, copy), element("dd", {}, code));
  };
  add("Link", location.href);
  add("curl", `curl -s ${api} -H 'Content-Type: application/json' -d ${inShell(body)}`);
  add("Python", python);
  get("translate", { run, query }, column.signal).then(
    ({ sparql }) => add("SPARQL", sparql),
    () => {}, // a query that has no SPARQL has the others
  );
  return list;
}

/**
 * Copy a text, or where a browser does not allow it, mark it for copying by hand.
 *
 * @param {string} text
 * @param {HTMLElement} shown
 */
async function copyText(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
  } catch {
    getSelection()?.selectAllChildren(shown);
    announce("Marked: copy it with the keyboard");
  }
}
