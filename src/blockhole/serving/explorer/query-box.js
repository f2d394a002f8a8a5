/**
 * What is asked as a text: the query box and SPARQL, and the runs and options beside them.
 *
 * The box is a combobox as the ARIA practices describe it. The focus stays in the field, the arrows move through the
 * suggestions, Tab takes one, Enter takes one and asks, Escape closes. The server takes the text apart and says which
 * piece of it a suggestion replaces; nothing here reads queries.
 *
 * @module
 */

import { go, here, statusOf, withQuery } from "./address.js";
import { get } from "./api.js";
import { announce, attempt, byId, columnOf, element, offsetOf, quoteName, shorten, statusMark } from "./elements.js";
import { Combobox } from "./picker.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").Completion} Completion */

export class QueryBox extends Combobox {
  /**
   * @param {object} wiring
   * @param {() => string} wiring.run the run whose names complete
   * @param {(query: string) => void} wiring.ask
   */
  constructor({ run, ask }) {
    const input = /** @type {HTMLInputElement} */ (byId("query"));
    super(
      input,
      byId("suggestions"),
      byId("suggestion-popup"),
      async (signal) => {
        const text = input.value;
        const caret = columnOf(text, input.selectionStart ?? text.length);
        this.offer(await get("complete", { run: run(), text, caret }, signal));
      },
      () => this.close(), // suggestions are a comfort; what is wrong is said when the query is asked
    );
    this.ask = ask;
    /** @type {Completion | null} */
    this.completion = null;
    this.early = input.value; // typed before the server said which runs there are

    input.addEventListener("input", () => {
      this.activate(-1); // what was chosen was chosen for another text
      this.refresh();
    });
    input.addEventListener("click", () => this.refresh());
    input.addEventListener("keydown", (key) => this.onKey(key));
    byId("ask").addEventListener("submit", (submit) => {
      submit.preventDefault();
      this.submit();
    });
  }

  /**
   * Put a query into the box.
   *
   * @param {string} query
   * @param {string} example what an empty box shows
   */
  show(query, example) {
    const text = query || this.early;
    if (this.input.value !== text) this.input.value = text;
    this.input.placeholder = example;
    if (text !== query) this.refresh();
    this.early = "";
  }

  /** Ask what stands in the box. */
  submit() {
    this.close();
    const query = this.input.value.trim();
    if (query) this.ask(query);
    else this.input.focus();
  }

  /** Close the suggestions; none is taken any more. */
  close() {
    super.close();
    this.completion = null;
  }

  /** @param {Completion} completion */
  offer(completion) {
    const { suggestions } = completion;
    const nothingNew = suggestions.length === 0 || (suggestions.length === 1 && completion.complete);
    if (nothingNew || document.activeElement !== this.input) {
      this.close();
      return;
    }
    this.completion = completion;
    this.open(suggestions.map((suggestion, at) => this.suggested(suggestion, at)));
    const kinds = completion.piece.kind === "entity" ? ["entity", "entities"] : ["relation", "relations"];
    announce(`${suggestions.length} ${kinds[suggestions.length === 1 ? 0 : 1]} suggested`);
  }

  /**
   * @param {import("./api.js").Suggestion} suggestion
   * @param {number} at
   */
  suggested({ label, hit, known, similar }, at) {
    const [from, to] = hit.map((column) => offsetOf(label, column));
    const mark = known === null ? null : statusMark(known ? "known" : "predicted");
    const note = known === null ? (similar ? "looks alike" : "") : known ? "facts lead on" : "the model only";
    const [before, typed, after] = [label.slice(0, from), label.slice(from, to), label.slice(to)].map((part) =>
      shorten(part),
    );
    return this.option(at, label, [before, element("b", {}, typed), after], [mark, note], () => this.take(at, true));
  }

  /**
   * Put a suggestion into the query. After an entity come relations; after a relation the query can be asked.
   *
   * @param {number} at
   * @param {boolean} thenAsk
   */
  take(at, thenAsk) {
    if (this.completion === null) return;
    const { text, piece, suggestions } = this.completion;
    const [before, after] = [text.slice(0, offsetOf(text, piece.column)), text.slice(offsetOf(text, piece.end))];
    const now = this.input.value;
    if (now.length < before.length + after.length || !now.startsWith(before) || !now.endsWith(after)) return;
    // Whatever stands between is the piece, though more of it was typed since.
    const slash = piece.kind === "entity" && !after.startsWith("/") ? "/" : "";
    const caret = before.length + suggestions[at].text.length + slash.length;
    this.close();
    this.input.value = before + suggestions[at].text + slash + after;
    this.input.setSelectionRange(caret, caret);
    if (piece.kind === "entity") this.refresh();
    else if (thenAsk) this.submit();
  }

  /** @param {KeyboardEvent} key */
  onKey(key) {
    if (key.isComposing) return;
    if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(key.key)) this.refresh();
    else if (key.key === "ArrowDown" || key.key === "ArrowUp") this.move(key);
    else if (this.completion === null) return;
    else if (key.key === "Escape") {
      this.close();
    } else if (key.key === "Enter" && this.active >= 0) {
      key.preventDefault();
      this.take(this.active, true);
    } else if (key.key === "Tab" && !key.shiftKey) this.onTab(key);
  }

  /**
   * Tab leaves the box, as everywhere, unless there is a name begun that it can complete.
   *
   * @param {KeyboardEvent} key
   */
  async onTab(key) {
    if (this.isFresh()) {
      if (this.active < 0 && !this.canComplete()) return;
      key.preventDefault();
    } else {
      key.preventDefault(); // the keys were faster than the server, so what can be completed is not known yet
      const text = this.input.value;
      await this.refresh();
      if (this.input.value !== text) return; // and further ones came meanwhile
      if (!this.canComplete()) {
        byId("ask").querySelector("button")?.focus(); // where Tab leads
        return;
      }
    }
    this.take(Math.max(this.active, 0), false);
  }

  /** Whether the suggestions are for what stands in the box. */
  isFresh() {
    return this.completion?.text === this.input.value;
  }

  /** Whether a name has begun that is none of the suggestions yet. */
  canComplete() {
    return this.completion !== null && !this.completion.complete && this.completion.piece.text.trim() !== "";
  }
}

