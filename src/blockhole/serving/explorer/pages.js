/**
 * Pages of a relation, of a run, and of all its entities as a map.
 *
 * @module
 */

import { go, here, hrefOf, withEntity, withQuery, withRelation } from "./address.js";
import { get, pause } from "./api.js";
import {
  attempt,
  breakable,
  counted,
  drawing,
  element,
  entityLink,
  hopsOf,
  inKnownCases,
  inWords,
  percent,
  quoteName,
  shorten,
} from "./elements.js";
import { Picker, entityChoices } from "./picker.js";

/** @typedef {import("./address.js").Place} Place */
/** @typedef {import("./api.js").RunInfo} RunInfo */
/** @typedef {import("./answers.js").View} View */

const RULES = 6; // of each kind that are seen without a click
const LOOK = 500; // milliseconds between two looks at what is being made
const VALIDATING = "Asking for validation facts";

/**
 * What the server makes once: a bar that fills while it does, then what `show` makes of it.
 *
 * @template {import("./api.js").Making} Made
 * @param {string} what
 * @param {AbortSignal} signal
 * @param {() => Promise<Made>} look
 * @param {(made: Made) => HTMLElement[]} show
 */
function made(what, signal, look, show) {
  const room = element("div");
  const bar = element("progress", { max: "1", value: "0", "aria-label": what });
  attempt(room, signal, async () => {
    room.append(element("p", { class: "muted" }, `${what} … `, bar));
    let found = await look();
    while (found.state === "making") {
      bar.value = found.done;
      await pause(LOOK);
      found = await look();
    }
    room.replaceChildren(...show(found));
  });
  return room;
}

/**
 * @param {string} heading
 * @param {import("./elements.js").Child[]} content
 */
function block(heading, ...content) {
  return element("section", { class: "block" }, element("h2", {}, heading), ...content);
}

// A relation.

/**
 * @param {Place & {relation: string}} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @returns {Promise<View>}
 */
export async function relationView(place, run, signal) {
  const relation = await get("relation", { run: run.name, name: place.relation }, signal);
  const { name, text, facts, domain, range, examples } = relation;
  const title = shorten(name);
  const node = element(
    "article",
    { class: "sheet" },
    element("h1", { title: name }, ...breakable(name)),
    element(
      "p",
      { class: "lead" },
      `“${inWords(name)}” has ${counted(facts, "fact", "facts")}, `,
      `from ${counted(domain.entities, "entity", "entities")} `,
      `to ${range.entities.toLocaleString("en")}`,
      facts > 0 ? `, ${(facts / domain.entities).toFixed(1)} for each source.` : ".",
    ),
    element("div", { class: "two" }, endBlock("Leads from", domain, place), endBlock("Leads to", range, place)),
    block(
      "Examples",
      element(
        "ul",
        { class: "facts" },
        ...examples.map(({ source, target }) =>
          element(
            "li",
            {},
            element(
              "span",
              {},
              entityLink(place, source, 60),
              element("span", { class: "muted" }, ` ${inWords(name)} `),
              entityLink(place, target, 60),
            ),
            element("a", { href: hrefOf(withQuery(place, `${quoteName(source)}/${text}`)) }, "ask"),
          ),
        ),
      ),
    ),
    block(
      "Rules",
      made(
        "Counting rules",
        signal,
        () => get("rules", { run: run.name, name }, signal),
        (found) => rulesOf(found, place, name),
      ),
    ),
    block(
      "How well it is predicted",
      made(
        VALIDATING,
        signal,
        () => get("validation", { run: run.name }, signal),
        (found) => howWell(found, place, name),
      ),
    ),
  );
  return { title, node, summary: `${title}: ${counted(facts, "fact", "facts")}` };
}

/**
 * @param {string} heading
 * @param {import("./api.js").End} end
 * @param {Place} place
 */
