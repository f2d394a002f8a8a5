/**
 * The query as chips: an entity, the hops from it, and branches that are joined by and, or and not. Every click is a
 * whole query and an address of its own; the server takes texts apart, and here they are only put together.
 *
 * @module
 */

import { go, here, hrefOf, withEntity, withQuery, withRelation } from "./address.js";
import { Failure, get } from "./api.js";
import { byId, element, inWords, quoteName, shorten, statusMark } from "./elements.js";
import { Picker, entityChoices, nextChoices, relationChoices } from "./picker.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").Branch} Branch */
/** @typedef {import("./api.js").Hop} Hop */
/** @typedef {number[]} Path the places of parts within parts that lead to a branch */

const OFFERED = 12; // relations that one click follows
const LONGEST_CHIP = 40;

/**
 * The text of a branch.
 *
 * @param {Branch} branch
 * @param {boolean} [alone] whether nothing stands beside it, so that it needs no parentheses
 * @returns {string}
 */
export function writeBranch({ negated, entity, joined, parts, hops }, alone = true) {
  let start = entity?.text ?? "";
  if (entity === null) {
    start = parts.map((part) => writeBranch(part, false)).join(joined === "or" ? " | " : " & ");
    if (!alone || hops.length > 0) start = `(${start})`;
  }
  return (negated ? "!" : "") + [start, ...hops.map(({ text }) => text)].join("/");
}

/**
 * A branch of an entity alone.
 *
 * @param {import("./api.js").Named} entity
 * @returns {Branch}
 */
function branchFrom({ name, text }) {
  return { negated: false, entity: { name, text }, joined: null, parts: [], hops: [] };
}

/**
 * @param {Branch} tree
 * @param {Path} path
 */
function branchAt(tree, path) {
  return path.reduce((/** @type {Branch | undefined} */ branch, at) => branch?.parts[at], tree);
}

/**
 * The tree without one branch; a join of one part is that part.
 *
 * @param {Branch} tree
 * @param {Path} path
 * @returns {Branch}
 */
function withoutBranch(tree, path) {
  const above = /** @type {Branch} */ (branchAt(tree, path.slice(0, -1)));
  above.parts.splice(/** @type {number} */ (path.at(-1)), 1);
  if (above.parts.length > 1) return tree;
  const [left] = above.parts;
  const merged = { ...left, negated: above.negated, hops: [...left.hops, ...above.hops] };
  Object.assign(above, merged);
  return tree;
}

export class Builder {
  /**
   * @param {() => string} run the run whose names are offered
   */
  constructor(run) {
    this.node = byId("builder");
    this.run = run;
    /** @type {Branch | null} */
    this.tree = null;
    /** @type {Path} */
    this.active = []; // the branch that clicks lead on from
    this.written = "";
    this.pending = new AbortController();
    this.panel = element("div", { class: "panel", hidden: true });
    /** @type {HTMLElement | null} */
    this.opener = null;
    document.addEventListener("pointerdown", (press) => {
      const inside =
        press.target instanceof Node && (this.panel.contains(press.target) || this.opener?.contains(press.target));
      if (!inside) this.closePanel();
    });
  }

  /** Where typing begins. */
  focus() {
    const field = this.node.querySelector("input") ?? this.node.querySelector("button.plus");
    if (field instanceof HTMLElement) field.focus();
  }

  /**
   * Show the query of a place.
   *
   * @param {Place} place
   */
  async show(place) {
    this.pending.abort();
    this.pending = new AbortController();
    const { signal } = this.pending;
    const text = place.entity === null ? place.query : quoteName(place.entity);
    if (text !== this.written) this.active = [];
    this.written = text;
    if (place.entity !== null) this.put(branchFrom({ name: place.entity, text }), signal);
    else if (!place.query) this.put(null, signal);
    else if (this.tree !== null && writeBranch(this.tree) === text) this.put(this.tree, signal);
    else {
      try {
        const { tree } = await get("parse", { query: place.query }, signal);
        if (!signal.aborted) this.put(tree, signal);
      } catch (failure) {
        if (signal.aborted) return;
        if (!(failure instanceof Failure)) throw failure;
        if (failure.kind === "unreachable") return;
        document.documentElement.dataset.asked = ""; // no room is kept for relations that will not be offered
        this.put(null, signal, place.query); // the page says what is wrong with it
      }
    }
  }

