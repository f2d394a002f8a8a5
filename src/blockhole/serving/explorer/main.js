/**
 * The page: shows the place that the address names, and keeps the query box, the options and the view together.
 *
 * @module
 */

import { go, here, hrefOf, onPlace, withEntity, withQuery } from "./address.js";
import { Failure, get } from "./api.js";
import { answersView, compareView } from "./answers.js";
import { Builder } from "./builder.js";
import { announce, byId, element, offsetOf, problem, shorten } from "./elements.js";
import { entityView } from "./entity-page.js";
import { wireDrawers } from "./notebook.js";
import { mapView, relationView, runView } from "./pages.js";
import { QueryBox, Ways, showOptions, wireOptions } from "./query-box.js";
import { watched } from "./searches.js";
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
    /** @type {{key: string, view: View, life: AbortController} | null} */
    this.shown = null;
    const run = () => this.runOf(here());
    this.box = new QueryBox({ run, ask: (query) => go(withQuery(here(), query)) });
    this.ways = new Ways({ box: this.box, builder: new Builder(run), run });
    wireDrawers();
    wireOptions(runs, () => this.box.input.value.trim());
    onPlace(() => this.show());
  }

  /** Show what the address names; when only the open answer differs, open it in what is there. */
  async show() {
    const place = here();
    if (this.pending !== this.shown?.life) this.pending.abort();
    const running = this.runs.runs.find((run) => run.name === this.runOf(place));
    this.ways.show(place, running?.example ?? "");
    showOptions(place, this.runOf(place));
    for (const page of /** @type {const} */ (["map", "run"])) {
      byId(`to-${page}`).setAttribute("href", hrefOf({ ...withQuery(place, ""), page }));
    }
    const key = hrefOf({ ...place, answer: null, least: 0 });
    if (this.shown?.key === key && this.shown.view.update !== undefined) {
      this.clear(); // whoever asked for something else and went back no longer waits for it
      this.shown.view.update(place);
      this.pending = this.shown.life;
      return;
    }
    this.pending = new AbortController();
    const { signal } = this.pending;
    this.view.setAttribute("aria-busy", "true");
    try {
      const view = await this.make(place, signal);
      if (!signal.aborted) this.put(view, key, place);
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof Failure)) throw failure;
      const wrong = await this.understood(place, failure, signal);
      if (wrong !== null && !signal.aborted) this.fail(wrong);
    }
  }

  /**
   * A text that is no query may be the name of an entity, or have names that want quotes: then that is shown, and
   * nothing is wrong. A name alone that is misspelt is better said to be unknown, with those that look alike.
   *
   * @param {Place} place
   * @param {Failure} failure
   * @param {AbortSignal} signal
   * @returns {Promise<Failure | null>}
   */
  async understood(place, failure, signal) {
    if (!place.query || failure.kind !== "syntax") return failure;
    try {
      const { entity, query } = await get("read", { run: this.runOf(place), query: place.query }, signal);
      if (signal.aborted || (entity === null && (query === null || query === place.query))) return failure;
      announce(entity === null ? `Read as ${query}` : `The page of ${shorten(entity)}`);
      go(entity === null ? withQuery(place, /** @type {string} */ (query)) : withEntity(place, entity), {
        replace: true,
      });
      return null;
    } catch (other) {
      if (!signal.aborted && !(other instanceof Failure)) throw other;
      return other instanceof Failure && other.nearest.length > 0 ? other : failure;
    }
  }

  /**
   * @param {Place} place
   * @param {AbortSignal} signal
   * @returns {Promise<View>}
   */
  async make(place, signal) {
    const run = this.info(this.runOf(place));
    if (place.page === "map") return mapView(place, run, signal);
    if (place.page === "run") return runView(place, run, signal);
    if (place.relation !== null) return relationView({ ...place, relation: place.relation }, run, signal);
    if (place.entity !== null) return entityView({ ...place, entity: place.entity }, run, signal);
    if (!place.query) return welcomeView(place, run);
    return watched(byId("search"), signal, (search) =>
      place.versus === null
        ? answersView(place, run, signal, search)
        : compareView(place, [run, this.info(place.versus)], signal, search),
    );
  }

  /**
   * @param {View} view
   * @param {string} key
   * @param {Place} place
   */
  put(view, key, place) {
    const isFirst = this.shown === null;
    this.leave();
    this.shown = { key, view, life: this.pending };
    this.view.replaceChildren(view.node);
    document.title = view.title ? `${shorten(view.title)} · BlockHolE` : "BlockHolE explorer";
    announce(view.summary);
    const isPage = place.entity !== null || place.relation !== null || place.page !== null;
    if (!isFirst && isPage && !byId("builder").contains(document.activeElement)) {
      scrollTo(0, 0);
      this.view.focus({ preventScroll: true }); // a new page: reading goes on at its top
    }
  }

  /**
   * Say what is wrong; what was there before stays, as far as it is something.
   *
   * @param {Failure} failure
   */
  fail(failure) {
    this.clear();
    if (this.shown === null) {
      this.view.replaceChildren(element("h1", { class: "unseen" }, "Nothing to show"));
      document.title = "BlockHolE explorer";
    } else this.view.classList.add("stale");
    this.shown = this.shown === null ? null : { ...this.shown, key: "" };
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
    this.shown?.view.update?.(null);
    this.shown?.life.abort();
    this.shown = null;
    this.clear();
  }

  /** Take away what was wrong before, and wait for nothing. */
  clear() {
    this.view.removeAttribute("aria-busy");
    this.view.classList.remove("stale");
    byId("search").hidden = true;
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
    const names = this.runs.runs.map((run) => run.name);
    const message = `there is no run ${shorten(name)} here; the runs are ${names.join(", ")}.`;
    throw new Failure("unknown_run", message, { field: "run", text: name, column: null, end: null }, names);
  }
}

try {
  await new Page(await get("runs", {}, new AbortController().signal)).show();
} catch (failure) {
  if (!(failure instanceof Failure)) throw failure;
  byId("problem").replaceChildren(problem(failure, () => {}));
}
