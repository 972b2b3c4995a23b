// The command box: what is typed is looked for by the server's page /search, and its hits are shown
// here. Arrows move among them, Enter opens the first one or the one with the focus, Esc closes.

import { element, fetchElement, say } from "./dom.js";

/** So long, in milliseconds, somebody may pause between two letters of one question. */
const TYPING = 150;
let typing = 0;
/** The number of the newest question: the answers of earlier ones are not shown. */
let newest = 0;

/**
 * Open the box.
 * @returns {boolean}
 */
export function openCommand() {
  const box = document.getElementById("command");
  const field = box?.querySelector("input");
  if (!(box instanceof HTMLDialogElement) || !field) return false;
  if (!box.dataset.ready) prepare(box, field);
  if (!box.open) box.showModal();
  field.select();
  return true;
}

/**
 * @param {HTMLDialogElement} box
 * @param {HTMLInputElement} field
 */
function prepare(box, field) {
  box.dataset.ready = "1";
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => ask(field.value.trim()), TYPING);
  });
  field.form?.addEventListener("submit", (event) => {
    const first = hits()[0];
    // Hits of an earlier question are not what Enter means.
    if (!first || document.getElementById("found")?.dataset.of !== field.value.trim()) return;
    event.preventDefault();
    location.assign(first.href);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const all = [field, ...hits()];
    const at = all.findIndex((each) => each === document.activeElement);
    all[(at + (event.key === "ArrowDown" ? 1 : -1) + all.length) % all.length]?.focus();
  });
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
}

/**
 * The links that are shown.
 * @returns {HTMLAnchorElement[]}
 */
function hits() {
  /** @type {NodeListOf<HTMLAnchorElement>} */
  const found = document.querySelectorAll("#found a");
  return [...found];
}

/** @param {string} text */
async function ask(text) {
  newest += 1;
  const number = newest;
  const fresh = text ? await fetchElement(`/search?q=${encodeURIComponent(text)}`, "hits") : null;
  const place = document.getElementById("found");
  if (number !== newest || !place) return;
  fresh?.removeAttribute("id");
  const away = text && !fresh ? [element("p", "", "The server does not answer.")] : [];
  place.replaceChildren(...(fresh ? [fresh] : away));
  place.dataset.of = text;
  const many = hits().length;
  say(document.querySelector("#command [role=status]"), text ? `${many} found` : "");
}
