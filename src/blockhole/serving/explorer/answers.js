/**
 * Answers as a list, best first. Each can be opened and then shows why it is one.
 *
 * @module
 */

import { go, here } from "./address.js";
import { element } from "./elements.js";
import { breakable, counted, percent, statusLabel } from "./marks.js";
import { reasonPanel } from "./reason.js";

/** @typedef {import("./address.js").Place} Place */

let columns = 0;

/** The answers of one run, in a column of their own. */
export class AnswerColumn {
  /**
   * @param {Place & {run: string}} place
   * @param {import("./api.js").RunInfo} run
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
    return `${counted(answers.length, "answer", "answers")}; the first is ${answers[0].entity}, ${answers[0].status}`;
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
      this.panel.prepend(element("h2", {}, answer, element("small", {}, " is not among these answers")));
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
