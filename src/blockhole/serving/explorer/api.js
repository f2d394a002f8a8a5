/**
 * The server's questions and answers. Every failure becomes a `Failure` with a sentence to show.
 *
 * @module
 */

/** @typedef {"known" | "predicted"} Status */
/** @typedef {{entity: string, score: number, probability: number | null, status: Status}} Answer */
/**
 * First the known answers, then the predicted ones, each best first.
 *
 * @typedef {object} Answers
 * @property {string} query
 * @property {Answer[]} answers
 * @property {number} known_count how many known answers there are in all
 * @property {number} predicted_count how many predicted ones are listed
 * @property {string | null} negation what it is over, where the query has one
 * @property {number} milliseconds
 */
/**
 * An entity that stands for a part of a query: a hop of `relation` leads to it from the only part, or it answers all of
 * its parts, or the query names it.
 *
 * @typedef {object} ProofNode
 * @property {string} entity
 * @property {string | null} relation
 * @property {Status} status of the hop
 * @property {number} probability of the hop
 * @property {RuleReason | null} rule that a predicted hop follows from, where one fits
 * @property {ProofNode[]} parts
 * @property {Exclusion[]} excluded
 */
/** @typedef {{rule: string, pca_confidence: number, facts: string[][]}} RuleReason and the facts that fire it */
/** @typedef {{probability: number, counterproof: ProofNode | null}} Exclusion how probable what is negated is */
/** @typedef {{probability: number, tree: ProofNode}} Proof */
/**
 * @typedef {object} Explanation
 * @property {string} query
 * @property {string} entity
 * @property {number} probability
 * @property {Status} status
 * @property {Proof[]} proofs most probable first
 */
/**
 * A part of a query, an entity or a hop, as the server takes it apart; columns count code points.
 *
 * @typedef {object} Piece
 * @property {number} column
 * @property {number} end
 * @property {"entity" | "relation"} kind
 * @property {boolean} inverse
 * @property {string} name as it is
 * @property {string} text as the query has it
 */
/** @typedef {{query: string, pieces: Piece[]}} Taken a query taken apart */
/** @typedef {{name: string, text: string}} Named a name as it is, and as queries hold it */
/** @typedef {Named & {inverse: boolean}} Hop */
/**
 * A part of a query: it starts at an entity, or where its parts are joined, and follows hops.
 *
 * @typedef {object} Branch
 * @property {boolean} negated
 * @property {Named | null} entity
 * @property {"and" | "or" | null} joined
 * @property {Branch[]} parts
 * @property {Hop[]} hops
 */
/** @typedef {Hop & {known: boolean, facts: number, entities: number}} NextRelation */
/** @typedef {Named & {match: "prefix" | "within" | "similar"}} FoundEntity */
/**
 * A fact that several entities have: `text` leads to `entity`, `branch` is the way back.
 *
 * @typedef {{name: string, inverse: boolean, text: string, entity: string, branch: string, count: number}} Facet
 */
/** @typedef {{path: string, length: number, probability: number, status: Status}} Connection */
/** @typedef {{source: string, target: string, paths: Connection[]}} Connections */
/** @typedef {{id: string, seconds: number, timeout: number, steps: number}} Search */
/** @typedef {{entities: number, beside: (Hop & {share: number})[], shared: Facet[]}} End */
/**
 * @typedef {Named & {facts: number, domain: End, range: End,
 *   examples: {source: string, target: string}[]}} RelationOverview
 */
/**
 * @typedef {{text: string, head: Hop, body: Hop[], support: number, confidence: number,
 *   pca_confidence: number}} Rule
 */
/** @typedef {{name: string, epoch: number[], value: number[]}} Curve */
/** @typedef {{run: RunInfo, settings: Record<string, string>, curves: Curve[], brier: number | null}} RunPage */
/**
 * What takes longer than a request: `done` is the share of it that is made.
 *
 * @typedef {{state: "making" | "ready" | "missing", done: number, message: string | null}} Making
 */
/**
 * @typedef {Making & {method: string | null, entities: string[], x: number[], y: number[], type: number[],
 *   types: string[], typed_by: string | null}} EntityMap
 */