  /**
   * @param {Branch | null} tree
   * @param {AbortSignal} signal
   * @param {string} [broken] a text that is no query
   */
  put(tree, signal, broken) {
    const focused = this.focusedPart();
    this.tree = tree;
    this.node.classList.remove("bare");
    this.closePanel();
    if (tree !== null && branchAt(tree, this.active) === undefined) this.active = [];
    this.offers = element("div", { class: "offers" });
    this.node.replaceChildren(
      ...(tree === null ? [this.startPicker(broken)] : [this.branch(tree, []), this.joiners()]),
      this.offers,
      this.panel,
    );
    if (tree !== null) this.offer(signal);
    if (focused !== null) this.focusOn(focused);
  }

  /** @param {string} [broken] */
  startPicker(broken) {
    const picker = new Picker({
      label: "Start at",
      placeholder:
        broken === undefined ? "Type a name to start with, such as a person or a place" : shorten(broken, 60),
      source: entityChoices(this.run),
      take: (choice) => this.goTo(branchFrom(choice)),
      enter: (typed) => go(withQuery(here(), typed)),
    });
    picker.input.id = "start";
    return picker.node;
  }

  // Going on.

  /**
   * Ask what a tree says; an entity alone is its page.
   *
   * @param {Branch} tree
   */
  goTo(tree) {
    const { entity, hops } = tree;
    const text = writeBranch(tree);
    this.tree = tree;
    this.written = text;
    go(entity !== null && hops.length === 0 ? withEntity(here(), entity.name) : withQuery(here(), text));
  }

  /**
   * Change a copy of the tree, and ask that.
   *
   * @param {(tree: Branch) => Branch | void} change
   */
  edit(change) {
    const tree = structuredClone(/** @type {Branch} */ (this.tree));
    this.goTo(change(tree) ?? tree);
  }

  /**
   * Follow a relation from the end of a branch.
   *
   * @param {Path} path
   * @param {import("./picker.js").Choice} choice
   */
  follow(path, { name, text, inverse }) {
    this.active = path;
    this.edit((tree) => void branchAt(tree, path)?.hops.push({ name, text, inverse }));
  }

  /**
   * Join another branch to all that is there.
   *
   * @param {"and" | "or" | "not"} how
   * @param {import("./picker.js").Choice} choice
   */
  join(how, choice) {
    const joined = how === "or" ? "or" : "and";
    const added = { ...branchFrom(choice), negated: how === "not" };
    this.edit((tree) => {
      if (tree.joined === joined && tree.hops.length === 0 && !tree.negated) {
        tree.parts.push(added);
        this.active = [tree.parts.length - 1];
        return tree;
      }
      this.active = [1];
      return { negated: false, entity: null, joined, parts: [tree, added], hops: [] };
    });
  }