// Three ways to write one query: as chips, as text, in SPARQL. The choice is the browser's; the address has the query.

/** @typedef {"build" | "text" | "sparql"} Way */

/** @type {Way[]} */
const WAYS = ["build", "text", "sparql"];

export class Ways {
  /**
   * @param {object} parts
   * @param {QueryBox} parts.box
   * @param {import("./builder.js").Builder} parts.builder
   * @param {() => string} parts.run
   */
  constructor({ box, builder, run }) {
    this.box = box;
    this.builder = builder;
    this.run = run;
    this.area = /** @type {HTMLTextAreaElement} */ (byId("sparql"));
    this.failed = byId("sparql-problem");
    this.pending = new AbortController();
    /** @type {Place | null} */
    this.place = null;
    for (const way of WAYS) byId(`way-${way}`).addEventListener("click", () => this.choose(way));
    byId("ask-sparql").addEventListener("click", () => this.askSparql());
    document.addEventListener("keydown", (key) => {
      const isTyping = key.target instanceof HTMLElement && key.target.matches("input, select, textarea");
      if (key.key !== "/" || isTyping || key.ctrlKey || key.metaKey || key.altKey) return;
      key.preventDefault();
      this.focus();
    });
    this.choose(WAYS.find((way) => way === document.documentElement.dataset.way) ?? "build", false);
  }

  /**
   * @param {Way} way
   * @param {boolean} [keep]
   */
  choose(way, keep = true) {
    this.way = way;
    document.documentElement.dataset.way = way;
    for (const each of WAYS) byId(`way-${each}`).setAttribute("aria-pressed", String(each === way));
    if (!keep) return;
    try {
      localStorage.setItem("blockhole.way", way);
    } catch {
      // storage is forbidden: then it holds until the page is left
    }
    this.follow();
    this.focus();
  }

  focus() {
    if (this.way === "build") this.builder.focus();
    else if (this.way === "sparql") this.area.focus();
    else {
      this.box.input.focus();
      this.box.input.select();
    }
  }

  /**
   * Show the query of a place in all three.
   *
   * @param {Place} place
   * @param {string} example
   */
  show(place, example) {
    const text = place.query || (place.entity === null ? "" : `${quoteName(place.entity)}/`);
    this.box.show(text, example);
    this.place = place;
    document.documentElement.dataset.asked = place.query ? "q" : place.entity === null ? "" : "entity";
    this.follow();
  }

  /** Let the way that is seen show the query; the others would ask the server for nothing. */
  follow() {
    if (this.place === null) return;
    if (this.way === "build") this.builder.show(this.place);
    else if (this.way === "sparql") this.showSparql(this.place.query);
  }

  /** @param {string} query */
  async showSparql(query) {
    this.pending.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    this.area.value = "";
    if (!query) return;
    await attempt(this.failed, signal, async () => {
      const { sparql } = await get("translate", { run: this.run(), query }, signal);
      this.area.value = sparql;
    });
  }

  async askSparql() {
    const { signal } = this.pending;
    await attempt(this.failed, signal, async () => {
      const { query } = await get("translate", { run: this.run(), sparql: this.area.value }, signal);
      go(withQuery(here(), query));
    });
  }
}

// The runs and the options: they show the address, and changing one changes the address.

const run = select("run");
const versus = select("versus");
const candidates = select("candidates");
const only = select("only");
const top = select("top");

/**
 * Offer the runs, and follow the choices. A query that is typed and not yet asked is asked with them.
 *
 * @param {import("./api.js").Runs} runs
 * @param {() => string} typed what stands in the query box
 */
export function wireOptions(runs, typed) {
  const current = () => (typed() && typed() !== here().query ? withQuery(here(), typed()) : here());
  run.replaceChildren(...runs.runs.map(({ name }) => element("option", { value: name }, name)));
  versus.replaceChildren(
    element("option", { value: "" }, "nothing"),
    ...runs.runs.map(({ name }) => element("option", { value: name }, name)),
  );
  for (const part of document.querySelectorAll(".beside")) part.toggleAttribute("hidden", runs.runs.length < 2);
  run.addEventListener("change", () => {
    const place = current();
    go({ ...place, run: run.value, versus: place.versus === run.value ? null : place.versus });
  });
  versus.addEventListener("change", () => go({ ...current(), versus: versus.value || null }));
  candidates.addEventListener("change", () => {
    go({ ...current(), candidates: candidates.value === "all" ? "all" : "typed" });
  });
  only.addEventListener("change", () => {
    go({ ...current(), only: only.value === "known" || only.value === "predicted" ? only.value : null });
  });
  top.addEventListener("change", () => go({ ...current(), top: Number(top.value) }));
}

/**
 * Show a place.
 *
 * @param {Place} place
 * @param {string} running the run that answers there
 */
export function showOptions(place, running) {
  run.value = running;
  versus.value = place.versus ?? "";
  for (const option of versus.options) option.disabled = option.value === running;
  candidates.value = place.candidates;
  only.value = statusOf(place) ?? "";
  top.value = String(place.top);
}

/** @param {string} id */
function select(id) {
  return /** @type {HTMLSelectElement} */ (byId(id));
}
