/**
 * The answers to a query, known ones and then predicted ones, each best first, of one run or of two side by side. Each
 * can be opened and shows why it is one.
 *
 * @module
 */

import { go, here, hrefOf, statusOf, withQuery } from "./address.js";
import { Failure, get, post } from "./api.js";
import { attempt, breakable, element, hopsOf, percent, problem, queryCode, shorten, statusLabel } from "./elements.js";
import { Graph } from "./graph.js";
import { remember } from "./notebook.js";
import { reasonPanel } from "./reason.js";
import { facetsOf, takeAway, thresholdOf } from "./sift.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").RunInfo} RunInfo */
/** @typedef {{title: string, node: HTMLElement, summary: string, update?: (place: Place | null) => void}} View */

/** @typedef {import("./api.js").Status} Status */

const MORE = 100; // answers that a click adds
const DRAWN = 8; // answers whose proofs are drawn as one graph

let columns = 0;

/**
 * The answers of one run.
 *
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @param {import("./searches.js").NewSearch} search
 * @returns {Promise<View>}
 */
export async function answersView(place, run, signal, search) {
  const column = await answerColumn(place, run, signal, search);
  const threshold = run.calibrated && column.predicted.length > 0 ? thresholdOf(column) : null;
  if (threshold !== null) column.predictedNode?.querySelector("h2")?.after(threshold.node);
  const update = (/** @type {Place | null} */ now) => {
    column.open(now?.answer ?? null);
    threshold?.show(now?.least ?? 0);
  };
  update(place);
  remember(hrefOf(withQuery(place, column.result.query)), column.result.query);
  const isMany = column.result.known_count + column.predicted.length > 1;
  return {
    title: column.result.query,
    node: element(
      "div",
      {},
      element("p", { class: "asked" }, element("code", {}, shorten(column.result.query))),
      element("div", { class: "answers-head" }, heading(column.result, run), takeAway(column)),
      uncalibrated(run),
      negated(column.result),
      column.all.length > 0 && run.calibrated ? drawnAnswers(column) : null,
      element("div", { class: "beside-facets" }, column.node, isMany ? facetsOf(column) : null),
    ),
    summary: column.summary,
    update,
  };
}

/**
 * Ask one run, and list what it answers.
 *
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @param {import("./searches.js").NewSearch} search
 */
async function answerColumn(place, run, signal, search) {
  const { query, top, candidates } = place;
  const result = await post("ask", { run: run.name, query, top, candidates, only: statusOf(place) }, signal, search());
  return new AnswerColumn({ ...place, run: run.name }, run, result, signal);
}

/**
 * @param {import("./api.js").Answers} result
 * @param {RunInfo} run
 */
function heading({ answers, milliseconds }, run) {
  return element(
    "h1",
    { class: "count" },
    answers.length === 0 ? "No answers" : "Answers",
    element("small", {}, ` from ${run.name} in ${duration(milliseconds)}`),
  );
}

/** @param {number} milliseconds */
function duration(milliseconds) {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
}

/**
 * What known means where the query excludes something; null where it does not.
 *
 * @param {import("./api.js").Answers} result
 */
