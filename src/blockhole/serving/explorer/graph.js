/**
 * A graph that grows: entities, and between them relations with how many facts they have. A click opens what it is on,
 * two clicks lead to an entity's page, two chosen entities can be connected. Beside the drawing stands a list that says
 * the same, for keys and screen readers.
 *
 * @module
 */

import { go, here, withEntity } from "./address.js";
import { askMany, get } from "./api.js";
import {
  announce,
  attempt,
  counted,
  drawing,
  element,
  entityLink,
  inWords,
  percent,
  quoteName,
  shorten,
} from "./elements.js";
import { save, saveFrom } from "./sift.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").Status} Status */
/**
 * @typedef {object} GraphNode
 * @property {string} key
 * @property {"entity" | "relation"} kind
 * @property {string} name
 * @property {number} x
 * @property {number} y
 * @property {number} dx
 * @property {number} dy
 * @property {boolean} pinned
 * @property {SVGElement} mark
 * @property {Bundle | null} bundle of a relation: the facts of it that one entity has
 */
/** @typedef {{owner: string, name: string, inverse: boolean, text: string, total: number, shown: number}} Bundle */
/**
 * @typedef {object} GraphEdge
 * @property {GraphNode} source
 * @property {GraphNode} target
 * @property {Status} status
 * @property {SVGElement} line
 * @property {SVGElement | null} note
 */
/**
 * @typedef {{source: string, target: string, name: string, inverse: boolean, status: Status,
 *   probability: number}} Step
 */

const [WIDTH, HEIGHT] = [960, 480];
const FIRST = { relations: 12, names: 4, whole: 28 }; // what is open at first
const MORE = 12; // names that a click on a relation adds
const MOST = 500;
const PREDICTED = { top: 3, least: 0.2, relations: 24 };
const FORCE = { repulsion: 230, spring: 0.07, length: 80, centre: 0.004, friction: 0.8, still: 0.15 };

export class Graph {
  /**
   * @param {Place & {entity: string}} place
   * @param {string} run
   * @param {AbortSignal} signal
   */
  constructor(place, run, signal) {
    this.place = place;
    this.run = run;
    this.signal = signal;
    /** @type {Map<string, GraphNode>} */
    this.nodes = new Map();
    /** @type {Map<string, GraphEdge>} */
    this.edges = new Map();
    /** @type {string[]} */
    this.chosen = [];
    this.view = { x: -WIDTH / 2, y: -HEIGHT / 2, width: WIDTH, height: HEIGHT }; // all is drawn to the middle, 0, 0
    this.heat = 0;
    this.lines = drawing("g", {});
    this.marks = drawing("g", {});
    this.svg = drawing(
      "svg",
      { class: "graph-drawing", role: "img", "aria-label": "The graph around it; the list below says the same" },
      this.lines,
      this.marks,
    );
    this.showView();
    this.failed = element("div");
    this.list = element("ul", { class: "graph-list" });
    this.connectButton = element("button", { click: () => this.connectChosen() }, "Connect the two chosen");
    this.connectButton.disabled = true;
    const predicted = element("button", { click: () => this.addPredicted() }, "Add predicted edges");
    const tool = (/** @type {string} */ label, /** @type {() => void} */ click) =>
      element("button", { class: "quiet", click }, label);
    this.node = element(
      "figure",
      { class: "graph" },
      this.svg,
      element(
        "div",
        { class: "tools", role: "group", "aria-label": "The graph" },
        predicted,
        this.connectButton,
        tool("Closer", () => this.zoom(0.8)),
        tool("Further", () => this.zoom(1.25)),
        tool("All of it", () => this.fit()),
        tool("SVG", () => save("graph.svg", this.asSvg(), "image/svg+xml")),
        tool("PNG", () => this.savePng()),
      ),
      element(
        "figcaption",
        { class: "muted" },
        "Click an entity or a relation to open it, twice to go there; click two entities with Shift to connect them.",
      ),
      this.failed,
      element("details", {}, element("summary", {}, "The same as a list"), this.list),
    );
    this.wirePointer();
    signal.addEventListener("abort", () => {
      this.heat = 0;
    });
  }

