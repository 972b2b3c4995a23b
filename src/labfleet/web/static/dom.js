// Makes and changes elements of the page. Text becomes text nodes only, never HTML.

/**
 * Make an element.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {string} className nothing when it has none
 * @param {...(Node | string)} inside
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, className, ...inside) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...inside);
  return made;
}

/**
 * Make a link.
 * @param {string} href
 * @param {string} text
 * @returns {HTMLAnchorElement}
 */
export function link(href, text) {
  const made = element("a", "", text);
  made.href = href;
  return made;
}

/**
 * Make a part of a picture.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string>} attributes
 * @returns {SVGElementTagNameMap[Name]}
 */
export function drawing(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/**
 * Put text into a node; a node that shows it already is left alone, with its selection.
 * @param {Node | null | undefined} node
 * @param {string} text
 */
export function say(node, text) {
  if (node && node.textContent !== text) node.textContent = text;
}

/**
 * The element that carries a `data-` attribute with this value.
 * @param {string} attribute without `data-`
 * @param {string} value
 * @returns {HTMLElement | null}
 */
export function marked(attribute, value) {
  return document.querySelector(`[data-${attribute}="${value}"]`);
}

/** Whether somebody has selected something on the page; the node where it begins. */
export function selected() {
  const chosen = document.getSelection();
  return chosen && !chosen.isCollapsed ? chosen.anchorNode : null;
}

const keys = { on: true };

/**
 * Whether single keys do something.
 * @returns {boolean}
 */
export function keysAreOn() {
  return keys.on;
}

/**
 * Let single keys do something, or nothing.
 * @param {boolean} on
 */
export function switchKeys(on) {
  keys.on = on;
}

/**
 * Whether a key was pressed by itself, and not while somebody writes.
 * @param {KeyboardEvent} event
 * @returns {boolean}
 */
export function isPlainKey(event) {
  if (!keys.on) return false;
  const from = event.target instanceof Element ? event.target : null;
  const typing = from?.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
  return !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
}

/**
 * Load a page of the server anew and return one of its elements, ready to be put in here.
 * Null when the server is away or the page has no such element.
 * @param {string} address
 * @param {string} id
 * @param {number[]} statuses the refusals that are pages too
 * @returns {Promise<HTMLElement | null>}
 */
export async function fetchElement(address, id, statuses = []) {
  try {
    const reply = await fetch(address, { cache: "no-store" });
    if (!reply.ok && !statuses.includes(reply.status)) return null;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const fresh = page.getElementById(id);
    return fresh && document.adoptNode(fresh);
  } catch {
    return null; // the mark says that the server is away; the next change or snapshot tries again
  }
}
