/**
 * Chains drawn in layers: one column a hop, each entity once in a column, known steps in full and predicted ones in
 * dashed lines.
 *
 * @module
 */

import { hrefOf, withEntity } from "./address.js";
import { drawing, element, percent, shorten } from "./elements.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./reason.js").Chain} Chain */

const LEAST_SCALE = 0.8;

/**
 * The drawing, which is drawn again whenever it has another width.
 *
 * @param {Chain[]} chains at least one, all over the same relations
 * @param {Place} place
 */
export function layersOf(chains, place) {
  const scroller = element("div", { class: "layers", role: "group", tabindex: "0", "aria-label": "Chains, drawn" });
  let drawn = 0;
  const redraw = () => {
    const room = scroller.clientWidth;
    if (room === drawn) return; // the height is ours: drawing changes it, and drawing again would lose the focus
    drawn = room;
    scroller.replaceChildren(drawLayers(chains, place, room));
    scroller.classList.toggle("cut", scroller.scrollWidth > room);
  };
  new ResizeObserver(redraw).observe(scroller);
  return scroller;
}

/**
 * @param {Chain[]} chains
 * @param {Place} place
 * @param {number} room
 */
function drawLayers(chains, place, room) {
  const layers = layOut(chains, room, measure);
  const { width, height } = layers;
  const fitting = room / width;
  const scale = fitting < 1 && fitting >= LEAST_SCALE ? fitting : 1; // smaller could not be read: then it scrolls
  return drawing(
    "svg",
    { width: width * scale, height: height * scale, viewBox: `0 0 ${width} ${height}` },
    ...layers.headings.map(drawHeading),
    ...layers.edges.map(drawEdge),
    ...layers.edges.filter((edge) => edge.status === "predicted").map(drawNote),
    ...layers.nodes.map((node) => drawNode(node, place)),
  );
}

/** @param {Heading} heading */
function drawHeading({ relation, label, x }) {
  return drawing(
    "text",
    { class: "relation", x, y: HEADING_HEIGHT / 2, "text-anchor": "middle" },
    drawing("title", {}, relation),
    label,
  );
}

/** @param {Edge} edge */
function drawEdge({ d, tip, status, chains }) {
  return drawing(
    "g",
    { class: `edge ${status}`, "data-chains": chains.join(" "), "aria-hidden": "true" },
    drawing("path", { class: "line", d }),
    drawing("path", { class: "head", d: `M${tip.x} ${tip.y}l-8 -4.5v9z` }),
  );
}

/** @param {Edge} edge */
function drawNote({ note, probability, chains }) {
  return drawing(
    "g",
    { class: "edge note", "data-chains": chains.join(" "), "aria-hidden": "true" },
    drawing("rect", { x: note.x - 23, y: note.y - 9, width: 46, height: 18, rx: 9 }),
    drawing("text", { x: note.x, y: note.y, "text-anchor": "middle" }, percent(probability)),
  );
}

/**
 * @param {Node} node
 * @param {Place} place
 */
function drawNode({ entity, label, x, y, width }, place) {
  return drawing(
    "a",
    { class: "node", href: hrefOf(withEntity(place, entity)), "aria-label": entity },
    drawing("title", {}, entity),
    drawing("rect", { x, y: y - NODE_HEIGHT / 2, width, height: NODE_HEIGHT, rx: 8 }),
    drawing("text", { x: x + width / 2, y, "text-anchor": "middle" }, label),
  );
}

// A proof that joins chains, drawn as a tree: what it starts from at the left, the answer at the right.

/**
 * @typedef {object} Box
 * @property {string} entity
 * @property {number} depth how many hops the answer is away
 * @property {number} row
 * @property {{from: Box, relation: string, status: import("./api.js").Status, probability: number}[]} before
 */

const TREE = { width: 104, gap: 108 };

/**
 * The drawing of one proof; it scrolls where it is wider than the page.
 *
 * @param {import("./api.js").ProofNode} tree
 * @param {Place} place
 */