  // What is in it.

  /**
   * The first entity and some of its neighbours.
   *
   * @param {import("./api.js").Neighbourhood} found
   */
  begin(found) {
    const centre = this.entity(found.entity);
    centre.pinned = true;
    this.place = { ...this.place, entity: found.entity };
    centre.mark.classList.add("centre");
    this.grow(found, FIRST.whole);
  }

  /**
   * Add what an entity has: its relations, each with its first names, so many in all.
   *
   * @param {import("./api.js").Neighbourhood} found
   * @param {number} most
   */
  grow(found, most) {
    const owner = this.entity(found.entity);
    owner.mark.classList.add("opened");
    let left = most;
    for (const { name, inverse, text, total, entities } of found.relations.slice(0, FIRST.relations)) {
      const key = `${found.entity}\n${text}`;
      if (this.nodes.has(key) || this.nodes.size >= MOST) continue;
      const relation = this.relation(key, { owner: found.entity, name, inverse, text, total, shown: 0 }, owner);
      this.link(owner, relation, "known", null);
      const names = entities.slice(0, Math.min(left, FIRST.names));
      left -= names.length;
      this.addNames(relation, names);
    }
    this.settle();
  }

  /**
   * @param {GraphNode} relation
   * @param {string[]} names
   */
  addNames(relation, names) {
    const bundle = /** @type {Bundle} */ (relation.bundle);
    for (const name of names) {
      if (this.nodes.size >= MOST) {
        announce(`The drawing holds ${MOST} nodes at most`);
        break;
      }
      this.link(relation, this.entity(name, relation), "known", null);
      bundle.shown += 1;
    }
    const left = bundle.total - bundle.shown;
    const text = relation.mark.querySelector("text");
    if (text !== null) text.textContent = relationLabel(bundle) + (left > 0 ? ` +${left.toLocaleString("en")}` : "");
  }

  /**
   * Steps from entity to entity, such as those of a proof.
   *
   * @param {Step[]} steps
   */
  addSteps(steps) {
    for (const { source, target, name, inverse, status, probability } of steps) {
      const [from, to] = [this.entity(source), this.entity(target, this.nodes.get(source))];
      const note = `${inWords(name, inverse)}${status === "predicted" ? ` ${percent(probability)}` : ""}`;
      this.link(from, to, status, note);
    }
    this.settle();
  }

  /** The most probable edges that the graph does not have, from its centre. */
  async addPredicted() {
    await attempt(this.failed, this.signal, async () => {
      const { entity } = this.place;
      const after = quoteName(entity);
      const found = await get("relations", { run: this.run, after, limit: PREDICTED.relations }, this.signal);
      const groups = found.relations;
      if (groups.length === 0) return;
      const answers = await askMany(
        {
          run: this.run,
          query: groups.map(({ text }) => `${after}/${text}`),
          top: PREDICTED.top,
          candidates: "typed",
          only: "predicted",
        },
        this.signal,
      );
      /** @type {Step[]} */
      const steps = [];
      answers.forEach((each, at) => {
        const { name, inverse } = groups[at];
        for (const { entity: target, probability } of each.answers) {
          if (probability === null || probability < PREDICTED.least) continue;
          steps.push({ source: entity, target, name, inverse, status: "predicted", probability });
        }
      });
      this.addSteps(steps);
      announce(`${counted(steps.length, "predicted edge", "predicted edges")} added`);
    });
  }

  /**
   * @param {string} name
   * @param {GraphNode} [near]
   */
  entity(name, near) {
    const key = `\n${name}`;
    const known = this.nodes.get(key);
    if (known !== undefined) return known;
    const label = shorten(name, 22);
    const width = Math.max(34, 14 + 7.6 * [...label].length);
    const mark = drawing(
      "g",
      { class: "graph-entity" },
      drawing("title", {}, name),
      drawing("rect", { x: -width / 2, y: -14, width, height: 28, rx: 8 }),
      drawing("text", { "text-anchor": "middle", y: 5 }, label),
    );
    return this.add({ key, kind: "entity", name, mark, bundle: null }, near);
  }

