// Turns what stands in the page into what the server drew anew, changing only what differs: focus,
// scroll, selection, open details and marked rows stay where they are.

/**
 * What tells a node from its neighbours, whatever it says; empty when nothing does.
 * @param {Node} node
 * @returns {string}
 */
function nameOf(node) {
  return node instanceof Element ? node.id || node.getAttribute("data-key") || "" : "";
}

/**
 * Whether an attribute is the reader's or a script's, and not the server's.
 * @param {Element} node
 * @param {string} name
 * @returns {boolean}
 */
function isOwn(node, name) {
  return name === "data-was" || (name === "open" && /^(DETAILS|DIALOG)$/.test(node.tagName));
}

/**
 * @param {Element} old
 * @param {Element} fresh
 */
function patchAttributes(old, fresh) {
  for (const { name, value } of [...fresh.attributes]) {
    if (!isOwn(old, name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!isOwn(old, name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

/**
 * Make a node that stands say what the fresh one says; both are of one sort.
 * @param {Node} old
 * @param {Node} fresh what is taken over of it leaves its place
 */
export function patch(old, fresh) {
  if (!(old instanceof Element) || !(fresh instanceof Element)) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.matches(".copy")) return; // its words are a script's
  // How long ago it is goes on by itself.
  if (old.tagName === "TIME" && old.getAttribute("datetime") === fresh.getAttribute("datetime")) {
    return;
  }
  patchAttributes(old, fresh);
  patchChildren(old, fresh);
}

/**
 * @param {Element} old
 * @param {Element} fresh
 */
function patchChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  const names = new Set(wanted.map(nameOf));
  /** @type {Map<string, Node>} */
  const named = new Map();
  for (const each of [...old.childNodes]) {
    const name = nameOf(each);
    if (!name) continue;
    // What goes goes first: then what stays does not have to move, which would take its focus.
    if (names.has(name)) named.set(name, each);
    else each.remove();
  }
  let next = old.firstChild;
  for (const each of wanted) {
    const found = matching(each, next, named);
    if (!found) old.insertBefore(each, next);
    else {
      if (found === next) next = next.nextSibling;
      else old.insertBefore(found, next);
      patch(found, each);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

/**
 * The node that stands for a fresh one: that of its name, else the next one without a name.
 * @param {Node} fresh
 * @param {Node | null} next
 * @param {Map<string, Node>} named
 * @returns {Node | null}
 */
function matching(fresh, next, named) {
  const name = nameOf(fresh);
  const found = name ? named.get(name) ?? null : next;
  if (!found || found.nodeName !== fresh.nodeName || nameOf(found) !== name) return null;
  return found;
}

/**
 * Fill the rows that stand in the tables, and count those that would come, go or move.
 * @param {HTMLElement} live
 * @param {HTMLElement} fresh stays whole
 * @param {Node | null} spared the row with this node is left alone
 * @returns {number}
 */
export function fillRows(live, fresh, spared) {
  let changes = 0;
  for (const table of live.querySelectorAll("table")) {
    const drawn = twin(table, fresh);
    if (!drawn) continue;
    const standing = rowsOf(table);
    const wanted = rowsOf(drawn);
    for (const [key, row] of standing) {
      const other = wanted.get(key);
      if (other && !row.contains(spared)) patch(row, other.cloneNode(true));
    }
    const stay = [...standing.keys()].filter((key) => wanted.has(key));
    const kept = [...wanted.keys()].filter((key) => standing.has(key));
    changes += standing.size - stay.length + wanted.size - kept.length;
    changes += kept.filter((key, index) => stay[index] !== key).length;
  }
  return changes;
}

/**
 * The same table in the fresh page: the one whose caption has the same id.
 * @param {HTMLTableElement} table
 * @param {HTMLElement} fresh
 * @returns {HTMLTableElement | null}
 */
function twin(table, fresh) {
  const id = table.caption?.id;
  if (!id) return null;
  return [...fresh.querySelectorAll("table")].find(({ caption }) => caption?.id === id) ?? null;
}

/**
 * The rows of a table by key, in their order.
 * @param {HTMLTableElement} table
 * @returns {Map<string, HTMLElement>}
 */
function rowsOf(table) {
  /** @type {NodeListOf<HTMLElement>} */
  const found = table.querySelectorAll("tr[data-key]");
  return new Map([...found].map((row) => [row.dataset.key ?? "", row]));
}

/**
 * Whether two pages say the same, apart from how long ago things were.
 * @param {HTMLElement} live
 * @param {HTMLElement} fresh
 * @returns {boolean}
 */
export function saysTheSame(live, fresh) {
  return said(live) === said(fresh);
}

/**
 * @param {HTMLElement} node
 * @returns {string}
 */
function said(node) {
  const copy = node.cloneNode(true);
  if (!(copy instanceof Element)) return "";
  for (const each of copy.querySelectorAll("time, .copy")) each.replaceWith("");
  return copy.textContent ?? "";
}