export function treeOf(tree, place) {
  /** @type {Box[]} */
  const boxes = [];
  let rows = 0;
  const lay = (/** @type {import("./api.js").ProofNode} */ node, /** @type {number} */ depth) => {
    /** @type {Box} */
    const box = { entity: node.entity, depth, row: 0, before: [] };
    const gather = (/** @type {import("./api.js").ProofNode} */ part) => {
      const { relation, status, probability, parts } = part;
      // What answers several parts is the same entity in each of them, and stands once.
      if (relation === null) parts.forEach(gather);
      else box.before.push({ from: lay(parts[0], depth + 1), relation, status, probability });
    };
    gather(node);
    const places = box.before.map(({ from }) => from.row);
    box.row = places.length === 0 ? rows++ : (Math.min(...places) + Math.max(...places)) / 2;
    boxes.push(box);
    return box;
  };
  lay(tree, 0);
  const deepest = Math.max(...boxes.map(({ depth }) => depth));
  const at = (/** @type {Box} */ { depth, row }) => ({
    x: 1 + (deepest - depth) * (TREE.width + TREE.gap),
    y: 20 + row * ROW,
  });
  const width = (deepest + 1) * TREE.width + deepest * TREE.gap + 2;
  const edges = boxes.flatMap((box) =>
    box.before.flatMap(({ from, relation, status, probability }) => {
      const [left, right] = [at(from), at(box)];
      const { d } = curveBetween({ x: left.x + TREE.width, y: left.y }, right, TREE.gap);
      const said =
        fit(relation, TREE.gap - (status === "predicted" ? 40 : 6), measure) +
        (status === "predicted" ? ` ${percent(probability)}` : "");
      const middle = { x: (left.x + TREE.width + right.x) / 2, y: (left.y + right.y) / 2 - 10 };
      return [
        drawEdge({ d, tip: right, status, probability, note: middle, chains: [0] }),
        drawing(
          "text",
          { class: "relation", ...middle, "text-anchor": "middle" },
          drawing("title", {}, relation),
          said,
        ),
      ];
    }),
  );
  const nodes = boxes.map((box) => {
    const label = fit(box.entity, TREE.width - NODE_WIDTH.padding, measure);
    return drawNode({ entity: box.entity, label, width: TREE.width, ...at(box) }, place);
  });
  const height = 20 + rows * ROW;
  return element(
    "div",
    { class: "layers", role: "group", tabindex: "0", "aria-label": "The best proof, drawn" },
    drawing("svg", { width, height, viewBox: `0 0 ${width} ${height}` }, ...edges, ...nodes),
  );
}

/** What the lines mean. */
export function legend() {
  return element(
    "figcaption",
    {},
    element("span", {}, drawSample("known"), "known fact"),
    element("span", {}, drawSample("predicted"), "predicted, with its probability"),
  );
}

/** @param {import("./api.js").Status} status */
function drawSample(status) {
  const line = drawing("path", { class: "line", d: "M0 6h26" });
  return drawing("svg", { class: `edge ${status}`, width: 26, height: 12, "aria-hidden": "true" }, line);
}

/**
 * Let one chain of a drawing stand out, or none.
 *
 * @param {HTMLElement} scroller
 * @param {number | null} chain
 */
export function pointOut(scroller, chain) {
  for (const edge of scroller.querySelectorAll("[data-chains]")) {
    const chains = edge.getAttribute("data-chains")?.split(" ") ?? [];
    edge.classList.toggle("faint", chain !== null && !chains.includes(String(chain)));
  }
}

