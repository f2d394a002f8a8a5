/**
 * The page: shows the place that the address names, and keeps the query box, the options and the view together.
 *
 * @module
 */

import { go, here, hrefOf, onPlace, withQuery } from "./address.js";
import { Failure, getRuns } from "./api.js";
import { answersView, compareView } from "./answers.js";
import { byId, element, offsetOf, problem, shorten } from "./elements.js";
import { entityView } from "./entity-page.js";
import { QueryBox, showOptions, wireOptions } from "./query-box.js";
import { welcomeView } from "./welcome.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").Runs} Runs */
/** @typedef {import("./answers.js").View} View */

class Page {
  /** @param {Runs} runs */
  constructor(runs) {
    this.runs = runs;
    this.view = byId("view");
    this.problem = byId("problem");
    this.pending = new AbortController();
    /** @type {{key: string, view: View} | null} */
    this.shown = null;
    this.box = new QueryBox({
      run: () => this.runOf(here()),
      ask: (query) => go(withQuery(here(), query)),
      announce,
    });
    wireOptions(runs, () => this.box.input.value.trim());
    onPlace(() => this.show());
  }

  /** Show what the address names; when only the open answer differs, open it in what is there. */
  async show() {
    const place = here();
    this.pending.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    const running = this.runs.runs.find((run) => run.name === this.runOf(place));
    this.box.show(place.query, running?.example ?? "");
    showOptions(place, this.runOf(place));
    const key = hrefOf({ ...place, answer: null });
    if (this.shown?.key === key && this.shown.view.open !== undefined) {
      this.clear(); // whoever asked for something else and went back no longer waits for it
      this.shown.view.open(place.answer);
      return;
    }
    this.view.setAttribute("aria-busy", "true");
    try {
      const view = await this.make(place, signal);
      if (!signal.aborted) this.put(view, key, place);
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof Failure)) throw failure;
      this.fail(failure);
    }
  }

  /**
   * @param {Place} place
   * @param {AbortSignal} signal
   * @returns {Promise<View>}
   */
  async make(place, signal) {
    const run = this.info(this.runOf(place));
    if (place.entity !== null) {
      return entityView({ ...place, entity: place.entity }, run, signal, (beginning) => this.box.begin(beginning));
    }
    if (!place.query) return welcomeView(place, run);
    if (place.versus === null) return answersView(place, run, signal, announce);
    return compareView(place, [run, this.info(place.versus)], signal, announce);
  }

  /**
   * @param {View} view
   * @param {string} key
   * @param {Place} place
   */
  put(view, key, place) {
    const isFirst = this.shown === null;
    this.leave();
    this.shown = { key, view };
    this.view.replaceChildren(view.node);
    document.title = view.title ? `${shorten(view.title)} · BlockHolE` : "BlockHolE explorer";
    announce(view.summary);
    if (!isFirst && place.entity !== null) {
      scrollTo(0, 0);
      this.view.focus({ preventScroll: true }); // a new page: reading goes on at its top
    }
  }

  /** @param {Failure} failure */
  fail(failure) {
    this.leave();
    this.view.replaceChildren(element("h1", { class: "unseen" }, "Nothing to show"));
    document.title = "BlockHolE explorer";
    this.problem.replaceChildren(problem(failure, (query) => go(withQuery(here(), query))));
    const { where } = failure;
    if (where?.field !== "query" || where.text !== this.box.input.value || where.column === null) return;
    this.box.input.setAttribute("aria-invalid", "true");
    if (document.activeElement !== this.box.input) return;
    const at = offsetOf(where.text, where.column);
    this.box.input.setSelectionRange(at, at); // typing goes on where the mistake is
  }

  /** Give up what is shown; a reason that is still on its way must not be announced over what comes next. */
  leave() {
    this.shown?.view.open?.(null);
    this.shown = null;
    this.clear();
  }

  /** Take away what was wrong before, and wait for nothing. */
  clear() {
    this.view.removeAttribute("aria-busy");
    this.problem.replaceChildren();
    this.box.input.removeAttribute("aria-invalid");
  }

  /** @param {Place} place */
  runOf(place) {
    return place.run ?? this.runs.default;
  }

  /** @param {string} name */
  info(name) {
    const found = this.runs.runs.find((run) => run.name === name);
    if (found !== undefined) return found;
    const names = this.runs.runs.map((run) => run.name).join(", ");
    throw new Failure("unknown_run", `there is no run ${name}; the server has ${names}.`);
  }
}

/** @param {string} text */
function announce(text) {
  byId("announcer").textContent = text;
}

try {
  await new Page(await getRuns(new AbortController().signal)).show();
} catch (failure) {
  if (!(failure instanceof Failure)) throw failure;
  byId("problem").replaceChildren(problem(failure, () => {}));
}
