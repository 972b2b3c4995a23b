// How long a lab still lasts, by the fleet's clock: counted down each second, with what is said
// when little is left. The server says it in the same words (seat_words.py).

import { fleetNow } from "./clock.js";
import { say } from "./dom.js";

/**
 * Say a span as the server does: `1 h 05 min`.
 * @param {number} seconds
 * @returns {string}
 */
function lasting(seconds) {
  const whole = Math.max(0, Math.trunc(seconds));
  const hours = Math.trunc(whole / 3600);
  const minutes = Math.trunc(whole / 60) % 60;
  if (whole >= 129600) return `${Math.trunc(whole / 86400)} d ${hours % 24} h`;
  if (hours) return `${hours} h ${String(minutes).padStart(2, "0")} min`;
  if (minutes >= 10) return `${minutes} min`;
  return `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
}

/**
 * Say what is said when so little is left; nothing while there is time.
 * @param {number} seconds
 * @param {string} warned minutes, with commas between them
 * @returns {string}
 */
function warning(seconds, warned) {
  if (seconds <= 0) return "Its time is over.";
  const near = warned.split(",").map(Number).filter((each) => each && seconds <= each * 60);
  if (!near.length) return "";
  const least = Math.min(...near);
  const words = least === 1 ? "1 minute" : `${least} minutes`;
  return `Less than ${words} left: save your work, or ask for more time.`;
}

/** Count down everything of the page that ends. */
export function countDown() {
  /** @type {NodeListOf<HTMLElement>} */
  const shown = document.querySelectorAll("[data-ends]");
  for (const node of shown) {
    const seconds = (Date.parse(node.dataset.ends ?? "") - fleetNow()) / 1000;
    say(node.firstElementChild, lasting(seconds));
    say(node.lastElementChild, warning(seconds, node.dataset.minutes ?? ""));
  }
}