  /**
   * @param {string} key
   * @param {Bundle} bundle
   * @param {GraphNode} near
   */
  relation(key, bundle, near) {
    const mark = drawing(
      "g",
      { class: "graph-relation" },
      drawing("title", {}, `${bundle.text}: ${counted(bundle.total, "fact", "facts")}`),
      drawing("circle", { r: 5 }),
      drawing("text", { "text-anchor": "middle", y: -9 }, relationLabel(bundle)),
    );
    return this.add({ key, kind: "relation", name: bundle.text, mark, bundle }, near);
  }

  /**
   * @param {Pick<GraphNode, "key" | "kind" | "name" | "mark" | "bundle">} made
   * @param {GraphNode} [near]
   */
  add(made, near) {
    const turn = 2.4 * this.nodes.size; // a spiral: what comes later stands further out, and no two on one place
    const far = 20 + 3 * Math.sqrt(this.nodes.size);
    /** @type {GraphNode} */
    const node = {
      ...made,
      x: (near?.x ?? 0) + far * Math.cos(turn),
      y: (near?.y ?? 0) + far * Math.sin(turn),
      dx: 0,
      dy: 0,
      pinned: false,
    };
    if (this.nodes.size === 0) node.x = node.y = 0;
    this.nodes.set(node.key, node);
    this.marks.append(node.mark);
    return node;
  }

  /**
   * @param {GraphNode} source
   * @param {GraphNode} target
   * @param {Status} status
   * @param {string | null} said
   */
  link(source, target, status, said) {
    const key = `${source.key}\t${target.key}\t${said ?? ""}`;
    if (this.edges.has(key) || source === target) return;
    const line = drawing("line", { class: `graph-edge ${status}` });
    const note =
      said === null ? null : drawing("text", { class: `graph-note ${status}`, "text-anchor": "middle" }, said);
    this.lines.append(line, ...(note === null ? [] : [note]));
    this.edges.set(key, { source, target, status, line, note });
  }

  // What is done with it.

  /** @param {GraphNode} node */
  async open(node) {
    await attempt(this.failed, this.signal, async () => {
      if (node.kind === "entity") {
        if (node.mark.classList.contains("opened")) return;
        const found = await get("entity", { run: this.run, name: node.name, limit: FIRST.names }, this.signal);
        this.grow(found, FIRST.whole);
        announce(`${shorten(node.name)} is open`);
        return;
      }
      const { owner, text, total, shown } = /** @type {Bundle} */ (node.bundle);
      if (shown >= total) return;
      const question = { run: this.run, name: owner, relation: text, offset: shown, limit: MORE };
      const found = await get("entity", question, this.signal);
      this.addNames(
        node,
        found.relations.flatMap(({ entities }) => entities),
      );
      this.settle();
    });
  }

  /** @param {GraphNode} node */
  choose(node) {
    if (node.kind !== "entity") return;
    this.chosen = this.chosen.includes(node.name)
      ? this.chosen.filter((name) => name !== node.name)
      : [...this.chosen.slice(-1), node.name];
    for (const each of this.nodes.values()) each.mark.classList.toggle("chosen", this.chosen.includes(each.name));
    this.connectButton.disabled = this.chosen.length < 2;
    for (const box of this.list.querySelectorAll("input")) box.checked = this.chosen.includes(box.value);
    announce(
      this.chosen.length === 2 ? `${this.chosen.map((name) => shorten(name, 40)).join(" and ")} chosen` : "",
    );
  }

  connectChosen() {
    const [entity, to] = this.chosen;
    go({ ...withEntity(here(), entity), to });
  }

  // Where it all stands.

