// The page of one object: when the object changes, the server's own HTML is put in again.

import { tick } from "./clock.js";
import { copyButtons } from "./controls.js";
import { fetchElement, selected } from "./dom.js";
import { PACE } from "./words.js";

const place = document.getElementById("live");
const object = place?.dataset.object;
/** Somebody is there: look again after this many milliseconds. */
const HELD = 1000;
let waiting = 0;

/**
 * Put the page in again soon.
 * @param {string | null} key the object that changed; null when any may have
 */
export function reloadDetail(key) {
  if (!place || !object || (key !== null && key !== object) || waiting) return;
  waiting = setTimeout(() => reload(place), 2 * PACE);
}

/** @param {HTMLElement} live */
async function reload(live) {
  if (isHeld(live)) {
    waiting = setTimeout(() => reload(live), HELD);
    return;
  }
  // From here on a change asks for another turn: what is fetched now may be older than it.
  waiting = 0;
  // An object that is gone has a page too, with where it went.
  const fresh = await fetchElement(location.href, "live", [404]);
  if (!fresh) return;
  live.replaceChildren(...fresh.childNodes);
  copyButtons();
  tick();
}

/**
 * Whether somebody has focus, selection or pointer where it would change under them.
 * @param {HTMLElement} live
 * @returns {boolean}
 */
function isHeld(live) {
  return live.contains(document.activeElement) || selected() !== null
    || live.querySelector(".scroll:hover, .command:hover") !== null;
}