function endBlock(heading, { entities, beside, shared }, place) {
  return element(
    "section",
    { class: "block" },
    element("h2", {}, heading, element("small", {}, ` ${counted(entities, "entity", "entities")}`)),
    element(
      "ul",
      { class: "shares" },
      ...beside.slice(0, 6).map(({ name, inverse, share }) => {
        const bar = element("span", { class: "bar", "aria-hidden": "true" }, element("span", {}));
        bar.style.setProperty("--share", String(share));
        return element(
          "li",
          {},
          element("a", { href: hrefOf(withRelation(place, name)) }, `also ${inWords(name, inverse)}`),
          bar,
          element("span", {}, percent(share)),
        );
      }),
    ),
    element(
      "p",
      { class: "muted" },
      ...shared
        .slice(0, 4)
        .flatMap(({ name, inverse, entity, count }, at) => [
          at === 0 ? "Often: " : "; ",
          `${inWords(name, inverse)} `,
          entityLink(place, entity, 40),
          ` (${count.toLocaleString("en")})`,
        ]),
    ),
  );
}

/**
 * @param {import("./api.js").Validation} found
 * @param {Place} place
 * @param {string} name
 */
function howWell(found, place, name) {
  const own = found.relations.find((each) => each.text === name);
  const said =
    found.state === "missing"
      ? `Not measured: ${found.message}`
      : own === undefined
        ? "None of the validation facts that were asked for is of this relation."
        : `Of ${counted(own.facts, "validation fact", "validation facts")} that were asked for, ` +
          `${own.found} stood among the first ten predictions, of all entities.`;
  const all = element("a", { href: hrefOf({ ...withQuery(place, ""), page: "run" }) }, "All relations");
  return [element("p", {}, said, " ", all)];
}

// Rules.

/**
 * Rules that a relation takes part in, those that conclude it before those that use it.
 *
 * @param {import("./api.js").Rules} found
 * @param {Place} place
 * @param {string} name
 */
function rulesOf({ state, message, rules }, place, name) {
  if (state === "missing") return [element("p", {}, `There are none: ${message}`)];
  const groups = [
    { heading: "It follows where", own: rules.filter(({ head }) => head.name === name) },
    { heading: "What follows from it", own: rules.filter(({ head }) => head.name !== name) },
  ].filter(({ own }) => own.length > 0);
  if (groups.length === 0) return [element("p", {}, "No rule that this relation takes part in is often right.")];
  return [
    ...groups.flatMap(({ heading, own }) => {
      const items = own.map((rule) => ruleItem(rule, place));
      const rest = items.slice(RULES);
      return [
        element("h3", {}, heading),
        element("ul", { class: "rules" }, ...items.slice(0, RULES)),
        ...(rest.length === 0
          ? []
          : [
              element(
                "details",
                {},
                element("summary", {}, counted(rest.length, "more rule", "more rules")),
                element("ul", { class: "rules" }, ...rest),
              ),
            ]),
      ];
    }),
    element(
      "p",
      { class: "muted" },
      "Rules are checked against the facts of the graph. A case is known if the graph has some such fact of A; ",
      "if it has none, it says nothing against the rule.",
    ),
  ];
}

/**
 * A rule as a sentence about A, B and so on, in which hops backwards turn round.
 *
 * @param {import("./api.js").Rule} rule
 * @param {Place} place
 */
function ruleItem({ text, head, body, support, confidence, pca_confidence }, place) {
  const said = (/** @type {import("./api.js").Hop} */ { name, inverse }, /** @type {number} */ from, to = from + 1) => {
    const [first, second] = (inverse ? [to, from] : [from, to]).map((at) => element("var", {}, "ABCD"[at]));
    return [first, " ", element("a", { href: hrefOf(withRelation(place, name)) }, inWords(name)), " ", second];
  };
  return element(
    "li",
    { title: text },
    "If ",
    ...body.flatMap((hop, at) => [at === 0 ? "" : " and ", ...said(hop, at)]),
    ", then ",
    ...said(head, 0, body.length),
    element(
      "small",
      {},
      `${inKnownCases(pca_confidence)}, ${percent(confidence)} of all; `,
      `borne out by ${counted(support, "fact", "facts")}`,
    ),
  );
}

// A run.

/**
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @returns {Promise<View>}
 */