  /**
   * The relations that one click follows from the branch that was built last.
   *
   * @param {AbortSignal} signal
   */
  async offer(signal) {
    const branch = branchAt(/** @type {Branch} */ (this.tree), this.active);
    if (branch === undefined || this.offers === undefined) return;
    const { offers } = this;
    const path = this.active;
    const after = writeBranch({ ...branch, negated: false });
    try {
      const { relations } = await get("relations", { run: this.run(), after, limit: 400 }, signal);
      if (signal.aborted) return;
      const choices = relationChoices(relations);
      const from =
        path.length > 0 && branch.entity !== null ? `From ${shorten(branch.entity.name, 30)} go on` : "Go on";
      const more = choices.length - OFFERED;
      offers.replaceChildren(
        element("span", { class: "muted" }, choices.length > 0 ? from : "Nothing leads on from here."),
        ...choices.slice(0, OFFERED).map((choice) => this.offered(choice, path)),
        ...(more > 0
          ? [element("button", { class: "quiet", click: () => this.pickNext(path) }, `${more} more …`)]
          : []),
      );
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof Failure)) throw failure;
      this.node.classList.add("bare"); // what is wrong is said when the query is asked
    }
  }

  /**
   * @param {import("./picker.js").Choice} choice
   * @param {Path} path
   */
  offered(choice, path) {
    return element(
      "button",
      {
        class: "offer",
        title: `${choice.text}: ${choice.note}`,
        click: () => this.follow(path, choice),
      },
      choice.mark === null ? null : statusMark(choice.mark),
      choice.label,
      element("span", { class: "unseen" }, `, ${choice.note}`),
    );
  }

  // Chips.

  /**
   * @param {Branch} branch
   * @param {Path} path
   * @returns {HTMLElement}
   */
  branch(branch, path) {
    const { entity, joined, parts, hops } = branch;
    const inner =
      entity !== null
        ? this.entityChip(entity.name, branch, path)
        : element(
            "div",
            { class: "joined", role: "group", "aria-label": joined === "or" ? "Any of these" : "All of these" },
            ...parts.flatMap((part, at) => [
              at === 0 && !part.negated ? null : this.connective(part, [...path, at], at),
              this.branch(part, [...path, at]),
            ]),
          );
    const isActive = this.active.join() === path.join();
    return element(
      "div",
      { class: isActive ? "branch active" : "branch" },
      inner,
      ...hops.map((hop, at) => this.hopChip(hop, at, branch, path)),
      element(
        "button",
        {
          class: "plus",
          "data-part": `plus ${path.join()}`,
          "aria-label": entity === null ? "Go on from these" : `Go on from ${shorten(entity.name, LONGEST_CHIP)}`,
          "aria-haspopup": "dialog",
          click: () => this.pickNext(path),
        },
        "+",
      ),
    );
  }

  /**
   * @param {string} name
   * @param {Branch} branch
   * @param {Path} path
   */
  entityChip(name, branch, path) {
    /** @type {[string, () => void][]} */
    const deeds = [
      ["Open its page", () => go(withEntity(here(), name))],
      ["Replace", () => this.pickEntity(path)],
    ];
    if (path.length > 0) {
      deeds.push(
        [branch.negated ? "Keep these (no not)" : "Exclude these (not)", () => this.toggleNot(path)],
        ["Remove this branch", () => this.edit((tree) => withoutBranch(tree, path))],
      );
    } else deeds.push(["Start again", () => go(withQuery(here(), ""))]);
    return this.chip("entity", shorten(name, LONGEST_CHIP), name, `${path.join()} entity`, deeds);
  }

  /**
   * @param {Hop} hop
   * @param {number} at
   * @param {Branch} branch
   * @param {Path} path
   */
  hopChip(hop, at, branch, path) {
    const last = branch.hops.length - 1;
    /** @type {[string, () => void][]} */
    const deeds = [
      ["Turn round", () => this.changeHops(path, (hops) => void (hops[at] = flipped(hops[at])))],
      ["Replace", () => this.pickInstead(path, at)],
      ["Remove", () => this.changeHops(path, (hops) => void hops.splice(at, 1))],
    ];
    if (at > 0) deeds.push(["Move to the left", () => this.moveHop(path, at, at - 1)]);
    if (at < last) deeds.push(["Move to the right", () => this.moveHop(path, at, at + 1)]);
    deeds.push(["About this relation", () => go(withRelation(here(), hop.name))]);
    const name = shorten(hop.name.split("/").filter(Boolean).at(-1) ?? hop.name, LONGEST_CHIP);
    const label = hop.inverse ? `‹ ${name}` : `${name} ›`;
    const chip = this.chip("hop", label, inWords(hop.name, hop.inverse), `${path.join()} hop ${at}`, deeds);
    chip.draggable = true;
    chip.addEventListener("dragstart", (drag) => drag.dataTransfer?.setData("text/plain", `${path.join()} ${at}`));
    chip.addEventListener("dragover", (drag) => drag.preventDefault());
    chip.addEventListener("drop", (drop) => {
      drop.preventDefault();
      const [from, place] = drop.dataTransfer?.getData("text/plain").split(" ") ?? [];
      if (from === path.join() && Number(place) !== at) this.moveHop(path, Number(place), at);
    });
    return chip;
  }

  /**
   * @param {string} kind
   * @param {string} label
   * @param {string} meaning
   * @param {string} part by which the focus finds it again
   * @param {[string, () => void][]} deeds
   */
  chip(kind, label, meaning, part, deeds) {
    const chip = element(
      "button",
      {
        class: `chip ${kind}`,
        title: meaning,
        "data-part": part,
        dir: kind === "entity" ? "auto" : null,
        "aria-haspopup": "dialog",
        "aria-label": `${kind === "entity" ? "Entity" : "Relation"} ${shorten(meaning, 100)}: change`,
        click: () => this.openMenu(chip, shorten(meaning, 60), deeds),
      },
      label,
    );
    return chip;
  }

  /**
   * @param {Branch} part
   * @param {Path} path
   * @param {number} at
   */
  connective(part, path, at) {
    const above = branchAt(/** @type {Branch} */ (this.tree), path.slice(0, -1));
    const isOr = above?.joined === "or";
    const word = [at === 0 ? null : isOr ? "or" : "and", part.negated ? "not" : null].filter(Boolean).join(" ");
    const other = isOr ? "and" : "or";
    const canTurn = at > 0 && !above?.parts.some(({ negated }) => negated);
    if (!canTurn) return element("span", { class: "connective" }, word);
    const turn = () =>
      this.edit((tree) => {
        const joined = branchAt(tree, path.slice(0, -1));
        if (joined !== undefined) joined.joined = other;
      });
    const label = `${word}: make it ${other}`;
    return element("button", { class: "connective", "aria-label": label, click: turn }, word);
  }

  joiners() {
    const joiner = (
      /** @type {"and" | "or" | "not"} */ how,
      /** @type {string} */ label,
      /** @type {string} */ meaning,
    ) => {
      const button = element(
        "button",
        {
          class: "quiet joiner",
          title: meaning,
          "data-part": `join ${how}`,
          "aria-haspopup": "dialog",
          click: () =>
            this.openPicker(button, `${label}, starting at`, entityChoices(this.run), (choice) =>
              this.join(how, choice),
            ),
        },
        label,
      );
      return button;
    };
    return element(
      "div",
      { class: "joiners" },
      joiner("and", "and …", "only what another path leads to as well"),
      joiner("or", "or …", "also what another path leads to"),
      joiner("not", "and not …", "without what another path leads to"),
      element("button", { class: "quiet", click: () => go(withQuery(here(), "")) }, "Start again"),
    );
  }

  // Changes.

  /**
   * @param {Path} path
   * @param {(hops: Hop[]) => void} change
   */
  changeHops(path, change) {
    this.edit((tree) => {
      const branch = branchAt(tree, path);
      if (branch !== undefined) change(branch.hops);
    });
  }

  /**
   * @param {Path} path
   * @param {number} from
   * @param {number} to
   */
  moveHop(path, from, to) {
    this.changeHops(path, (hops) => void hops.splice(to, 0, ...hops.splice(from, 1)));
  }

  /** @param {Path} path */
  toggleNot(path) {
    this.edit((tree) => {
      const branch = branchAt(tree, path);
      if (branch !== undefined) branch.negated = !branch.negated;
    });
  }

  // Panels.

  /** @param {Path} path */
  pickNext(path) {
    const branch = /** @type {Branch} */ (branchAt(/** @type {Branch} */ (this.tree), path));
    const after = writeBranch({ ...branch, negated: false });
    this.openPicker(this.part(`plus ${path.join()}`), "Go on along", nextChoices(this.run, after), (choice) =>
      this.follow(path, choice),
    );
  }

  /**
   * @param {Path} path
   * @param {number} at
   */
  pickInstead(path, at) {
    const branch = /** @type {Branch} */ (branchAt(/** @type {Branch} */ (this.tree), path));
    const after = writeBranch({ ...branch, negated: false, hops: branch.hops.slice(0, at) });
    this.openPicker(this.part(`${path.join()} hop ${at}`), "Another relation", nextChoices(this.run, after), (choice) =>
      this.changeHops(path, (hops) => void hops.splice(at, 1, choice)),
    );
  }

  /** @param {Path} path */
  pickEntity(path) {
    this.openPicker(this.part(`${path.join()} entity`), "Another entity", entityChoices(this.run), ({ name, text }) =>
      this.edit((tree) => {
        const branch = branchAt(tree, path);
        if (branch !== undefined) branch.entity = { name, text };
      }),
    );
  }

  /**
   * @param {HTMLElement} opener
   * @param {string} label
   * @param {import("./picker.js").Source} source
   * @param {(choice: import("./picker.js").Choice) => void} take
   */
  openPicker(opener, label, source, take) {
    const picker = new Picker({ label, placeholder: label, source, take, close: () => this.closePanel(true) });
    this.openPanel(opener, label, [picker.node]);
    picker.input.focus();
  }

  /**
   * @param {HTMLElement} opener
   * @param {string} label
   * @param {[string, () => void][]} deeds
   */
  openMenu(opener, label, deeds) {
    const buttons = deeds.map(([name, deed]) =>
      element(
        "button",
        {
          class: "quiet",
          click: () => {
            this.closePanel();
            deed();
          },
        },
        name,
      ),
    );
    this.openPanel(opener, label, [element("p", { class: "muted" }, label), ...buttons]);
    buttons[0].focus();
  }

  /**
   * @param {HTMLElement} opener
   * @param {string} label
   * @param {HTMLElement[]} content
   */
  openPanel(opener, label, content) {
    this.opener = opener;
    this.panel = element(
      "div",
      {
        class: "panel",
        role: "dialog",
        "aria-label": label,
        keydown: (/** @type {KeyboardEvent} */ key) => {
          if (key.key === "Escape") this.closePanel(true);
        },
      },
      ...content,
    );
    this.node.querySelector(".panel")?.replaceWith(this.panel);
    const [own, room] = [opener.getBoundingClientRect(), this.node.getBoundingClientRect()];
    const left = Math.max(0, Math.min(own.left - room.left, room.width - this.panel.offsetWidth));
    this.panel.style.setProperty("left", `${left}px`);
    this.panel.style.setProperty("top", `${own.bottom - room.top + 6}px`);
  }

  /** @param {boolean} [back] whether the focus goes back to what opened it */
  closePanel(back = false) {
    if (this.panel.hidden) return;
    this.panel.hidden = true;
    if (back) this.opener?.focus();
  }

  // The focus outlives what it stood on.

  focusedPart() {
    const focused = document.activeElement;
    if (!this.node.contains(focused)) return null;
    return focused?.getAttribute("data-part") ?? `plus ${this.active.join()}`;
  }

  /** @param {string} part */
  part(part) {
    const found = this.node.querySelector(`[data-part="${part}"]`);
    return found instanceof HTMLElement ? found : this.node;
  }

  /** @param {string} part */
  focusOn(part) {
    const found = this.node.querySelector(`[data-part="${part}"]`) ?? this.node.querySelector(".plus");
    if (found instanceof HTMLElement) found.focus({ preventScroll: true });
  }
}

/**
 * @param {Hop} hop
 * @returns {Hop}
 */
function flipped({ name, text, inverse }) {
  return { name, inverse: !inverse, text: inverse ? text.replace(/^\^/, "") : `^${text}` };
}

/**
 * A link that narrows a query to what another branch leads to as well.
 *
 * @param {Place} place
 * @param {string} query
 * @param {string} branch
 */
export function narrowedHref(place, query, branch) {
  return hrefOf(withQuery(place, `${query.includes("|") ? `(${query})` : query} & ${branch}`));
}
