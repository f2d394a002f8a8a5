/**
 * The query box: a combobox as the ARIA practices describe it. The focus stays in the field, the arrows move through
 * the suggestions, Tab takes one, Enter takes one and asks, Escape closes.
 *
 * @module
 */

import { Failure } from "./api.js";
import { complete } from "./completion.js";
import { byId, element } from "./elements.js";
import { statusMark } from "./marks.js";
import { pieceAt } from "./query-text.js";

/** @typedef {import("./completion.js").Completion} Completion */

const PAUSE = 40; // milliseconds between the last key and the request

export class QueryBox {
  /**
   * @param {object} wiring
   * @param {() => string} wiring.run the run whose names complete
   * @param {(query: string) => void} wiring.ask
   * @param {(text: string) => void} wiring.announce tells a screen reader
   */
  constructor({ run, ask, announce }) {
    this.input = /** @type {HTMLInputElement} */ (byId("query"));
    this.popup = byId("suggestion-popup");
    this.list = byId("suggestions");
    this.run = run;
    this.ask = ask;
    this.announce = announce;
    /** @type {Completion | null} */
    this.completion = null;
    /** @type {number | null} */
    this.active = null;
    this.pending = new AbortController();
    this.early = this.input.value; // typed before the server said which runs there are

    this.input.addEventListener("input", () => {
      this.activate(null); // what was chosen was chosen for another text
      this.refresh();
    });
    this.input.addEventListener("click", () => this.refresh());
    this.input.addEventListener("keydown", (key) => this.onKey(key));
    this.input.addEventListener("blur", () => this.close());
    this.popup.addEventListener("mousedown", (press) => press.preventDefault()); // the field keeps the focus
    byId("ask").addEventListener("submit", (submit) => {
      submit.preventDefault();
      this.submit();
    });
    document.addEventListener("keydown", (key) => {
      if (key.key === "/" && !isField(key.target) && !key.ctrlKey && !key.metaKey && !key.altKey) {
        key.preventDefault();
        this.input.focus();
        this.input.select();
      }
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

  /**
   * Put the beginning of a query into the box and suggest what may follow.
   *
   * @param {string} beginning
   */
  begin(beginning) {
    this.input.value = beginning;
    this.input.focus();
    this.input.setSelectionRange(beginning.length, beginning.length);
    this.refresh();
  }

  /** Ask what stands in the box. */
  submit() {
    this.close();
    const query = this.input.value.trim();
    if (query) this.ask(query);
    else this.input.focus();
  }

  /** Look for suggestions at the caret, unless another key comes first. */
  async refresh() {
    this.pending.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (signal.aborted) return;
    try {
      this.open(await complete(this.run(), this.input.value, this.caret(), signal));
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof Failure)) throw failure;
      this.close(); // suggestions are a comfort; what is wrong is said when the query is asked
    }
  }

  caret() {
    return this.input.selectionStart ?? this.input.value.length;
  }

  /** The name at the caret, as it stands now. */
  piece() {
    return pieceAt(this.input.value, this.caret());
  }

  /** Close the suggestions, also those still on their way. */
  close() {
    this.pending.abort();
    this.completion = null;
    this.popup.hidden = true;
    this.list.replaceChildren();
    this.input.setAttribute("aria-expanded", "false");
    this.activate(null);
  }

  /** @param {Completion} completion */
  open(completion) {
    const { suggestions } = completion;
    const nothingNew = suggestions.length === 0 || (suggestions.length === 1 && completion.complete);
    if (nothingNew || document.activeElement !== this.input) {
      this.close();
      return;
    }
    this.completion = completion;
    this.list.replaceChildren(...suggestions.map((suggestion, at) => this.option(suggestion, at)));
    this.list.scrollTop = 0;
    this.popup.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.activate(null);
    const kinds = completion.kind === "entity" ? ["entity", "entities"] : ["relation", "relations"];
    this.announce(`${suggestions.length} ${kinds[suggestions.length === 1 ? 0 : 1]} suggested`);
  }

  /**
   * @param {import("./completion.js").Suggestion} suggestion
   * @param {number} at
   */
  option({ label, hit: [from, to], status, note }, at) {
    return element(
      "li",
      { role: "option", id: `suggestion-${at}`, "aria-selected": "false", click: () => this.take(at, true) },
      element(
        "span",
        { class: "label" },
        label.slice(0, from),
        element("b", {}, label.slice(from, to)),
        label.slice(to),
      ),
      element("span", { class: "note" }, status === null ? null : statusMark(status), note),
    );
  }

  /** @param {number | null} at */
  activate(at) {
    if (this.active !== null) this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = at;
    if (at === null) {
      this.input.removeAttribute("aria-activedescendant");
      return;
    }
    const option = this.list.children[at];
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
  }

  /**
   * Put a suggestion into the query. After an entity come relations; after a relation the query can be asked.
   *
   * @param {number} at
   * @param {boolean} thenAsk
   */
  take(at, thenAsk) {
    if (this.completion === null) return;
    const { kind, suggestions } = this.completion;
    const { piece } = this.piece();
    const rest = this.input.value.slice(piece.end);
    const slash = kind === "entity" && !rest.startsWith("/") ? "/" : "";
    const before = this.input.value.slice(0, piece.start) + suggestions[at].text + slash;
    this.close();
    this.input.value = before + rest;
    this.input.setSelectionRange(before.length, before.length);
    if (kind === "entity") this.refresh();
    else if (thenAsk) this.submit();
  }

  /** @param {KeyboardEvent} key */
  onKey(key) {
    if (key.isComposing) return;
    if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(key.key)) this.refresh();
    else if (key.key === "ArrowDown" || key.key === "ArrowUp") this.onArrow(key);
    else if (this.completion === null) return;
    else if (key.key === "Escape") {
      this.close();
    } else if (key.key === "Enter" && this.active !== null) {
      key.preventDefault();
      this.take(this.active, true);
    } else if (key.key === "Tab" && !key.shiftKey) this.onTab(key);
  }

  /** @param {KeyboardEvent} key */
  onArrow(key) {
    key.preventDefault();
    if (this.completion === null) {
      this.refresh();
      return;
    }
    const count = this.completion.suggestions.length;
    const down = key.key === "ArrowDown";
    if (this.active === null) this.activate(down ? 0 : count - 1);
    else this.activate((this.active + (down ? 1 : count - 1)) % count);
  }

  /**
   * Tab leaves the box, as everywhere, unless there is a name begun that it can complete.
   *
   * @param {KeyboardEvent} key
   */
  async onTab(key) {
    const isFresh = this.completion?.text === this.input.value;
    if (this.active === null && (this.piece().piece.text.trim() === "" || (isFresh && this.completion?.complete)))
      return;
    key.preventDefault();
    if (!isFresh) await this.refresh(); // the keys were faster than the server
    if (this.completion?.text !== this.input.value) return; // and further ones came meanwhile
    if (this.active !== null || !this.completion.complete) this.take(this.active ?? 0, false);
  }
}

/** @param {EventTarget | null} target */
function isField(target) {
  return target instanceof HTMLElement && target.matches("input, select, textarea");
}
