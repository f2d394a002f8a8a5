/**
 * Chains as a drawing in layers and as a list in words.
 *
 * @module
 */

import { hrefOf, withEntity } from "./address.js";
import { HEADING_HEIGHT, NODE_HEIGHT, layOut } from "./chain-layers.js";
import { drawing, element } from "./elements.js";
import { percent } from "./marks.js";

/** @typedef {import("./api.js").Chain} Chain */
/** @typedef {import("./address.js").Place} Place */

const LEAST_SCALE = 0.8;

/**
 * The drawing and the list together; a chain of the list that is pointed at stands out in the drawing.
 *
 * @param {Chain[]} chains at least one
 * @param {Place} place
 */
export function chainFigure(chains, place) {
  const scroller = element("div", { class: "layers", role: "group", tabindex: "0", "aria-label": "Chains, drawn" });
  const words = element("ol", { class: "words" }, ...chains.map((chain) => chainInWords(chain)));
  const figure = element("figure", { class: "chains" }, scroller, legend(), words);
  let drawn = 0;
  const redraw = () => {
    const room = scroller.clientWidth;
    if (room === drawn) return; // the height is ours: drawing changes it, and drawing again would lose the focus
    drawn = room;
    scroller.replaceChildren(drawLayers(chains, place, room));
    scroller.classList.toggle("cut", scroller.scrollWidth > room);
  };
  new ResizeObserver(redraw).observe(scroller);
  [...words.children].forEach((item, at) => {
    item.addEventListener("mouseenter", () => pointOut(scroller, at));
    item.addEventListener("mouseleave", () => pointOut(scroller, null));
  });
  return figure;
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

/** @param {import("./chain-layers.js").Heading} heading */
function drawHeading({ relation, label, x }) {
  return drawing(
    "text",
    { class: "relation", x, y: HEADING_HEIGHT / 2, "text-anchor": "middle" },
    drawing("title", {}, relation),
    label,
  );
}

/** @param {import("./chain-layers.js").Edge} edge */
function drawEdge({ d, tip, status, chains }) {
  return drawing(
    "g",
    { class: `edge ${status}`, "data-chains": chains.join(" "), "aria-hidden": "true" },
    drawing("path", { class: "line", d }),
    drawing("path", { class: "head", d: `M${tip.x} ${tip.y}l-8 -4.5v9z` }),
  );
}

/** @param {import("./chain-layers.js").Edge} edge */
function drawNote({ note, probability, chains }) {
  return drawing(
    "g",
    { class: "edge note", "data-chains": chains.join(" "), "aria-hidden": "true" },
    drawing("rect", { x: note.x - 23, y: note.y - 9, width: 46, height: 18, rx: 9 }),
    drawing("text", { x: note.x, y: note.y, "text-anchor": "middle" }, percent(probability)),
  );
}

/**
 * @param {import("./chain-layers.js").Node} node
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

/** @param {Chain} chain */
function chainInWords({ hops, probability }) {
  const steps = hops.flatMap(({ relation, target, status, probability: hop }) => [
    element(
      "span",
      { class: `step ${status}` },
      element("code", {}, relation),
      status === "known" ? " known" : ` predicted ${percent(hop)}`,
    ),
    " ",
    element("span", { class: "name" }, target),
    " ",
  ]);
  return element(
    "li",
    {},
    element("span", { class: "probability" }, percent(probability)),
    element("span", {}, element("span", { class: "name" }, hops[0].source), " ", ...steps),
  );
}

function legend() {
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
 * @param {HTMLElement} scroller
 * @param {number | null} chain
 */
function pointOut(scroller, chain) {
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
