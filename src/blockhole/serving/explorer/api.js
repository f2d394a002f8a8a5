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
 * @property {ProofNode[]} parts
 * @property {Exclusion[]} excluded
 */
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
 * @property {boolean} calibrated
 * @property {string | null} example
 * @property {Example[]} examples
 */
/** @typedef {{default: string, runs: RunInfo[]}} Runs */
/** @typedef {{field: string, text: string | null, column: number | null, end: number | null}} Where */

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
 * @param {AbortSignal} signal
 * @returns {Promise<Runs>}
 */
export function getRuns(signal) {
  return get("api/v1/runs", {}, signal);
}

/**
 * The `top` best answers of each list, known and predicted, or of one alone, from `offset` on.
 *
 * @param {{run: string, query: string, top: number, candidates: string, only: Status | null, offset?: number}} question
 * @param {AbortSignal} signal
 * @returns {Promise<Answers>}
 */
export function ask(question, signal) {
  return post("api/v1/ask", question, signal);
}

/**
 * @param {{run: string, query: string, entity: string, top: number}} question
 * @param {AbortSignal} signal
 * @returns {Promise<Explanation>}
 */
export function explain(question, signal) {
  return post("api/v1/explain", question, signal);
}

/**
 * What the name at the caret may become: entities, then only relations that make sense there.
 *
 * @param {{run: string, text: string, caret: number}} question
 * @param {AbortSignal} signal
 * @returns {Promise<Completion>}
 */
export function complete(question, signal) {
  return get("api/v1/complete", question, signal);
}

/**
 * A query taken apart, and the queries that exchange two neighbouring hops of it.
 *
 * @param {string} query
 * @param {AbortSignal} signal
 * @returns {Promise<Taken & {orders: Taken[]}>}
 */
export function parse(query, signal) {
  return get("api/v1/parse", { query }, signal);
}

/**
 * An entity's facts by relation; with `relation`, those of one relation from `offset` on.
 *
 * @param {{run: string, name: string, limit: number, relation?: string, offset?: number}} question
 * @param {AbortSignal} signal
 * @returns {Promise<Neighbourhood>}
 */
export function getEntity(question, signal) {
  return get("api/v1/entity", question, signal);
}

/**
 * @param {string} path
 * @param {Record<string, string | number>} question
 * @param {AbortSignal} signal
 */
function get(path, question, signal) {
  const url = urlOf(path);
  for (const [name, value] of Object.entries(question)) url.searchParams.set(name, String(value));
  return call(url, { signal });
}

/**
 * @param {string} path
 * @param {object} question
 * @param {AbortSignal} signal
 */
function post(path, question, signal) {
  const headers = { "Content-Type": "application/json" };
  return call(urlOf(path), { method: "POST", headers, body: JSON.stringify(question), signal });
}

/** @param {string} path */
function urlOf(path) {
  return new URL(path, location.origin + location.pathname); // without a password that the address may hold
}

/**
 * @param {URL} url
 * @param {RequestInit & {signal: AbortSignal}} request
 * @returns {Promise<any>}
 */
async function call(url, request) {
  for (let left = TRIES - 1; ; left -= 1) {
    const { response, text } = await reach(url, request);
    const body = read(response, text);
    if (response.ok) return body.result;
    const { kind, message, place, nearest, mended } = body.error;
    if (kind !== "busy" || left === 0) throw new Failure(kind, message, place, nearest, mended);
    await pause(Number(response.headers.get("Retry-After") ?? 1), request.signal);
  }
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
 * @param {number} seconds
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
