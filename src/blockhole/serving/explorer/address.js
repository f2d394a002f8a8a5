/**
 * What the page shows, as its address: a link shows the same to whoever follows it, and back goes back.
 *
 * @module
 */

/**
 * @typedef {object} Place
 * @property {string | null} run the run that answers; null for the server's first
 * @property {string | null} versus a second run, beside the first
 * @property {string} query empty for none
 * @property {string | null} answer the answer whose reason is open
 * @property {string | null} entity the entity whose page is shown, instead of a query
 * @property {string | null} to the entity that it is to be connected with
 * @property {string | null} relation the relation whose page is shown
 * @property {"map" | "run" | null} page a page of the run
 * @property {number} least the least probability of predicted answers that are shown
 * @property {"typed" | "all"} candidates
 * @property {"known" | "predicted" | "missing" | null} only `missing` is predicted, for this query alone
 * @property {number} top
 */

const TOPS = [5, 10, 25, 50, 100];
const DEFAULT_TOP = 10;

/**
 * The place that an address names; what it leaves out, or has wrong, is as by default.
 *
 * @param {string} search such as `?run=wn11&q=William/fatherOf`
 * @returns {Place}
 */
function readPlace(search) {
  const given = new URLSearchParams(search);
  const only = given.get("only");
  const top = Number(given.get("top"));
  const page = given.get("page");
  const least = Number(given.get("least"));
  return {
    run: given.get("run"),
    versus: given.get("versus"),
    query: given.get("q") ?? "",
    answer: given.get("answer"),
    entity: given.get("entity"),
    to: given.get("to"),
    relation: given.get("relation"),
    page: page === "map" || page === "run" ? page : null,
    least: least > 0 && least < 1 ? least : 0,
    candidates: given.get("candidates") === "all" ? "all" : "typed",
    only: only === "known" || only === "predicted" || only === "missing" ? only : null,
    top: TOPS.includes(top) ? top : DEFAULT_TOP,
  };
}

/**
 * The address of a place, relative to the page; defaults are left out.
 *
 * @param {Place} place
 * @returns {string}
 */
export function hrefOf(place) {
  const given = new URLSearchParams();
  if (place.run !== null) given.set("run", place.run);
  if (place.versus !== null) given.set("versus", place.versus);
  if (place.page !== null) given.set("page", place.page);
  else if (place.relation !== null) given.set("relation", place.relation);
  else if (place.entity !== null) {
    given.set("entity", place.entity);
    if (place.to !== null) given.set("to", place.to);
  } else if (place.query) {
    given.set("q", place.query);
    if (place.answer !== null) given.set("answer", place.answer);
    if (place.least > 0) given.set("least", String(place.least));
  }
  if (place.candidates !== "typed") given.set("candidates", place.candidates);
  if (place.only !== null) given.set("only", place.only);
  if (place.top !== DEFAULT_TOP) given.set("top", String(place.top));
  // These may stand in an address, and people read them.
  return "?" + given.toString().replace(/%(2F|5E|7C|21)/g, decodeURIComponent);
}

/**
 * The same place with a query, and no reason open; what was asked for the old query alone is not for this one.
 *
 * @param {Place} place
 * @param {string} query
 * @returns {Place}
 */
export function withQuery(place, query) {
  const only = place.only === "missing" ? null : place.only;
  return { ...place, query, only, answer: null, entity: null, to: null, relation: null, page: null, least: 0 };
}

/**
 * The same run's page of an entity.
 *
 * @param {Place} place
 * @param {string} entity
 * @returns {Place}
 */
export function withEntity(place, entity) {
  return { ...withQuery(place, ""), entity };
}

/**
 * The same run's page of a relation.
 *
 * @param {Place} place
 * @param {string} relation
 * @returns {Place}
 */
export function withRelation(place, relation) {
  return { ...withQuery(place, ""), relation };
}

/**
 * Which answers the place shows; null for all.
 *
 * @param {Place} place
 * @returns {"known" | "predicted" | null}
 */
export function statusOf({ only }) {
  return only === "missing" ? "predicted" : only;
}

/** @returns {Place} */
export function here() {
  return readPlace(location.search);
}

/**
 * Go to a place; `replace` leaves no way back to the one before.
 *
 * @param {Place} place
 * @param {{replace?: boolean}} how
 */
export function go(place, { replace = false } = {}) {
  const href = hrefOf(place);
  if (replace || href === hrefOf(here())) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  dispatchEvent(new Event("place"));
}

/**
 * Call `show` for every new place: after `go`, after back and forward, and after a click on a link within the page.
 *
 * @param {() => void} show
 */
export function onPlace(show) {
  addEventListener("place", show);
  addEventListener("popstate", show);
  document.addEventListener("click", (click) => {
    if (click.button !== 0 || click.metaKey || click.ctrlKey || click.shiftKey || click.altKey) return;
    const link = click.target instanceof Element ? click.target.closest("a") : null;
    // Links in drawings have an animated href, so the attribute is read.
    const href = link?.getAttribute("href");
    if (!href?.startsWith("?")) return;
    click.preventDefault();
    go(readPlace(href));
  });
}
