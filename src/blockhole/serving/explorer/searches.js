/**
 * Searches that take long: they say how far they are, and can be cancelled.
 *
 * @module
 */

import { Failure, callSearch, pause } from "./api.js";
import { announce, element } from "./elements.js";

const PATIENCE = 700; // milliseconds before a search shows how far it is
const AGAIN = 400; // milliseconds between two looks

/** @typedef {() => string} NewSearch makes an id for a search, by which the server finds it */

/**
 * What comes of `work`; while that takes long, `room` shows how far its searches are, and a button to cancel them.
 *
 * @template Result
 * @param {HTMLElement} room
 * @param {AbortSignal} signal
 * @param {(search: NewSearch) => Promise<Result>} work
 * @returns {Promise<Result>}
 */
export async function watched(room, signal, work) {
  let isOver = false;
  /** @type {string[]} */
  const searches = [];
  watch(room, searches, signal, () => isOver || signal.aborted);
  try {
    return await work(() => {
      const search = `page-${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 10)}`;
      searches.push(search);
      return search;
    });
  } finally {
    isOver = true;
    if (!signal.aborted) room.hidden = true; // what comes after it may have begun to show itself there
  }
}

/**
 * @param {HTMLElement} room
 * @param {string[]} searches
 * @param {AbortSignal} signal
 * @param {() => boolean} isOver
 */
async function watch(room, searches, signal, isOver) {
  await pause(PATIENCE);
  if (isOver()) return;
  const said = element("span", {}, "Searching …");
  const bar = element("progress", { max: "1", "aria-label": "Search" });
  const cancel = element("button", {}, "Cancel");
  cancel.addEventListener("click", () => {
    for (const search of searches) callSearch("DELETE", search, signal).catch(() => {}); // it may just be over
  });
  room.replaceChildren(said, bar, cancel);
  room.hidden = false;
  announce("Searching");
  while (!isOver()) {
    const looks = await Promise.allSettled(searches.map((search) => callSearch("GET", search, signal)));
    for (const look of looks) {
      if (look.status === "fulfilled") {
        const { seconds, timeout, steps } = look.value;
        const made = steps.toLocaleString("en");
        said.textContent = `Searching for ${seconds.toFixed(1)} of at most ${timeout} s, ${made} steps`;
        bar.value = seconds / timeout;
      } else if (!signal.aborted && !(look.reason instanceof Failure)) throw look.reason;
      // A search that the server does not know is over, or has not begun.
    }
    await pause(AGAIN);
  }
}