export async function runView(place, run, signal) {
  const { settings, curves, brier } = await get("run", { run: run.name }, signal);
  const told = curves.filter(({ name, value }) => value.length > 0 && !/paths|queries|seconds/.test(name));
  const [shown, single] = [
    told.filter(({ value }) => value.length > 1),
    told.filter(({ value }) => value.length === 1),
  ];
  const figures = single.map(({ name, value }) => `${name} ${rounded(value[0])}`).join(", ");
  const node = element(
    "article",
    { class: "sheet" },
    element("h1", {}, run.name),
    element(
      "p",
      { class: "lead" },
      `A ${run.model} model of ${counted(run.entities, "entity", "entities")}, `,
      `${counted(run.relations, "relation", "relations")} and ${counted(run.facts, "fact", "facts")}`,
      run.data === null ? "" : ` from ${run.data}`,
      `, with ${counted(run.parameters, "parameter", "parameters")}, after ${counted(run.epochs, "epoch", "epochs")}.`,
    ),
    block(
      "Training",
      told.length === 0 ? element("p", { class: "muted" }, "The run has kept no figures of its training.") : null,
      figures === "" ? null : element("p", {}, `Measured once: ${figures}.`),
      element("div", { class: "charts" }, ...shown.map(curveChart)),
    ),
    block(
      "Evaluation and calibration",
      made(
        VALIDATING,
        signal,
        () => get("validation", { run: run.name }, signal),
        (found) => calibration(found, place, brier),
      ),
    ),
    element(
      "details",
      { class: "block" },
      element("summary", {}, "All settings"),
      element(
        "dl",
        { class: "settings" },
        ...Object.entries(settings).flatMap(([name, value]) => [
          element("dt", {}, name),
          element("dd", {}, element("code", {}, shorten(value))),
        ]),
      ),
    ),
  );
  return { title: run.name, node, summary: `The run ${run.name}` };
}

/**
 * @param {import("./api.js").Validation} found
 * @param {Place} place
 * @param {number | null} brier
 */
function calibration(found, place, brier) {
  const fitted = brier === null ? "" : `Its calibration was fitted with a Brier score of ${brier.toFixed(3)}.`;
  if (found.state === "missing") return [element("p", {}, `Not measured here: ${found.message} ${fitted}`)];
  const points = found.bins.map(({ probability, true: share, pairs }) => ({ x: probability, y: share, size: pairs }));
  const rows = found.relations.map(({ text, facts, found: among }) =>
    element(
      "tr",
      {},
      element("td", {}, element("a", { href: hrefOf(withRelation(place, text)) }, shorten(text, 60))),
      element("td", {}, facts.toLocaleString("en")),
      element("td", {}, percent(facts === 0 ? 0 : among / facts)),
    ),
  );
  return [
    element(
      "p",
      {},
      `${counted(found.facts, "validation fact", "validation facts")} that train lacks were asked for. `,
      found.ece === null ? "" : `Probabilities are off by ${percent(found.ece)} on average. `,
      fitted,
    ),
    element(
      "div",
      { class: "two" },
      chart({
        title: "What a probability is worth",
        x: "probability that was said",
        y: "share that is true",
        points,
        line: false,
        diagonal: true,
        most: { x: 1, y: 1 },
      }),
      element(
        "table",
        {},
        element("caption", {}, "Found among the first ten predictions of all entities, by relation"),
        element(
          "thead",
          {},
          element("tr", {}, ...["Relation", "Facts", "Found"].map((name) => element("th", { scope: "col" }, name))),
        ),
        element("tbody", {}, ...rows),
      ),
    ),
  ];
}

/** @param {import("./api.js").Curve} curve */
function curveChart({ name, epoch, value }) {
  const points = epoch.map((x, at) => ({ x, y: value[at], size: 1 }));
  return chart({ title: name, x: "epoch", y: "", points, line: true, diagonal: false, most: null });
}

/** @param {number} value */
function rounded(value) {
  return String(Number(value.toPrecision(3)));
}

/**
 * A small chart, and what it says in words.
 *
 * @param {object} asked
 * @param {string} asked.title
 * @param {string} asked.x
 * @param {string} asked.y
 * @param {{x: number, y: number, size: number}[]} asked.points
 * @param {boolean} asked.line
 * @param {boolean} asked.diagonal
 * @param {{x: number, y: number} | null} asked.most
 */