/**
 * @typedef {Making & {facts: number, ece: number | null, bins: {probability: number, true: number, pairs: number}[],
 *   relations: {text: string, facts: number, found: number}[]}} Validation
 */
/** @typedef {Making & {rules: Rule[]}} Rules */
/** @typedef {Taken & {candidates: "typed" | "all", words: string}} Example */
/**
 * @typedef {object} Suggestion
 * @property {string} text what goes into the query, quoted where it must be
 * @property {string} label what is shown
 * @property {[number, number]} hit the part of the label that was typed
 * @property {boolean | null} known of a relation: whether facts lead on over it
 * @property {boolean} similar whether the name only looks alike
 */
/** @typedef {{text: string, piece: Piece, complete: boolean, suggestions: Suggestion[]}} Completion */
/** @typedef {{name: string, inverse: boolean, text: string, total: number, entities: string[]}} Group */
/** @typedef {{entity: string, text: string, facts: number, relations: Group[]}} Neighbourhood */
/**
 * @typedef {object} RunInfo
 * @property {string} name
 * @property {string} model
 * @property {string | null} data
 * @property {number} entities
 * @property {number} relations
 * @property {number} facts
 * @property {number} parameters
 * @property {number} epochs
 * @property {boolean} calibrated
 * @property {string | null} example
 * @property {Example[]} examples
 */
/** @typedef {{default: string, runs: RunInfo[]}} Runs */
/** @typedef {{field: string, text: string | null, column: number | null, end: number | null}} Where */
/**
 * @typedef {object} Question
 * @property {string} run
 * @property {string} query
 * @property {number} top
 * @property {string} candidates
 * @property {Status | null} only
 * @property {number} [offset] how many answers of each list to pass over
 */
/** @typedef {{run: string}} OfRun */
/** @typedef {{run: string, name: string}} OfName */
/**
 * What is asked at each address, and what comes back.
 *
 * @typedef {object} Gets
 * @property {[{}, Runs]} runs
 * @property {[OfRun, RunPage]} run
 * @property {[OfRun, EntityMap]} map
 * @property {[OfRun, Validation]} validation
 * @property {[OfName, RelationOverview]} relation
 * @property {[OfName, Rules]} rules that a relation takes part in
 * @property {[OfName & {limit: number, relation?: string, offset?: number}, Neighbourhood]} entity
 *   its facts by relation; with `relation`, those of one relation from `offset` on
 * @property {[OfRun & {prefix: string, limit: number}, {entities: FoundEntity[]}]} entities
 *   names that what was typed may become
 * @property {[OfRun & {after: string, limit: number}, {relations: NextRelation[]}]} relations
 *   that make sense after the beginning of a query
 * @property {[OfRun & {text: string, caret: number}, Completion]} complete
 *   what the name at the caret may become: entities, then only relations that make sense there
 * @property {[{query: string}, Taken & {tree: Branch, orders: Taken[]}]} parse
 *   a query taken apart, and the queries that exchange two neighbouring hops of it
 * @property {[OfRun & {query: string}, {entity: string | null, query: string | null, repaired: boolean}]} read
 *   what a text is: an entity, or a query, perhaps with quotes around its names
 * @property {[OfRun & {query?: string, sparql?: string}, {query: string, sparql: string}]} translate
 *   one question in both languages, from either
 */
/**
 * @typedef {object} Posts
 * @property {[Question, Answers]} ask the `top` best answers of each list, known and predicted, or of one alone
 * @property {[OfRun & {query: string, candidates: string}, {counts: number[], least: number}]} spread
 *   how many predicted answers there are in each hundredth of probability; all that are as probable as `least`
 * @property {[OfRun & {query: string, entity: string, top: number}, Explanation]} explain
 * @property {[OfRun & {query: string, entities: string[]}, {entities: number, facets: Facet[]}]} facets
 *   what the answers have in common
 * @property {[OfRun & {source: string, target: string, max_length: number, top: number}, Connections]} paths
 */

const TRIES = 4;

