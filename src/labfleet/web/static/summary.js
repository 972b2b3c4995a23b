// The numbers of the page: how many objects of each kind and state there are, and how many are
// not shown.

import { marked, say } from "./dom.js";
import { rowsOf } from "./fleet.js";
import { KINDS, WORDS, stateOf } from "./words.js";

/** Draw every number. */
export function drawCounts() {
  for (const kind of KINDS) {
    const { size } = rowsOf(kind);
    say(marked("total", kind), String(size));
    const more = marked("more", kind);
    if (more) {
      const rest = Math.max(0, size - WORDS.rows);
      more.hidden = rest === 0;
      say(more.querySelector("b"), String(rest));
    }
    drawGroups(kind);
  }
}

/** @param {string} kind */
function drawGroups(kind) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const each of rowsOf(kind).values()) {
    const { group } = stateOf(kind, each.phase);
    found.set(group, (found.get(group) ?? 0) + 1);
  }
  for (const group of WORDS.groups[kind] ?? []) {
    const count = found.get(group) ?? 0;
    const place = marked("count", `${kind}/${group}`);
    if (!place) continue;
    say(place.querySelector("b"), String(count));
    place.classList.toggle("none", count === 0);
  }
}

/**
 * Show the table when it has rows, else what to do when there are none.
 * @param {string} kind
 * @param {number} shown
 */
export function drawSize(kind, shown) {
  const all = kind === "Event" ? shown : rowsOf(kind).size;
  const full = marked("full", kind);
  const empty = marked("empty", kind);
  if (full) full.hidden = all === 0;
  if (empty) empty.hidden = all !== 0;
}