function chart({ title, x, y, points, line, diagonal, most }) {
  const [width, height, edge] = [340, 220, 36];
  const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
  const low = most === null ? { x: Math.min(...xs), y: Math.min(...ys) } : { x: 0, y: 0 };
  const high = most ?? { x: Math.max(...xs), y: Math.max(...ys) };
  const across = (/** @type {number} */ value) =>
    edge + ((value - low.x) / (high.x - low.x || 1)) * (width - edge - 10);
  const up = (/** @type {number} */ value) =>
    height - edge - ((value - low.y) / (high.y - low.y || 1)) * (height - edge - 12);
  const label = (/** @type {number} */ at, /** @type {number} */ on, /** @type {string} */ text, anchor = "middle") =>
    drawing("text", { x: at, y: on, "text-anchor": anchor }, text);
  const path = points
    .map((point, at) => `${at === 0 ? "M" : "L"}${across(point.x).toFixed(1)} ${up(point.y).toFixed(1)}`)
    .join("");
  const largest = Math.max(1, ...points.map(({ size }) => size));
  const first = points[0];
  const last = points.at(-1);
  const said =
    first === undefined || last === undefined
      ? `${title}: nothing to show`
      : `${title}: ${rounded(first.y)} at ${x} ${rounded(first.x)}, ${rounded(last.y)} at ${rounded(last.x)}`;
  return element(
    "figure",
    { class: "chart" },
    element("figcaption", {}, title),
    drawing(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
      drawing("path", { class: "axis", d: `M${edge} 6V${height - edge}H${width - 6}` }),
      diagonal ? drawing("path", { class: "ideal", d: `M${across(0)} ${up(0)}L${across(1)} ${up(1)}` }) : null,
      line ? drawing("path", { class: "curve", d: path }) : null,
      ...(line
        ? []
        : points.map((point) =>
            drawing("circle", {
              class: "dot",
              cx: across(point.x),
              cy: up(point.y),
              r: 3 + 4 * Math.sqrt(point.size / largest),
            }),
          )),
      label(edge, height - edge + 16, rounded(low.x), "start"),
      label(width - 8, height - edge + 16, rounded(high.x), "end"),
      label((width + edge) / 2, height - 6, x),
      label(edge - 5, height - edge, rounded(low.y), "end"),
      label(edge - 5, 14, rounded(high.y), "end"),
      y === "" ? null : label(edge + 6, 14, y, "start"),
    ),
  );
}

// The map.

const HUES = [200, 25, 140, 275, 55, 330, 105, 235, 0, 80];
const NEAR = 12; // pixels between a pointer and what it points at
const LISTED = 40;

/**
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 * @returns {View}
 */
export function mapView(place, run, signal) {
  const node = element(
    "article",
    { class: "sheet" },
    element("h1", {}, "Map of entities"),
    element("p", { class: "lead" }, "Entities stand close to each other where the model takes them for alike."),
    made(
      "Drawing the map",
      signal,
      () => get("map", { run: run.name }, signal),
      (map) =>
        map.state === "missing"
          ? [element("p", {}, `There is no map: ${map.message}`)]
          : drawnMap(map, place, run, signal),
    ),
  );
  return { title: "Map", node, summary: "Map of entities" };
}

/**
 * @param {import("./api.js").EntityMap} map
 * @param {Place} place
 * @param {RunInfo} run
 * @param {AbortSignal} signal
 */