  /** Let it move until it is at rest; at once, for who does not like motion. */
  settle() {
    this.showList();
    const wasStill = this.heat === 0;
    this.heat = 1;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      while (this.heat > 0) this.step();
      this.draw();
      this.fit();
    } else if (wasStill) requestAnimationFrame(() => this.frame());
  }

  frame() {
    for (let times = this.nodes.size > 150 ? 1 : 3; times > 0 && this.heat > 0; times -= 1) this.step();
    this.draw();
    if (this.heat > 0) requestAnimationFrame(() => this.frame());
    else this.fit();
  }

  /** One step of forces: all push each other off, edges pull, and all are drawn to the middle. */
  step() {
    const nodes = [...this.nodes.values()];
    for (let i = 0; i < nodes.length; i += 1) {
      const a = nodes[i];
      a.dx -= FORCE.centre * a.x;
      a.dy -= FORCE.centre * 1.8 * a.y; // the drawing is wider than high
      for (let j = i + 1; j < nodes.length; j += 1) {
        const b = nodes[j];
        const [x, y] = [a.x - b.x, a.y - b.y];
        const push = FORCE.repulsion / Math.max(0.4 * x * x + y * y * 1.6, 80); // names are wider than high
        const [px, py] = [push * x * 0.7, push * y];
        a.dx += px;
        a.dy += py;
        b.dx -= px;
        b.dy -= py;
      }
    }
    for (const { source, target } of this.edges.values()) {
      const [x, y] = [target.x - source.x, target.y - source.y];
      const distance = Math.hypot(x, y) || 1;
      const pull = (FORCE.spring * (distance - FORCE.length)) / distance;
      source.dx += pull * x;
      source.dy += pull * y;
      target.dx -= pull * x;
      target.dy -= pull * y;
    }
    let most = 0;
    for (const node of nodes) {
      node.dx *= FORCE.friction * this.heat;
      node.dy *= FORCE.friction * this.heat;
      if (node.pinned) node.dx = node.dy = 0;
      const fast = Math.hypot(node.dx, node.dy);
      const held = fast > 40 ? 40 / fast : 1;
      node.x += held * node.dx;
      node.y += held * node.dy;
      most = Math.max(most, fast);
    }
    this.heat = most < FORCE.still || this.heat < 0.05 ? 0 : this.heat * 0.994;
  }

  draw() {
    for (const { x, y, mark } of this.nodes.values())
      mark.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
    for (const { source, target, line, note } of this.edges.values()) {
      for (const [name, value] of Object.entries({ x1: source.x, y1: source.y, x2: target.x, y2: target.y })) {
        line.setAttribute(name, value.toFixed(1));
      }
      note?.setAttribute("x", ((source.x + target.x) / 2).toFixed(1));
      note?.setAttribute("y", ((source.y + target.y) / 2 - 4).toFixed(1));
    }
  }

  /** @param {number} by */
  zoom(by) {
    const { x, y, width, height } = this.view;
    this.view = {
      x: x + (width * (1 - by)) / 2,
      y: y + (height * (1 - by)) / 2,
      width: width * by,
      height: height * by,
    };
    this.showView();
  }

  /** Show all of it. */
  fit() {
    const nodes = [...this.nodes.values()];
    const [xs, ys] = [nodes.map(({ x }) => x), nodes.map(({ y }) => y)];
    const [left, right] = [Math.min(...xs) - 100, Math.max(...xs) + 100];
    const [top, bottom] = [Math.min(...ys) - 40, Math.max(...ys) + 40];
    const width = Math.max(right - left, ((bottom - top) * WIDTH) / HEIGHT, 0.8 * WIDTH);
    const height = (width * HEIGHT) / WIDTH;
    this.view = { x: (left + right - width) / 2, y: (top + bottom - height) / 2, width, height };
    this.showView();
  }

  showView() {
    const { x, y, width, height } = this.view;
    this.svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  }

  // Pointers.

  wirePointer() {
    /** @type {{node: GraphNode | null, x: number, y: number, moved: boolean} | null} */
    let held = null;
    const scale = () => this.view.width / Math.max(1, this.svg.clientWidth);
    const nodeOf = (/** @type {EventTarget | null} */ target) =>
      [...this.nodes.values()].find(({ mark }) => target instanceof Node && mark.contains(target)) ?? null;
    this.svg.addEventListener("pointerdown", (press) => {
      held = { node: nodeOf(press.target), x: press.clientX, y: press.clientY, moved: false };
    });
    this.svg.addEventListener("pointermove", (move) => {
      if (held === null || move.buttons === 0) return;
      const [x, y] = [(move.clientX - held.x) * scale(), (move.clientY - held.y) * scale()];
      if (!held.moved && Math.hypot(move.clientX - held.x, move.clientY - held.y) < 5) return;
      held = { ...held, x: move.clientX, y: move.clientY, moved: true };
      if (held.node === null) {
        this.view = { ...this.view, x: this.view.x - x, y: this.view.y - y };
        this.showView();
      } else {
        held.node.x += x;
        held.node.y += y;
        held.node.pinned = true;
        this.draw();
      }
    });
    this.svg.addEventListener("click", (click) => {
      const node = nodeOf(click.target);
      if (node === null || held?.moved) return;
      if (click.shiftKey || click.ctrlKey) this.choose(node);
      else this.open(node);
    });
    this.svg.addEventListener("dblclick", (click) => {
      const node = nodeOf(click.target);
      if (node?.kind === "entity") go(withEntity(here(), node.name));
    });
    this.svg.addEventListener(
      "wheel",
      (wheel) => {
        if (!wheel.ctrlKey && !wheel.metaKey) return; // a page that is scrolled past it scrolls on
        wheel.preventDefault();
        this.zoom(wheel.deltaY > 0 ? 1.1 : 0.9);
      },
      { passive: false },
    );
  }

  // The list that says the same.

  showList() {
    const items = [...this.nodes.values()]
      .filter(({ kind }) => kind === "entity")
      .map((node) => {
        const links = [...this.edges.values()].filter(({ source, target }) => source === node || target === node);
        const said = links.map(({ source, target, note, status }) => {
          const other = source === node ? target : source;
          if (other.bundle !== null) {
            const whose = other.bundle.owner === node.name ? "" : ` of ${shorten(other.bundle.owner, 40)}`;
            return `${relationLabel(other.bundle)}${whose}`;
          }
          return `${note?.textContent ?? ""} ${status} ${shorten(other.name, 40)}`;
        });
        const box = element("input", { type: "checkbox", value: node.name, change: () => this.choose(node) });
        box.checked = this.chosen.includes(node.name);
        return element(
          "li",
          {},
          element("label", {}, box, element("span", { class: "unseen" }, `Choose ${shorten(node.name)}`)),
          entityLink(this.place, node.name),
          element("small", {}, ` ${said.slice(0, 6).join("; ")}`),
          node.mark.classList.contains("opened")
            ? null
            : element(
                "button",
                {
                  class: "quiet",
                  "aria-label": `Open ${shorten(node.name)}`,
                  click: () => this.open(node),
                },
                "open",
              ),
        );
      });
    this.list.replaceChildren(...items);
  }

  // Taking it away.

  /** The drawing with its colours in it, as a file needs them. */
  asSvg() {
    const copy = /** @type {SVGElement} */ (this.svg.cloneNode(true));
    const [own, copied] = [this.svg.querySelectorAll("*"), copy.querySelectorAll("*")];
    own.forEach((part, at) => {
      const style = getComputedStyle(part);
      for (const name of [
        "fill",
        "stroke",
        "stroke-width",
        "stroke-dasharray",
        "font-size",
        "font-family",
        "font-weight",
      ]) {
        copied[at].setAttribute(name, style.getPropertyValue(name));
      }
    });
    const { x, y, width, height } = this.view;
    const paper = getComputedStyle(document.body).backgroundColor;
    copy.prepend(drawing("rect", { x, y, width, height, fill: paper }));
    copy.setAttribute("width", String(WIDTH));
    copy.setAttribute("height", String(HEIGHT));
    return new XMLSerializer().serializeToString(copy);
  }

  async savePng() {
    const picture = new Image();
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(this.asSvg())}`;
    await picture.decode();
    const canvas = element("canvas", { width: 2 * WIDTH, height: 2 * HEIGHT });
    canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
    saveFrom("graph.png", canvas.toDataURL("image/png"));
  }
}

/** @param {Bundle} bundle */
function relationLabel({ name, inverse }) {
  return inWords(name, inverse);
}
