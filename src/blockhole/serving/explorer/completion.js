/**
 * What the name at the caret may become: entities first, then only relations that make sense next.
 *
 * @module
 */

import { Failure, MOST_RELATIONS, findEntities, findRelations } from "./api.js";
import { pieceAt, typedName } from "./query-text.js";

/**
 * @typedef {object} Suggestion
 * @property {string} text what goes into the query, quoted where it must be
 * @property {string} label what is shown
 * @property {[number, number]} hit the part of the label that was typed
 * @property {"known" | "predicted" | null} status of a relation: whether facts lead on over it
 * @property {string} note
 */

/**
 * @typedef {object} Completion
 * @property {string} text the query it was made for
 * @property {"entity" | "relation"} kind
 * @property {boolean} complete whether the name is already one of those suggested
 * @property {Suggestion[]} suggestions
 */

const ENTITIES_SHOWN = 12;

/**
 * @param {string} run
 * @param {string} text
 * @param {number} caret
 * @param {AbortSignal} signal
 * @returns {Promise<Completion>}
 */
export async function complete(run, text, caret, signal) {
  const { piece, place } = pieceAt(text, caret);
  const typed = typedName(piece.text);
  const suggestions =
    place === 0
      ? await entities(run, piece.text, typed.name, signal)
      : await relations(run, text.slice(0, piece.start - 1), typed, signal);
  return {
    text,
    kind: place === 0 ? "entity" : "relation",
    complete: suggestions.some((suggestion) => suggestion.text === piece.text.trim()),
    suggestions,
  };
}

/**
 * @param {string} run
 * @param {string} prefix
 * @param {string} typed
 * @param {AbortSignal} signal
 * @returns {Promise<Suggestion[]>}
 */
async function entities(run, prefix, typed, signal) {
  const found = await findEntities({ run, prefix: prefix.trim(), limit: ENTITIES_SHOWN }, signal);
  return found.entities.map(({ name, text, match }) => ({
    text,
    label: name,
    hit: hitOf(name, typed),
    status: null,
    note: match === "similar" ? "looks alike" : "",
  }));
}

/**
 * @param {string} run
 * @param {string} after
 * @param {{inverse: boolean, name: string}} typed
 * @param {AbortSignal} signal
 * @returns {Promise<Suggestion[]>}
 */
async function relations(run, after, typed, signal) {
  const found = await relationsAfter(run, after, typed.name, signal);
  return found
    .filter(({ inverse }) => inverse || !typed.inverse)
    .map((relation) => ({ relation, likeness: likeness(relation.name, typed.name) }))
    .filter((each) => each.likeness > 0)
    .toSorted((a, b) => b.likeness - a.likeness) // stable: among those alike the server's order stays
    .map(({ relation: { name, inverse, text, known } }) => {
      const [from, to] = hitOf(name, typed.name);
      const shift = inverse ? 1 : 0;
      return {
        text,
        label: inverse ? `^${name}` : name,
        hit: [from + shift, to + shift],
        status: known ? "known" : "predicted",
        note: known ? "facts lead on" : "the model only",
      };
    });
}

/**
 * None after a beginning that has a mistake: asking will say which. Where there are more than come at once, those that
 * begin as typed are asked for too.
 *
 * @param {string} run
 * @param {string} after
 * @param {string} typed
 * @param {AbortSignal} signal
 */
async function relationsAfter(run, after, typed, signal) {
  try {
    const { relations } = await findRelations({ run, after }, signal);
    if (relations.length < MOST_RELATIONS || typed === "") return relations;
    const begun = (await findRelations({ run, after, prefix: typed }, signal)).relations;
    const texts = new Set(begun.map(({ text }) => text));
    return [...begun, ...relations.filter(({ text }) => !texts.has(text))];
  } catch (failure) {
    if (failure instanceof Failure && ["syntax", "unknown_name"].includes(failure.kind)) return [];
    throw failure;
  }
}

/**
 * How well a relation fits what is typed: 3 it begins so, 2 it holds it, 1 it has its letters in order, 0 not at all.
 *
 * @param {string} name
 * @param {string} typed
 */
function likeness(name, typed) {
  const within = name.toLowerCase().indexOf(typed.toLowerCase());
  if (within === 0) return 3;
  if (within > 0) return 2;
  let at = 0;
  for (const letter of name.toLowerCase()) if (letter === typed.toLowerCase()[at]) at += 1;
  return at === typed.length ? 1 : 0;
}

/**
 * @param {string} name
 * @param {string} typed
 * @returns {[number, number]}
 */
function hitOf(name, typed) {
  const from = name.toLowerCase().indexOf(typed.toLowerCase());
  return from < 0 ? [0, 0] : [from, from + typed.length];
}
