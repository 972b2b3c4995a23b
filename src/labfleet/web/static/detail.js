// A page that the server draws and that is live: the page of one object (`data-object`), or of many
// (`data-follows`: kinds, and `samples`, `alerts` or `queue`). When something of it changes, the
// server's own page is fetched, and what differs is put in. Nothing comes, goes or moves under the
// pointer, the focus or a selection: rows that stand are filled, the rest waits.

import { wordsOf } from "./asks.js";
import { tick } from "./clock.js";
import { copyButtons } from "./controls.js";
import { element, fetchElement, isPlainKey, say, selected } from "./dom.js";
import { fillRows, patch, saysTheSame } from "./patch.js";
import { PACE } from "./words.js";

const place = document.getElementById("live");
const object = place?.dataset.object;
const follows = new Set(wordsOf(place?.dataset.follows));
/** Somebody is there: look again after this many milliseconds. */
const HELD = 1000;
/** Milliseconds between two fetches of a page of many objects, which cost the server more. */
const REST = 2000;
/** A page so young, in milliseconds, shows what a first whole state says. */
const YOUNG = 5000;
/** What changes under the hand that is about to press it. */
const TOUCHED = ".scroll, .command, form, label, summary, a, button, input, select, textarea"
  .split(", ").map((each) => `${each}:hover`).join(", ");

const turn = {
  timer: 0,
  /** @type {number} when the page was last fetched */
  at: -REST,
  loading: false,
  /** Something changed while nobody saw the tab. */
  missed: false,
  /** @type {HTMLElement | null} what the server drew and nobody sees yet */
  fresh: null,
  holding: 0,
};
const waiting = element("button", "waiting");
waiting.type = "button";
waiting.hidden = true;
waiting.addEventListener("click", letIn);
if (place) document.body.append(waiting);

document.addEventListener("visibilitychange", () => {
  if (document.hidden || !turn.missed) return;
  turn.missed = false;
  reloadSoon();
});
document.addEventListener("keydown", (event) => {
  if (isPlainKey(event) && event.key.toLowerCase() === "r") letIn();
});

/**
 * Note that an object changed.
 * @param {string} kind
 * @param {string} key
 */
export function objectChanged(kind, key) {
  if (key === object || follows.has(kind)) reloadSoon();
}

/**
 * Note that a frame beside objects came.
 * @param {string} name
 * @param {boolean} whole it says everything anew
 */
export function frameCame(name, whole) {
  if (!follows.has(name) || (whole && performance.now() < YOUNG)) return;
  reloadSoon();
}

/** Note that anything may have changed. */
export function anythingChanged() {
  if (object || follows.size) reloadSoon();
}

function reloadSoon() {
  if (!place || turn.timer) return;
  if (document.hidden) {
    turn.missed = true;
    return;
  }
  const rest = follows.size ? turn.at + REST - performance.now() : 0;
  turn.timer = setTimeout(() => reload(place), Math.max(2 * PACE, rest));
}

/** @param {HTMLElement} live */
async function reload(live) {
  if (turn.loading) {
    turn.timer = setTimeout(() => reload(live), HELD);
    return;
  }
  // From here on a change asks for another turn: what is fetched now may be older than it.
  turn.timer = 0;
  turn.at = performance.now();
  turn.loading = true;
  // An object that is gone has a page too, with where it went.
  const fresh = await fetchElement(location.href, "live", object ? [404] : []);
  turn.loading = false;
  if (!fresh) return;
  turn.fresh = fresh;
  settle(live);
}

/**
 * Put in what waits, as far as nobody is in the way.
 * @param {HTMLElement} live
 */
function settle(live) {
  clearTimeout(turn.holding);
  const { fresh } = turn;
  if (!fresh) return;
  if (!isHeld(live)) {
    putIn(live, fresh);
    return;
  }
  const changes = fillRows(live, fresh, selected());
  tick();
  const isSame = !changes && saysTheSame(live, fresh);
  if (isSame) turn.fresh = null;
  else turn.holding = setTimeout(() => settle(live), HELD);
  waiting.hidden = isSame;
  const many = changes === 1 ? "1 change" : `${changes || ""} changes`.trim();
  if (!isSame) say(waiting, `${many} – press R`);
}

/** Let in what waits, whoever is there. */
function letIn() {
  clearTimeout(turn.holding);
  if (place && turn.fresh) putIn(place, turn.fresh);
}

/**
 * @param {HTMLElement} live
 * @param {HTMLElement} fresh
 */
function putIn(live, fresh) {
  turn.fresh = null;
  waiting.hidden = true;
  const focused = document.activeElement;
  patch(live, fresh);
  copyButtons();
  tick();
  if (focused instanceof HTMLElement && document.activeElement !== focused) refocus(live, focused);
  live.dispatchEvent(new CustomEvent("drawn"));
}

/**
 * Give the focus back that a change took: to where it was, else to what is there instead.
 * @param {HTMLElement} live
 * @param {HTMLElement} focused
 */
function refocus(live, focused) {
  /** @type {HTMLElement | null} */
  const instead = focused.isConnected ? focused : live.querySelector(".scroll");
  instead?.focus({ preventScroll: true });
}

/**
 * Whether somebody has focus, selection or pointer where it would change under them.
 * @param {HTMLElement} live
 * @returns {boolean}
 */
function isHeld(live) {
  return live.contains(document.activeElement) || selected() !== null
    || live.querySelector(TOUCHED) !== null;
}
