// A page of an earlier server: after an upgrade, or a change while somebody develops, its scripts
// are not served any more. It loads itself anew, but never while somebody writes.

/** A page so young, in milliseconds, is of the server that it speaks to. */
const YOUNG = 5000;

/** Load the page anew if the server, which is back, is of another version. */
export async function renewIfOld() {
  if (performance.now() < YOUNG) return;
  try {
    const reply = await fetch(import.meta.url, { method: "HEAD", cache: "no-store" });
    if (reply.status === 404 && !isWriting()) location.reload();
  } catch {
    // Away again: the next time that it is back tells.
  }
}

/**
 * Whether somebody would lose what they wrote or chose.
 * @returns {boolean}
 */
function isWriting() {
  if (document.querySelector("dialog[open], .pick input:checked")) return true;
  if (document.activeElement?.matches("input, textarea, select")) return true;
  /** @type {NodeListOf<HTMLInputElement>} */
  const boxes = document.querySelectorAll("main form [type=checkbox]");
  /** @type {NodeListOf<HTMLInputElement | HTMLTextAreaElement>} */
  const texts = document.querySelectorAll("main form :is(input:not([type=checkbox]), textarea)");
  /** @type {NodeListOf<HTMLSelectElement>} */
  const choices = document.querySelectorAll("main form select");
  return [...boxes].some((each) => each.checked !== each.defaultChecked)
    || [...texts].some((each) => each.value !== each.defaultValue)
    || [...choices].some(isChosenAnew);
}

/**
 * Whether another choice is made than the server drew: that which it marked, else the first one.
 * @param {HTMLSelectElement} field
 * @returns {boolean}
 */
function isChosenAnew(field) {
  const options = [...field.options];
  const drawn = options.find((each) => each.defaultSelected) ?? options[0];
  return drawn !== undefined && !drawn.selected;
}
