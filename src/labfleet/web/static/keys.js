// What single keys do; the dialog of the page (keys.html) lists them. Somebody may switch them off,
// which a cookie keeps: whoever speaks to a computer types letters that were never meant.

import { openCommand } from "./command.js";
import { isPlainKey, keysAreOn, switchKeys } from "./dom.js";

const YEAR = 31536000;
/** So long, in milliseconds, `g` waits for the next key. */
const TOGETHER = 1500;
const ROWS = "main tr[data-key]";
let going = 0;

/** Listen to the keyboard, and show the buttons that do the same. */
export function listenToKeys() {
  switchKeys(!document.cookie.split("; ").includes("labfleet-keys=off"));
  document.addEventListener("keydown", press);
  const help = document.getElementById("help");
  if (help) help.hidden = false;
  help?.addEventListener("click", openHelp);
  document.getElementById("find")?.addEventListener("click", (event) => {
    event.preventDefault();
    openCommand();
  });
  const on = document.getElementById("keys-on");
  if (on instanceof HTMLInputElement) {
    on.checked = keysAreOn();
    on.addEventListener("change", () => {
      switchKeys(on.checked);
      const age = on.checked ? 0 : YEAR;
      document.cookie = `labfleet-keys=off; Path=/; Max-Age=${age}; SameSite=Lax`;
    });
  }
  if (location.hash === "#acts") focusOn("main .acts a");
}

/** @param {KeyboardEvent} event */
function press(event) {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openCommand();
    return;
  }
  if (event.key === "Escape") leave(event);
  if (!isPlainKey(event) || document.querySelector("dialog[open]")) return;
  const hasGone = going && go(event.key);
  clearTimeout(going);
  going = 0;
  if (hasGone || doKey(event.key)) event.preventDefault();
}

/**
 * Do what one key says; false when it says nothing here.
 * @param {string} key
 * @returns {boolean}
 */
function doKey(key) {
  switch (key) {
    case "?": return openHelp();
    case "/": return focusOn("main .filter input[type=search]") || openCommand();
    case "g":
      going = setTimeout(() => { going = 0; }, TOGETHER);
      return true;
    case "j": return move(1);
    case "k": return move(-1);
    case "x": return select();
    case "e": return toPart("events");
    case ".": return rowHere() ? toPart("acts") : focusOn("main .acts a");
    default: return false;
  }
}

function openHelp() {
  const help = document.getElementById("keys");
  if (help instanceof HTMLDialogElement && !help.open) help.showModal();
  return help !== null;
}

/**
 * Go where a key after `g` leads.
 * @param {string} key
 * @returns {boolean}
 */
function go(key) {
  /** @type {NodeListOf<HTMLAnchorElement>} */
  const links = document.querySelectorAll("#keys a[data-go]");
  const found = [...links].find((each) => each.dataset.go === key);
  if (found) location.assign(found.href);
  return found !== undefined;
}

/**
 * The row with the focus.
 * @returns {HTMLTableRowElement | null}
 */
function rowHere() {
  return document.activeElement?.closest(ROWS) ?? null;
}

/**
 * Move the focus to the link of the next row, or of the one before.
 * @param {number} step
 * @returns {boolean}
 */
function move(step) {
  /** @type {NodeListOf<HTMLTableRowElement>} */
  const all = document.querySelectorAll(ROWS);
  const rows = [...all].filter((row) => row.checkVisibility());
  const here = rowHere();
  const at = here ? rows.indexOf(here) + step : 0;
  const link = rows[Math.max(0, Math.min(rows.length - 1, at))]?.querySelector("th a, a");
  if (link instanceof HTMLElement) link.focus();
  return link instanceof HTMLElement;
}

/** Choose the row with the focus, or no longer. */
function select() {
  const box = rowHere()?.querySelector(".pick input");
  if (!(box instanceof HTMLInputElement)) return false;
  box.click();
  return true;
}

/**
 * Go to a part of the page of the row with the focus, or of this page.
 * @param {string} part
 * @returns {boolean}
 */
function toPart(part) {
  const link = rowHere()?.querySelector("th a");
  if (link instanceof HTMLAnchorElement) {
    location.assign(`${link.href.replace(/#.*/, "")}#${part}`);
    return true;
  }
  const place = document.getElementById(part);
  place?.scrollIntoView();
  return place !== null && focusOn(`#${part} .scroll, #${part} a`);
}

/**
 * Move the focus; false when there is no such element.
 * @param {string} selector
 * @returns {boolean}
 */
function focusOn(selector) {
  /** @type {HTMLElement | null} */
  const found = document.querySelector(selector);
  found?.focus();
  return found !== null;
}

/**
 * Leave a field; dialogs close by themselves.
 * @param {KeyboardEvent} event
 */
function leave({ target }) {
  if (target instanceof HTMLElement && target.closest("main") && target.matches("input, select")) {
    target.blur();
  }
}
