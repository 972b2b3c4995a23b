// The mark beside the clock: whether what the page shows is live, delayed or old.

import { say } from "./dom.js";

/** @typedef {"still" | "live" | "reconnecting"} Connection `still`: nothing was tried yet */

/** The stream says something at least this often, in milliseconds: two heartbeats. */
export const SILENCE = 30000;

const mark = {
  /** @type {Connection} */
  connection: "still",
  heard: performance.now(),
};

/**
 * What the mark says now of the connection.
 * @returns {Connection}
 */
export function connection() {
  return mark.connection;
}

/** Note that the server was heard, without drawing. */
export function noteHeard() {
  mark.heard = performance.now();
}

/**
 * How long nothing was heard of the server, in milliseconds.
 * @returns {number}
 */
export function silence() {
  return performance.now() - mark.heard;
}

/**
 * Change what the mark says.
 * @param {Connection} state
 * @param {boolean} [heard] the server was heard just now
 */
export function setMark(state, heard = false) {
  mark.connection = state;
  if (heard) noteHeard();
  showMark();
}

/** Draw the mark; once a second, because silence makes no event. */
export function showMark() {
  const place = document.getElementById("mark");
  if (!place || mark.connection === "still") return;
  const isDelayed = mark.connection === "live" && silence() > SILENCE;
  const state = isDelayed ? "delayed" : mark.connection;
  place.dataset.state = state;
  say(place.lastElementChild, state);
  place.title = {
    live: "Changes appear as they happen",
    delayed: `Nothing heard for ${Math.round(silence() / 1000)} s`,
    reconnecting: "The server does not answer; what you see may be old",
  }[state];
}
