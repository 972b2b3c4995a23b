// What is paused: the banner on every page of those who may know of it, as the server draws it.

import { fetchElement } from "./dom.js";
import { PACE } from "./words.js";

/** @typedef {import("./rows.js").ApiObject} ApiObject */

const banner = document.getElementById("paused");
let waiting = 0;

/**
 * Whether a change of this object may change the banner. A pool's own pause is told by its object;
 * the server's list says which are shown.
 * @param {ApiObject} object
 * @returns {boolean}
 */
export function isPausing({ kind, metadata, spec }) {
  if (kind === "Settings") return true;
  if (kind !== "Pool" || !banner) return false;
  return (banner.dataset.pools ?? "").includes(` ${metadata.name} `) !== Boolean(spec.paused);
}

/** Put the banner in again soon. */
export function reloadPauses() {
  if (!banner || waiting) return;
  waiting = setTimeout(() => reload(banner), 2 * PACE);
}

/** @param {HTMLElement} shown */
async function reload(shown) {
  waiting = 0;
  // The smallest page that has the banner.
  const fresh = await fetchElement("/logout", "paused");
  if (!fresh || fresh.innerHTML === shown.innerHTML) return;
  shown.dataset.pools = fresh.dataset.pools;
  shown.replaceChildren(...fresh.childNodes);
}