/** What went wrong, in the server's words. */
export class Failure extends Error {
  /**
   * @param {string} kind
   * @param {string} message
   * @param {Where | null} where
   * @param {string[]} nearest names that were perhaps meant
   * @param {string[]} mended the query with each of them
   */
  constructor(kind, message, where = null, nearest = [], mended = []) {
    super(message);
    this.kind = kind;
    this.where = where;
    this.nearest = nearest;
    this.mended = mended;
  }
}

/**
 * @template {keyof Gets} Path
 * @param {Path} path
 * @param {Gets[Path][0]} question
 * @param {AbortSignal} signal
 * @returns {Promise<Gets[Path][1]>}
 */
export function get(path, question, signal) {
  const url = urlOf(path);
  for (const [name, value] of Object.entries(question)) url.searchParams.set(name, String(value));
  return call(url, { signal });
}

/**
 * @template {keyof Posts} Path
 * @param {Path} path
 * @param {Posts[Path][0]} question
 * @param {AbortSignal} signal
 * @param {string} [search] an id of the search, by which it can be watched and cancelled
 * @returns {Promise<Posts[Path][1]>}
 */
export function post(path, question, signal, search) {
  return call(urlOf(path), sent(question, signal, search === undefined ? {} : { "X-Request-Id": search }));
}

/**
 * The answers to several queries.
 *
 * @param {Omit<Question, "query"> & {query: string[]}} question
 * @param {AbortSignal} signal
 * @returns {Promise<Answers[]>}
 */
export function askMany(question, signal) {
  return call(urlOf("ask"), sent(question, signal));
}

/**
 * Answers as a table in CSV.
 *
 * @param {Question} question
 * @param {AbortSignal} signal
 */
export async function askTable(question, signal) {
  const { response, text } = await reach(urlOf("ask"), sent(question, signal, { Accept: "text/csv" }));
  if (!response.ok) refuse(read(response, text).error);
  return text;
}

/**
 * How far a search is, or after DELETE, how far it was when it was cancelled.
 *
 * @param {"GET" | "DELETE"} method
 * @param {string} search
 * @param {AbortSignal} signal
 * @returns {Promise<Search>}
 */
export function callSearch(method, search, signal) {
  return call(urlOf(`searches/${search}`), { method, signal });
}

/**
 * @param {object} question
 * @param {AbortSignal} signal
 * @param {Record<string, string>} [headers]
 */
function sent(question, signal, headers) {
  return {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(question),
    signal,
  };
}

/** @param {string} path */
function urlOf(path) {
  return new URL(`api/v1/${path}`, location.origin + location.pathname); // without a password that the address may hold
}

/**
 * @param {URL} url
 * @param {RequestInit} request
 * @returns {Promise<any>}
 */
async function call(url, request) {
  for (let left = TRIES - 1; ; left -= 1) {
    const { response, text } = await reach(url, request);
    const body = read(response, text);
    if (response.ok) return body.result;
    if (body.error.kind !== "busy" || left === 0) refuse(body.error);
    await pause(1000 * Number(response.headers.get("Retry-After") ?? 1));
  }
}

/**
 * @param {{kind: string, message: string, place: Where | null, nearest: string[], mended?: string[]}} error
 * @returns {never}
 */
function refuse({ kind, message, place, nearest, mended }) {
  throw new Failure(kind, message, place, nearest, mended);
}

/**
 * @param {URL} url
 * @param {RequestInit} request
 */
async function reach(url, request) {
  try {
    const response = await fetch(url, request);
    return { response, text: await response.text() };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new Failure("unreachable", "The server does not answer. Is blockhole serve still running?");
  }
}

/**
 * The body of a response, which is the server's own: a result, or an error of its shape.
 *
 * @param {Response} response
 * @param {string} text
 */
function read({ ok, status }, text) {
  try {
    const body = JSON.parse(text);
    if ((ok ? body?.result : body?.error?.message) !== undefined) return body;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new Failure("unreadable", `Something between this page and the server answered ${status}.`);
}

/**
 * @param {number} milliseconds
 * @returns {Promise<void>}
 */
export function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