function negated({ negation }) {
  if (negation === null) return null;
  return element(
    "p",
    { class: "muted negation" },
    `The negation is ${negation}: a known answer is one that no fact excludes, `,
    "and its probability is that no missing fact does either.",
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

/**
 * The best proofs of the first answers as one graph, which then grows; it is drawn when it is opened.
 *
 * @param {AnswerColumn} column
 */
function drawnAnswers(column) {
  const drawn = element("details", { class: "drawn" }, element("summary", {}, "Draw as a graph"));
  drawn.addEventListener("toggle", () => {
    if (!drawn.open || drawn.childElementCount > 1) return;
    const { run, query } = column.place;
    const shown = column.all.filter(({ row }) => !row.hidden).slice(0, DRAWN);
    const centre = shown[0]?.answer.entity ?? "";
    const graph = new Graph({ ...column.place, entity: centre }, run, column.signal);
    const refused = element("div");
    drawn.append(graph.node, refused);
    attempt(refused, column.signal, async () => {
      for (const { answer } of shown) {
        const { proofs } = await post("explain", { run, query, entity: answer.entity, top: 1 }, column.signal);
        graph.entity(answer.entity).mark.classList.add("centre");
        graph.addSteps(proofs.flatMap(({ tree }) => stepsOf(tree)));
      }
    });
  });
  return drawn;
}

/**
 * The hops of a proof, from entity to entity.
 *
 * @param {import("./api.js").ProofNode} node
 * @returns {import("./graph.js").Step[]}
 */
function stepsOf({ entity, relation, status, probability, parts }) {
  const before = parts.flatMap(stepsOf);
  if (relation === null) return before;
  return [...before, { source: parts[0].entity, target: entity, ...hopsOf(relation)[0], status, probability }];
}

// A column of answers.

/** @typedef {{answer: import("./api.js").Answer, rank: number, row: HTMLElement, button: HTMLElement}} Entry */

/** The answers of one run in a column of their own: a list of known ones and one of predicted ones. */
export class AnswerColumn {
  /**
   * @param {Place & {run: string}} place
   * @param {RunInfo} run
   * @param {import("./api.js").Answers} result
   * @param {AbortSignal} signal
   */
  constructor(place, run, result, signal) {
    this.place = { ...place, query: result.query };
    this.result = result;
    this.signal = signal;
    this.id = `reason-${(columns += 1)}`;
    this.pending = new AbortController();
    /** @type {HTMLElement | null} */
    this.panel = null;
    /** @type {string | null} */
    this.opened = null;
    /** @type {{column: AnswerColumn, name: string} | null} */
    this.other = null;
    this.known = this.entries(result.answers, "known", 0);
    this.predicted = this.entries(result.answers, "predicted", 0);
    this.predictedNode = this.predicted.length > 0 ? this.listOf("predicted") : null;
    this.node = element(
      "section",
      {
        class: "column",
        "aria-label": `Answers of ${run.name}`,
        keydown: (/** @type {KeyboardEvent} */ key) => this.onKey(key),
      },
      this.known.length > 0 ? this.listOf("known") : null,
      this.predictedNode,
      this.all.length === 0 ? nothing(place) : null,
    );
  }

  /** What is shown of both lists. */
  get all() {
    return [...this.known, ...this.predicted];
  }

  /** How many known answers are shown, and of how many. */
  get knownCount() {
    const [shown, total] = [this.known.length, this.result.known_count];
    const whole = total.toLocaleString("en");
    return shown < total ? `${shown.toLocaleString("en")} of ${whole} known` : `${whole} known`;
  }

  /** What a screen reader hears when the answers are there. */
  get summary() {
    if (this.all.length === 0) return "No answers";
    const [{ answer: first }] = this.all;
    const counts = [
      ...(this.known.length > 0 ? [this.knownCount] : []),
      ...(this.predicted.length > 0 ? [`${this.predicted.length} predicted`] : []),
    ];
    return `${counts.join(", ")}; the first is ${shorten(first.entity)}, ${first.status}`;
  }

  /**
   * The answers of one status; a button below them fetches more, while there are more.
   *
   * @param {Status} status
   */
  listOf(status) {
    const own = this[status];
    const more = element("button", { class: "more" });
    const refused = element("div");
    const node = list("", own, more, refused);
    const [heading, rows] = node.children;
    let isWhole = status === "predicted" && own.length < this.place.top;
    const count = () => {
      const left = this.result.known_count - own.length;
      const listed = own.length.toLocaleString("en");
      const predicted = isWhole ? `${listed} predicted` : `The first ${listed} predicted`;
      heading.textContent = status === "known" ? this.knownCount : predicted;
      more.textContent = status === "known" ? `${Math.min(left, MORE)} more of ${left.toLocaleString("en")}` : "More";
      more.hidden = status === "known" ? left === 0 : isWhole;
      if (status === "predicted") more.setAttribute("aria-label", "More predicted answers");
    };
    more.addEventListener("click", async () => {
      more.disabled = true;
      const { run, query, candidates } = this.place;
      const offset = own.length;
      await attempt(refused, this.signal, async () => {
        const next = await post("ask", { run, query, candidates, only: status, top: MORE, offset }, this.signal);
        const added = this.entries(next.answers, status, offset);
        isWhole = status === "predicted" && added.length < MORE;
        own.push(...added);
        rows.append(...added.map(({ row }) => row));
        this.showElsewhere();
        this.other?.column.showElsewhere();
        added[0]?.button.focus();
        count();
      });
      more.disabled = false;
    });
    count();
    return node;
  }

  /**
   * Say beside each answer where it stands in the same list of another run.
   *
   * @param {AnswerColumn} column
   * @param {string} name
   */
  compareWith(column, name) {
    this.other = { column, name };
    this.showElsewhere();
  }

  showElsewhere() {
    if (this.other === null) return;
    const { column, name } = this.other;
    const ranks = new Map(column.all.map(({ answer, rank }) => [keyOf(answer), rank]));
    for (const { answer, rank: own, button } of this.all) {
      const rank = ranks.get(keyOf(answer));
      const move = rank === undefined ? "absent" : rank === own ? "same" : "moved";
      const said = rank === undefined ? `not among those ${answer.status} at ${name}` : `place ${rank} at ${name}`;
      button.querySelector(".elsewhere")?.remove();
      button.append(
        element(
          "span",
          { class: `elsewhere ${move}`, title: said },
          element("span", { "aria-hidden": "true" }, rank === undefined ? "–" : `${rank}.`),
          element("span", { class: "unseen" }, said),
        ),
      );
    }
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
    const found = this.all.find((entry) => entry.answer.entity === answer);
    for (const entry of this.all) {
      entry.row.classList.toggle("open", entry === found);
      entry.button.setAttribute("aria-expanded", String(entry === found));
    }
    if (answer === null) return;
    this.panel = reasonPanel(this.place, answer, this.id, this.pending.signal);
    if (found !== undefined) {
      found.row.append(this.panel);
    } else {
      this.panel.prepend(element("h2", {}, ...breakable(answer), element("small", {}, " is not among these answers")));
      this.node.append(this.panel);
    }
  }

  /**
   * The answers of one status, each with its row and its place in its list.
   *
   * @param {import("./api.js").Answer[]} answers
   * @param {Status} status
   * @param {number} offset
   * @returns {Entry[]}
   */
  entries(answers, status, offset) {
    return answers
      .filter((answer) => answer.status === status)
      .map((answer, at) => {
        const rank = offset + at + 1;
        const button = this.button(answer, rank);
        return { answer, rank, button, row: element("li", { class: "answer" }, button) };
      });
  }

  /**
   * @param {import("./api.js").Answer} answer
   * @param {number} rank
   */
  button({ entity, score, probability, status }, rank) {
    const toggle = () => {
      const place = here();
      go({ ...place, answer: place.answer === entity ? null : entity });
    };
    return element(
      "button",
      { "aria-expanded": "false", "aria-controls": this.id, click: toggle },
      element("span", { class: "rank", "aria-hidden": "true" }, String(rank)),
      element("span", { class: "name", title: entity, dir: "auto" }, ...breakable(entity)),
      statusLabel(status),
      probability === null ? scoreOnly(score) : probabilityBar(probability, status),
    );
  }

  /** @param {KeyboardEvent} key */
  onKey(key) {
    const step = key.key === "ArrowDown" ? 1 : key.key === "ArrowUp" ? -1 : 0;
    const buttons = this.all.map(({ button }) => button);
    const at = buttons.findIndex((button) => button === document.activeElement);
    if (step === 0 || at < 0) return;
    key.preventDefault();
    buttons[at + step]?.focus();
  }
}

/**
 * @param {string} heading
 * @param {Entry[]} entries
 * @param {HTMLElement[]} after
 */
function list(heading, entries, ...after) {
  const rows = element("ol", { class: "answers" }, ...entries.map(({ row }) => row));
  return element("div", { class: "list" }, element("h2", {}, heading), rows, ...after);
}

/**
 * What tells an answer from others of two runs: the lists it may stand in are compared each with its like.
 *
 * @param {import("./api.js").Answer} answer
 */
function keyOf({ entity, status }) {
  return `${status} ${entity}`;
}

/**
 * @param {number} probability
 * @param {Status} status
 */
function probabilityBar(probability, status) {
  const bar = element("span", { class: `bar ${status}`, "aria-hidden": "true" }, element("span", {}));
  bar.style.setProperty("--share", String(probability));
  return element("span", { class: "certainty" }, bar, element("span", { class: "percent" }, percent(probability)));
}

/** @param {number} score */
function scoreOnly(score) {
  const said = `score ${Number(score.toPrecision(2))}`; // a share of all entities, which may be very small
  return element("span", { class: "certainty" }, element("span", { class: "percent" }, said));
}

/** @param {Place} place */
function nothing(place) {
  /** @type {[string, Partial<Place>][]} */
  const changes = [];
  if (place.only !== null) changes.push(["Show all answers", { only: null }]);
  if (place.only !== "known" && place.candidates === "typed")
    changes.push(["Look among all entities", { candidates: "all" }]);
  const remedies = changes.map(([label, change]) =>
    element("button", { click: () => go({ ...here(), ...change }) }, label),
  );
  return element(
    "div",
    { class: "nothing" },
    element(
      "p",
      {},
      place.only === "known" ? "The facts of the graph lead to no answer." : "There are no answers to show.",
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
 * @param {import("./searches.js").NewSearch} search
 * @returns {Promise<View>}
 */
export async function compareView(place, runs, signal, search) {
  const [taken, ...outcomes] = await Promise.all([
    orFailure(get("parse", { query: place.query }, signal)),
    ...runs.map((run) => orFailure(answerColumn(place, run, signal, search))),
  ]);
  const columns = outcomes.filter((outcome) => outcome instanceof AnswerColumn);
  if (columns.length === 0) throw outcomes[0];
  if (columns.length === 2) {
    columns[0].compareWith(columns[1], runs[1].name);
    columns[1].compareWith(columns[0], runs[0].name);
  }
  const nodes = outcomes.map((outcome, at) => {
    const node = outcome instanceof AnswerColumn ? outcome.node : refusal(outcome);
    const notes = [uncalibrated(runs[at]), outcome instanceof AnswerColumn ? negated(outcome.result) : null];
    node.prepend(columnHeading(runs[at], runs[1 - at], columns.length === 2), ...notes.filter((note) => note !== null));
    return node;
  });
  const update = (/** @type {Place | null} */ now) => columns.forEach((column) => column.open(now?.answer ?? null));
  update(place);
  remember(hrefOf(withQuery(place, columns[0].result.query)), columns[0].result.query);
  return {
    title: `${columns[0].result.query}: ${runs[0].name} beside ${runs[1].name}`,
    node: element("div", {}, orderLinks(place, taken), element("div", { class: "columns" }, ...nodes)),
    summary: outcomes.map((outcome, at) => `${runs[at].name}: ${summaryOf(outcome)}`).join(". "),
    update,
  };
}

/**
 * @template Result
 * @param {Promise<Result>} work
 * @returns {Promise<Result | Failure>}
 */
async function orFailure(work) {
  try {
    return await work;
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
 * Links to the same relations in another order, which a commutative model cannot tell apart; none of a query that does
 * not parse, for the runs say what is wrong with it.
 *
 * @param {Place} place
 * @param {{orders: import("./api.js").Taken[]} | Failure} taken
 */
function orderLinks(place, taken) {
  if (taken instanceof Failure || taken.orders.length === 0) return null;
  return element(
    "p",
    { class: "orders" },
    "The same relations in another order: ",
    ...taken.orders.map((order) => element("a", { href: hrefOf(withQuery(place, order.query)) }, queryCode(order))),
  );
}