function drawnMap(map, place, run, signal) {
  const canvas = element("canvas", {
    class: "map",
    role: "img",
    "aria-label": "The map; the lists below name the entities",
  });
  const said = element("p", { class: "pointed-at" }, "Point at a dot to see its name; click to open its page.");
  const names = map.types.map((type) => {
    const [hop] = map.typed_by === null ? hopsOf(type) : [];
    return hop === undefined ? type : inWords(hop.name, hop.inverse);
  });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  /** @type {number | null} */
  let found = null;
  /** @type {number | null} */
  let only = null;
  const at = (/** @type {number} */ i) => ({
    x: 14 + map.x[i] * (canvas.clientWidth - 28),
    y: 14 + map.y[i] * (canvas.clientHeight - 28),
  });
  const draw = () => {
    const dark = getComputedStyle(canvas).colorScheme === "dark" || isDark();
    const density = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * density;
    canvas.height = canvas.clientHeight * density;
    pen.scale(density, density);
    map.entities.forEach((_, i) => {
      const { x, y } = at(i);
      pen.globalAlpha = only === null || map.type[i] === only ? 0.8 : 0.08;
      pen.fillStyle = colourOf(map.type[i], dark);
      pen.beginPath();
      pen.arc(x, y, map.entities.length > 1500 ? 2.2 : 3.5, 0, 2 * Math.PI);
      pen.fill();
    });
    if (found === null) return;
    const { x, y } = at(found);
    pen.globalAlpha = 1;
    pen.strokeStyle = getComputedStyle(canvas).color;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, y, 8, 0, 2 * Math.PI);
    pen.stroke();
  };
  const nearest = (/** @type {MouseEvent} */ pointer) => {
    let [best, least] = [-1, NEAR];
    map.entities.forEach((_, i) => {
      const { x, y } = at(i);
      const far = Math.hypot(x - pointer.offsetX, y - pointer.offsetY);
      if (far < least) [best, least] = [i, far];
    });
    return best;
  };
  const point = (/** @type {number} */ i) => {
    found = i;
    said.textContent = `${shorten(map.entities[i])}: ${names[map.type[i]] ?? ""}`;
    draw();
  };
  canvas.addEventListener("mousemove", (move) => {
    const i = nearest(move);
    if (i >= 0 && i !== found) point(i);
  });
  canvas.addEventListener("click", (click) => {
    const i = nearest(click);
    if (i >= 0) go(withEntity(here(), map.entities[i]));
  });
  const observer = new ResizeObserver(draw);
  observer.observe(canvas);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", draw);
  signal.addEventListener("abort", () => {
    observer.disconnect();
    scheme.removeEventListener("change", draw);
  });
  const search = new Picker({
    label: "Find on the map",
    placeholder: "Find on the map",
    source: entityChoices(() => run.name),
    take: ({ name }) => {
      const i = map.entities.indexOf(name);
      if (i >= 0) point(i);
      else said.textContent = `${shorten(name)} has too few facts to be on the map.`;
    },
  });
  const legend = names.map((name, type) => {
    const members = map.entities.filter((_, i) => map.type[i] === type);
    const dot = element("span", { class: "dot", "aria-hidden": "true" });
    dot.style.setProperty("--hue", String(HUES[type % HUES.length]));
    const toggle = element(
      "button",
      {
        class: "quiet",
        "aria-pressed": "false",
        click: () => {
          only = only === type ? null : type;
          for (const each of list.querySelectorAll("button"))
            each.setAttribute("aria-pressed", String(each === toggle && only !== null));
          draw();
        },
      },
      dot,
      shorten(name, 40),
      element("small", {}, ` ${members.length.toLocaleString("en")}`),
    );
    return element(
      "li",
      {},
      toggle,
      element(
        "details",
        {},
        element("summary", {}, element("span", { class: "unseen" }, `${shorten(name, 40)}: `), "names"),
        element(
          "ul",
          { class: "names" },
          ...members.slice(0, LISTED).map((entity) => element("li", {}, entityLink(place, entity))),
        ),
      ),
    );
  });
  const list = element("ul", { class: "legend" }, ...legend);
  const by = map.typed_by === null ? "the relation that they have most facts of" : inWords(map.typed_by);
  const whole = `${counted(map.entities.length, "entity", "entities")}, by ${map.method}, coloured by ${by}.`;
  return [search.node, canvas, said, element("p", { class: "muted" }, whole), list];
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
}

/**
 * @param {number} type
 * @param {boolean} dark
 */
function colourOf(type, dark) {
  return `hsl(${HUES[type % HUES.length]} 60% ${dark ? 65 : 42}%)`;
}
