/**
 * The answers to a query, best first, of one run or of two side by side. Each can be opened and shows why it is one.
 *
 * @module
 */

import { go, here, hrefOf, statusOf, withQuery } from "./address.js";
import { Failure, ask, parse } from "./api.js";
import { breakable, counted, element, percent, problem, queryCode, shorten, statusLabel } from "./elements.js";
import { reasonPanel } from "./reason.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").RunInfo} RunInfo */
/** @typedef {{title: string, node: HTMLElement, summary: string, open?: (answer: string | null) => void}} View */

let columns = 0;

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
async function answerColumn(place, run, signal, announce) {
  const { query, top, candidates } = place;
  const result = await ask({ run: run.name, query, top, candidates, only: statusOf(place) }, signal);
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
function uncalibrated(run) {
  if (run.calibrated) return null;
  return element(
    "p",
    { class: "muted" },
    `${run.name} has no calibration, so its answers have scores and no probabilities. Make it with `,
    element("code", {}, "blockhole calibrate"),
    ".",
  );
}

// A column of answers.

/** The answers of one run, in a column of their own. */
class AnswerColumn {
  /**
   * @param {Place & {run: string}} place
   * @param {RunInfo} run
   * @param {import("./api.js").Answers} result
   * @param {(text: string) => void} announce
   */
  constructor(place, run, result, announce) {
    this.place = { ...place, query: result.query };
    this.result = result;
    this.announce = announce;
    this.id = `reason-${(columns += 1)}`;
    this.pending = new AbortController();
    /** @type {HTMLElement | null} */
    this.panel = null;
    /** @type {string | null} */
    this.opened = null;
    this.rows = result.answers.map((answer, at) => this.row(answer, at));
    this.list = element(
      "ol",
      { class: "answers", keydown: (/** @type {KeyboardEvent} */ key) => this.onKey(key) },
      ...this.rows,
    );
    this.node = element(
      "section",
      { class: "column", "aria-label": `Answers of ${run.name}` },
      result.answers.length > 0 ? this.list : nothing(place),
    );
  }

  /** What a screen reader hears when the answers are there. */
  get summary() {
    const { answers } = this.result;
    if (answers.length === 0) return "No answers";
    const [first] = answers;
    return `${counted(answers.length, "answer", "answers")}; the first is ${shorten(first.entity)}, ${first.status}`;
  }

  /**
   * Say beside each answer where it stands elsewhere.
   *
   * @param {AnswerColumn} other
   * @param {string} name
   */
  compareWith(other, name) {
    const ranks = new Map(other.result.answers.map((answer, at) => [answer.entity, at + 1]));
    this.result.answers.forEach(({ entity }, at) => {
      const rank = ranks.get(entity);
      const move = rank === undefined ? "absent" : rank === at + 1 ? "same" : "moved";
      const text = rank === undefined ? "–" : `${rank}.`;
      const said = rank === undefined ? `not among those of ${name}` : `place ${rank} at ${name}`;
      const mark = element(
        "span",
        { class: `elsewhere ${move}`, title: said },
        element("span", { "aria-hidden": "true" }, text),
      );
      mark.append(element("span", { class: "unseen" }, said));
      this.rows[at].querySelector("button")?.append(mark);
    });
  }

  /**
   * Show why `answer` is one; null closes what is open.
   *
   * @param {string | null} answer
   */
  open(answer) {
    if (answer === this.opened) return;
    this.opened = answer;
    this.pending.abort();
    this.pending = new AbortController();
    this.panel?.remove();
    this.panel = null;
    const at = this.result.answers.findIndex(({ entity }) => entity === answer);
    this.rows.forEach((row, each) => {
      row.classList.toggle("open", each === at);
      row.querySelector("button")?.setAttribute("aria-expanded", String(each === at));
    });
    if (answer === null) return;
    this.panel = reasonPanel(this.place, answer, this.id, this.pending.signal, this.announce);
    if (at >= 0) {
      this.rows[at].append(this.panel);
    } else {
      this.panel.prepend(element("h2", {}, ...breakable(answer), element("small", {}, " is not among these answers")));
      this.node.append(this.panel);
    }
  }

  /**
   * @param {import("./api.js").Answer} answer
   * @param {number} at
   */
  row({ entity, score, probability, status }, at) {
    const toggle = () => {
      const place = here();
      go({ ...place, answer: place.answer === entity ? null : entity });
    };
    return element(
      "li",
      { class: "answer" },
      element(
        "button",
        { type: "button", "aria-expanded": "false", "aria-controls": this.id, click: toggle },
        element("span", { class: "rank", "aria-hidden": "true" }, String(at + 1)),
        element("span", { class: "name", title: entity }, ...breakable(entity)),
        statusLabel(status),
        probability === null ? scoreOnly(score) : probabilityBar(probability, score, status),
      ),
    );
  }

  /** @param {KeyboardEvent} key */
  onKey(key) {
    const step = key.key === "ArrowDown" ? 1 : key.key === "ArrowUp" ? -1 : 0;
    const buttons = this.rows.map((row) => row.querySelector("button"));
    const at = buttons.findIndex((button) => button === document.activeElement);
    if (step === 0 || at < 0) return;
    key.preventDefault();
    buttons[at + step]?.focus();
  }
}

/**
 * @param {number} probability
 * @param {number} score
 * @param {import("./api.js").Status} status
 */
function probabilityBar(probability, score, status) {
  const bar = element("span", { class: `bar ${status}`, "aria-hidden": "true" }, element("span", {}));
  bar.style.setProperty("--share", String(probability));
  return element(
    "span",
    { class: "certainty", title: `score ${score.toFixed(3)}` },
    bar,
    element("span", { class: "percent" }, percent(probability)),
  );
}

/** @param {number} score */
function scoreOnly(score) {
  return element("span", { class: "certainty" }, element("span", { class: "percent" }, `score ${score.toFixed(2)}`));
}

/** @param {Place} place */
function nothing(place) {
  /** @type {[string, Partial<Place>][]} */
  const changes = [];
  if (place.only !== null) changes.push(["Show all answers", { only: null }]);
  if (place.only !== "known" && place.candidates === "typed")
    changes.push(["Look among all entities", { candidates: "all" }]);
  const remedies = changes.map(([label, change]) =>
    element("button", { type: "button", click: () => go({ ...here(), ...change }) }, label),
  );
  return element(
    "div",
    { class: "nothing" },
    element(
      "p",
      {},
      place.only === "known" ? "No facts lead anywhere along this path." : "There are no answers to show.",
    ),
    element("p", { class: "remedies" }, ...remedies),
  );
}

// Two runs, side by side.


/**
 * The answers of two runs; what is opened in one is opened in the other. A run that refuses the query, such as one of
 * another graph, says so in its column; where both refuse it, nothing is compared.
 *
 * @param {Place} place
 * @param {[RunInfo, RunInfo]} runs
 * @param {AbortSignal} signal
 * @param {(text: string) => void} announce
 * @returns {Promise<View>}
 */
export async function compareView(place, runs, signal, announce) {
  const [{ orders }, ...outcomes] = await Promise.all([
    otherOrders(place.query, signal),
    ...runs.map((run) => askOne(place, run, signal, announce)),
  ]);
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
    node: element("div", {}, orderLinks(place, orders), element("div", { class: "columns" }, ...nodes)),
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
 * The same relations in other orders; none of a query that does not parse, for the runs say what is wrong with it.
 *
 * @param {string} query
 * @param {AbortSignal} signal
 * @returns {Promise<{orders: import("./api.js").Taken[]}>}
 */
async function otherOrders(query, signal) {
  try {
    return await parse(query, signal);
  } catch (failure) {
    if (failure instanceof Failure) return { orders: [] };
    throw failure;
  }
}

/**
 * Links to the same relations in another order, which a commutative model cannot tell apart.
 *
 * @param {Place} place
 * @param {import("./api.js").Taken[]} orders
 */
function orderLinks(place, orders) {
  if (orders.length === 0) return null;
  return element(
    "p",
    { class: "orders" },
    "The same relations in another order: ",
    ...orders.map(({ query, pieces }) => element("a", { href: hrefOf(withQuery(place, query)) }, queryCode(pieces))),
  );
}