const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/** @param {string} text */
function measure(text) {
  pen.font = `14px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// Where nodes and edges stand: one column a hop, each entity once in a column. Numbers only; nothing is drawn here.

/** @typedef {{entity: string, label: string, x: number, y: number, width: number}} Node */
/**
 * @typedef {object} Edge
 * @property {string} d the path from its source to its target
 * @property {{x: number, y: number}} tip where the arrow ends
 * @property {import("./api.js").Status} status
 * @property {number} probability
 * @property {{x: number, y: number}} note where its probability is written
 * @property {number[]} chains the places of the chains it belongs to
 */
/** @typedef {{label: string, relation: string, x: number}} Heading */
/** @typedef {{width: number, height: number, nodes: Node[], edges: Edge[], headings: Heading[]}} Layers */

const NODE_HEIGHT = 32;
const HEADING_HEIGHT = 34;
const ROW = 52;
const NODE_WIDTH = { padding: 26, least: 52, most: 190, crowded: 92 };
const GAP = { least: 72, most: 190 };
const ALONG = [0.5, 0.36, 0.64, 0.24, 0.76]; // where on its edge a probability may stand, best first
const LONGEST_LABEL = 60; // characters; more do not fit into any node
const NOTE = { width: 48, height: 18 };

/**
 * @param {Chain[]} chains at least one, all over the same relations
 * @param {number} room the width to fill, if the gaps between columns can
 * @param {(text: string) => number} measure
 * @returns {Layers}
 */
function layOut(chains, room, measure) {
  const hops = chains[0].hops.length;
  const columns = Array.from({ length: hops + 1 }, (_, column) => distinctEntities(chains, column));
  const most = Math.max((room - hops * GAP.least) / (hops + 1), NODE_WIDTH.crowded);
  const widths = columns.map((entities) => {
    const widest = Math.max(...entities.map((entity) => measure(shorten(entity, LONGEST_LABEL)))) + NODE_WIDTH.padding;
    return Math.min(Math.max(widest, NODE_WIDTH.least), most, NODE_WIDTH.most);
  });
  const taken = widths.reduce((sum, width) => sum + width, 0);
  const gap = Math.min(Math.max((room - taken - 2) / hops, GAP.least), GAP.most);
  const rows = Math.max(...columns.map((entities) => entities.length));
  const left = widths.map((_, column) => 1 + widths.slice(0, column).reduce((sum, width) => sum + width + gap, 0));

  const placed = columns.map((entities, column) => {
    const first = HEADING_HEIGHT + ((rows - entities.length) * ROW) / 2 + ROW / 2;
    return entities.map((entity, row) => ({
      entity,
      label: fit(entity, widths[column] - NODE_WIDTH.padding + 2, measure),
      x: left[column],
      y: first + row * ROW,
      width: widths[column],
    }));
  });
  const headings = chains[0].hops.map(({ relation }, hop) => ({
    relation,
    label: fit(relation, gap + (widths[hop] + widths[hop + 1]) / 2 - 16, measure),
    x: left[hop + 1] - gap / 2,
  }));
  return {
    width: left[hops] + widths[hops] + 1,
    height: HEADING_HEIGHT + rows * ROW,
    nodes: placed.flat(),
    edges: connect(chains, placed, gap),
    headings,
  };
}

/**
 * The entities in a column, those of better chains higher.
 *
 * @param {Chain[]} chains
 * @param {number} column
 */
function distinctEntities(chains, column) {
  return [...new Set(chains.map(({ hops }) => (column === 0 ? hops[0].source : hops[column - 1].target)))];
}

/**
 * @param {Chain[]} chains
 * @param {Node[][]} placed
 * @param {number} gap
 * @returns {Edge[]}
 */
function connect(chains, placed, gap) {
  const edges = new Map();
  chains.forEach(({ hops }, chain) => {
    hops.forEach(({ source, target, status, probability }, hop) => {
      const key = JSON.stringify([hop, source, target]);
      const edge = edges.get(key) ?? { hop, source, target, status, probability, chains: [] };
      edge.chains.push(chain);
      edges.set(key, edge);
    });
  });
  /** @type {{x: number, y: number}[]} */
  const notes = [];
  return [...edges.values()].map(({ hop, source, target, ...edge }) => {
    const from = nodeOf(placed[hop], source);
    const to = nodeOf(placed[hop + 1], target);
    const curve = curveBetween({ x: from.x + from.width, y: from.y }, { x: to.x, y: to.y }, gap);
    const note = freePlace(curve.at, notes);
    if (edge.status === "predicted") notes.push(note);
    return { ...edge, d: curve.d, tip: { x: to.x, y: to.y }, note };
  });
}

/**
 * @param {Node[]} column
 * @param {string} entity
 */
function nodeOf(column, entity) {
  return /** @type {Node} */ (column.find((node) => node.entity === entity));
}

/**
 * A curve that leaves and arrives level, and the points on it.
 *
 * @param {{x: number, y: number}} from
 * @param {{x: number, y: number}} to
 * @param {number} gap
 */
function curveBetween(from, to, gap) {
  const [near, far] = [from.x + gap / 2, to.x - gap / 2];
  const end = to.x - 6; // where the arrow head begins
  return {
    d: `M${from.x} ${from.y}C${near} ${from.y} ${far} ${to.y} ${end} ${to.y}`,
    /** @param {number} t */
    at: (t) => {
      const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t ** 2 * (1 - t), t ** 3];
      return { x: a * from.x + b * near + c * far + d * end, y: (a + b) * from.y + (c + d) * to.y };
    },
  };
}

/**
 * The first place along a curve where no note stands yet; the middle, where all are taken.
 *
 * @param {(t: number) => {x: number, y: number}} at
 * @param {{x: number, y: number}[]} notes
 */
function freePlace(at, notes) {
  const places = ALONG.map(at);
  const free = places.find(({ x, y }) =>
    notes.every((note) => Math.abs(note.x - x) >= NOTE.width || Math.abs(note.y - y) >= NOTE.height),
  );
  return free ?? places[0];
}

/**
 * A name cut in its middle to fit a width.
 *
 * @param {string} name
 * @param {number} most
 * @param {(text: string) => number} measure
 */
function fit(name, most, measure) {
  if (measure(name) <= most) return name;
  let kept = Math.min(name.length - 1, LONGEST_LABEL);
  while (kept > 1 && measure(shorten(name, kept)) > most) kept -= 1;
  return shorten(name, kept);
}
