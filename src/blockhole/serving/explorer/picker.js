/**
 * A field that offers what may be chosen: a combobox as the ARIA practices describe it, of entities or of relations. It
 * stands in the page, or in a panel below what opened it.
 *
 * @module
 */

import { Failure, getEntities, getRelations } from "./api.js";
import { counted, element, inWords, shorten, statusMark } from "./elements.js";

const PAUSE = 40; // milliseconds between the last key and the request
const ENTITIES_SHOWN = 12;
const RELATIONS_ASKED = 400;

/**
 * What can be chosen: `text` goes into a query.
 *
 * @typedef {object} Choice
 * @property {string} name
 * @property {string} text
 * @property {boolean} inverse
 * @property {string} label
 * @property {string} note
 * @property {import("./api.js").Status | null} mark
 */
/** @typedef {(typed: string, signal: AbortSignal) => Promise<Choice[]>} Source */

let pickers = 0;

/**
 * Entities whose names begin with what is typed, hold it, or look like it.
 *
 * @param {() => string} run
 * @returns {Source}
 */
export function entityChoices(run) {
  return async (typed, signal) => {
    const { entities } = await getEntities({ run: run(), prefix: typed, limit: ENTITIES_SHOWN }, signal);
    return entities.map(({ name, text, match }) => {
      return { name, text, inverse: false, label: name, note: match === "similar" ? "looks alike" : "", mark: null };
    });
  };
}

/**
 * Relations that lead on: known ones before those that only the model can follow, forwards before backwards.
 *
 * @param {import("./api.js").NextRelation[]} relations
 * @returns {Choice[]}
 */
export function relationChoices(relations) {
  const order = (/** @type {import("./api.js").NextRelation} */ each) => (each.known ? 0 : 2) + (each.inverse ? 1 : 0);
  return [...relations]
    .sort((a, b) => order(a) - order(b))
    .map(({ name, text, inverse, known, facts }) => ({
      name,
      text,
      inverse,
      label: inWords(name, inverse),
      note: known ? counted(facts, "fact", "facts") : "predicted only",
      mark: known ? "known" : "predicted",
    }));
}

/**
 * The relations after the beginning of a query, those that fit what is typed.
 *
 * @param {() => string} run
 * @param {string} after
 * @returns {Source}
 */
export function nextChoices(run, after) {
  /** @type {Choice[] | null} */
  let all = null; // no promise of them: the next key would abort what it waits for
  return async (typed, signal) => {
    if (all === null) {
      const { relations } = await getRelations({ run: run(), after, limit: RELATIONS_ASKED }, signal);
      all = relationChoices(relations);
    }
    const wanted = typed.trim().toLowerCase();
    return all.filter(({ label, text }) => `${label} ${text}`.toLowerCase().includes(wanted));
  };
}

export class Picker {
  /**
   * @param {object} wiring
   * @param {string} wiring.label what the field is for
   * @param {string} wiring.placeholder
   * @param {Source} wiring.source
   * @param {(choice: Choice) => void} wiring.take
   * @param {(typed: string) => void} [wiring.enter] what Enter does where nothing is chosen
   * @param {() => void} [wiring.close] what Escape does
   */
  constructor({ label, placeholder, source, take, enter, close }) {
    const id = `picker-${(pickers += 1)}`;
    this.source = source;
    this.take = take;
    this.enter = enter;
    this.onClose = close;
    /** @type {Choice[]} */
    this.choices = [];
    this.active = -1;
    this.pending = new AbortController();
    this.list = element("ul", { role: "listbox", id, "aria-label": `${label}: suggestions`, tabindex: "-1" });
    this.input = element("input", {
      type: "text",
      role: "combobox",
      "aria-label": label,
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": id,
      placeholder,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      input: () => this.refresh(),
      focus: () => this.refresh(),
      keydown: (/** @type {KeyboardEvent} */ key) => this.onKey(key),
      blur: () => this.shut(),
    });
    this.list.hidden = true;
    this.list.addEventListener("mousedown", (press) => press.preventDefault()); // the field keeps the focus
    this.node = element("div", { class: "picker", dir: "auto" }, this.input, this.list);
  }

  async refresh() {
    this.pending.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    if (signal.aborted) return;
    try {
      const choices = await this.source(this.input.value, signal);
      if (!signal.aborted && document.activeElement === this.input) this.offer(choices);
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof Failure)) throw failure;
      this.list.replaceChildren(element("li", { role: "option", "aria-disabled": "true" }, failure.message));
      this.list.hidden = false;
    }
  }

  /** @param {Choice[]} choices */
  offer(choices) {
    this.choices = choices;
    this.active = -1;
    this.input.removeAttribute("aria-activedescendant");
    const nothing = element("li", { role: "option", "aria-disabled": "true", class: "muted" }, "Nothing fits.");
    this.list.replaceChildren(
      ...(choices.length === 0 ? [nothing] : choices.map((choice, at) => this.option(choice, at))),
    );
    this.list.hidden = false;
    this.list.scrollTop = 0;
    this.input.setAttribute("aria-expanded", "true");
  }

  /**
   * @param {Choice} choice
   * @param {number} at
   */
  option(choice, at) {
    const { label, text, name, note, mark } = choice;
    return element(
      "li",
      {
        role: "option",
        id: `${this.list.id}-${at}`,
        "aria-selected": "false",
        title: text,
        click: () => this.choose(choice),
      },
      element(
        "span",
        { class: "label" },
        shorten(label),
        label === name ? null : element("code", {}, shorten(text, 60)),
      ),
      element("span", { class: "note" }, mark === null ? null : statusMark(mark), note),
    );
  }

  /** @param {Choice} choice */
  choose(choice) {
    this.shut();
    this.take(choice);
  }

  shut() {
    this.pending.abort();
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  /** @param {KeyboardEvent} key */
  onKey(key) {
    if (key.isComposing) return;
    if (key.key === "ArrowDown" || key.key === "ArrowUp") {
      key.preventDefault();
      const count = this.choices.length;
      if (this.list.hidden || count === 0) this.refresh();
      else this.activate((this.active + (key.key === "ArrowDown" ? 1 : count - (this.active < 0 ? 0 : 1))) % count);
    } else if (key.key === "Enter") {
      key.preventDefault();
      if (!this.list.hidden && this.active >= 0) this.choose(this.choices[this.active]);
      else if (this.enter !== undefined && this.input.value.trim()) this.enter(this.input.value.trim());
      else if (!this.list.hidden && this.choices.length > 0) this.choose(this.choices[0]);
    } else if (key.key === "Escape") {
      if (this.list.hidden || this.onClose !== undefined) this.onClose?.();
      this.shut();
    }
  }

  /** @param {number} at */
  activate(at) {
    this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = at;
    const option = this.list.children[at];
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
  }
}
