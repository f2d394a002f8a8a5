/**
 * Fields that offer what may be chosen, comboboxes as the ARIA practices describe them, and such fields for entities
 * and relations, in the page or in a panel below what opened it.
 *
 * @module
 */

import { Failure, get, pause } from "./api.js";
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
    const { entities } = await get("entities", { run: run(), prefix: typed, limit: ENTITIES_SHOWN }, signal);
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
      const { relations } = await get("relations", { run: run(), after, limit: RELATIONS_ASKED }, signal);
      all = relationChoices(relations);
    }
    const wanted = typed.trim().toLowerCase();
    return all.filter(({ label, text }) => `${label} ${text}`.toLowerCase().includes(wanted));
  };
}

/** A field, and below it the options that fit what is typed there. */
export class Combobox {
  /**
   * @param {HTMLInputElement} input
   * @param {HTMLElement} list
   * @param {HTMLElement} popup what opens and closes: the list, or what holds it
   * @param {(signal: AbortSignal) => Promise<void>} look finds what fits, and opens it
   * @param {(failure: Failure) => void} fail
   */
  constructor(input, list, popup, look, fail) {
    this.input = input;
    this.list = list;
    this.popup = popup;
    this.look = look;
    this.fail = fail;
    this.count = 0;
    this.active = -1;
    this.pending = new AbortController();
    input.addEventListener("blur", () => this.close());
    popup.addEventListener("mousedown", (press) => press.preventDefault()); // the field keeps the focus
  }

  /** Look for what fits, unless another key comes first. */
  async refresh() {
    this.pending.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    await pause(PAUSE);
    if (signal.aborted) return;
    try {
      await this.look(signal);
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof Failure)) throw failure;
      this.fail(failure);
    }
  }

  /** @param {HTMLElement[]} options */
  open(options) {
    this.count = options.length;
    this.list.replaceChildren(...options);
    this.list.scrollTop = 0;
    this.popup.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.activate(-1);
  }

  /** Close the list, also one still on its way. */
  close() {
    this.pending.abort();
    this.popup.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.activate(-1);
  }

  /**
   * @param {number} at
   * @param {string} title
   * @param {import("./elements.js").Child[]} label
   * @param {import("./elements.js").Child[]} note
   * @param {() => void} click
   */
  option(at, title, label, note, click) {
    return element(
      "li",
      { role: "option", id: `${this.list.id}-${at}`, "aria-selected": "false", title, click },
      element("span", { class: "label" }, ...label),
      element("span", { class: "note" }, ...note),
    );
  }

  /** @param {number} at -1 for none */
  activate(at) {
    this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = at;
    if (at < 0) {
      this.input.removeAttribute("aria-activedescendant");
      return;
    }
    const option = this.list.children[at];
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
  }

  /**
   * Go on to the option below or above, round at the ends.
   *
   * @param {KeyboardEvent} key
   */
  move(key) {
    key.preventDefault();
    if (this.popup.hidden || this.count === 0) this.refresh();
    else if (key.key === "ArrowDown") this.activate((this.active + 1) % this.count);
    else this.activate((Math.max(this.active, 0) + this.count - 1) % this.count);
  }
}

export class Picker extends Combobox {
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
    const input = element("input", {
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
    });
    const suggestions = { role: "listbox", id, "aria-label": `${label}: suggestions`, tabindex: "-1", hidden: true };
    const list = element("ul", { class: "choices", ...suggestions });
    super(
      input,
      list,
      list,
      async (signal) => {
        const choices = await source(input.value, signal);
        if (!signal.aborted && document.activeElement === input) this.offer(choices);
      },
      ({ message }) => this.say(message),
    );
    this.take = take;
    this.enter = enter;
    this.onClose = close;
    /** @type {Choice[]} */
    this.choices = [];
    this.node = element("div", { class: "picker", dir: "auto" }, input, list);
  }

  /** @param {Choice[]} choices */
  offer(choices) {
    this.choices = choices;
    const options = choices.map((choice, at) => {
      const { label, text, name, note, mark } = choice;
      const written = label === name ? null : element("code", {}, shorten(text, 60));
      const marked = mark === null ? null : statusMark(mark);
      return this.option(at, text, [shorten(label), written], [marked, note], () => this.choose(choice));
    });
    this.open(options);
    if (choices.length === 0) this.say("Nothing fits.");
  }

  /** @param {string} what stands where options would */
  say(what) {
    this.list.replaceChildren(element("li", { role: "option", "aria-disabled": "true", class: "muted" }, what));
    this.list.hidden = false;
  }

  /** @param {Choice} choice */
  choose(choice) {
    this.close();
    this.take(choice);
  }

  /** @param {KeyboardEvent} key */
  onKey(key) {
    if (key.isComposing) return;
    if (key.key === "ArrowDown" || key.key === "ArrowUp") this.move(key);
    else if (key.key === "Enter") {
      key.preventDefault();
      if (!this.list.hidden && this.active >= 0) this.choose(this.choices[this.active]);
      else if (this.enter !== undefined && this.input.value.trim()) this.enter(this.input.value.trim());
      else if (!this.list.hidden && this.choices.length > 0) this.choose(this.choices[0]);
    } else if (key.key === "Escape") {
      if (this.list.hidden || this.onClose !== undefined) this.onClose?.();
      this.close();
    }
  }
}
