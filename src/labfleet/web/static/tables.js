// Keeps the tables of the page current. Rows that stand are filled at once; rows that come, go or
// move wait while somebody is in the table: with the pointer, the focus or a selection.

import { cellOf } from "./cells.js";
import { element, isPlainKey, marked, say, selected } from "./dom.js";
import { eventRow } from "./events.js";
import { isWhole, measuredOf, newestEvents, rowsOf, usesOf } from "./fleet.js";
import { byPlace } from "./rows.js";
import { drawCounts, drawSize } from "./summary.js";
import { PACE, WORDS, sectionOf } from "./words.js";

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./cells.js").Use} Use */
/** @typedef {import("./events.js").Run} Run */
/**
 * One table of the page.
 * @typedef {object} Table
 * @property {string} kind `Event` for the list of events
 * @property {HTMLElement} place what scrolls around it
 * @property {HTMLTableSectionElement} body
 * @property {Map<string, HTMLTableRowElement>} rows by key
 * @property {boolean} over the pointer is in it
 */

/** @type {Map<string, Table>} */
const tables = new Map();
/** @type {Set<string>} the kinds whose rows wait until nobody is in their table */
const waiting = new Set();
/** @type {Set<string>} the kinds that will be drawn next */
const dirty = new Set();
let drawing = 0;
let drawn = -PACE;
/** New rows light up while fewer than so many come within so many milliseconds. */
const FEW_ROWS = 6;
const FEW_WITHIN = 5000;
/** @type {number[]} when the newest rows came */
const arrived = [];

/** Take over the tables that the server drew. */
export function adoptTables() {
  /** @type {NodeListOf<HTMLTableElement>} */
  const found = document.querySelectorAll("table[data-kind], table[data-events]");
  for (const node of found) adoptTable(node);
  /** @type {NodeListOf<HTMLElement>} */
  const buttons = document.querySelectorAll("[data-apply]");
  for (const button of buttons) {
    button.addEventListener("click", () => applyNow(button.dataset.apply ?? ""));
  }
  document.addEventListener("selectionchange", () => {
    if (!selected()) for (const kind of waiting) touch(kind);
  });
  document.addEventListener("keydown", (event) => {
    if (!isPlainKey(event) || event.key.toLowerCase() !== "r") return;
    for (const kind of [...waiting]) applyNow(kind);
  });
}

/** @param {HTMLTableElement} node */
function adoptTable(node) {
  const kind = node.dataset.kind ?? "Event";
  /** @type {HTMLElement | null} */
  const place = node.closest(".scroll");
  const body = node.tBodies[0];
  if (!place || !body) throw new Error(`the table of ${kind} lacks its frame or its body`);
  /** @type {Table} */
  const table = { kind, place, body, rows: new Map(), over: false };
  for (const row of body.rows) table.rows.set(keyOf(row), row);
  place.addEventListener("pointerenter", () => { table.over = true; });
  place.addEventListener("pointerleave", () => { table.over = false; touch(kind); });
  place.addEventListener("focusout", () => touch(kind));
  tables.set(kind, table);
}

/**
 * The lines of events that stand in the page, as the server wrote them.
 * @returns {Run[]}
 */
export function drawnEvents() {
  const rows = [...tables.get("Event")?.rows.values() ?? []];
  return rows.map((row) => JSON.parse(row.dataset.run ?? "null"));
}

/**
 * Draw a kind's table soon, together with all that changes until then.
 * @param {string} kind
 */
export function touch(kind) {
  if (!isWhole() || !tables.has(kind)) return;
  dirty.add(kind);
  // What comes after a rest is drawn at once, what comes on its heels with the next picture.
  drawing ||= setTimeout(drawAll, Math.max(0, drawn + PACE - performance.now()));
}

function drawAll() {
  drawing = 0;
  drawn = performance.now();
  for (const kind of dirty) {
    const table = tables.get(kind);
    if (table) draw(table, isHeld(table));
  }
  dirty.clear();
  drawCounts();
}

/**
 * Let the rows in that wait, whoever is in the table.
 * @param {string} kind
 */
function applyNow(kind) {
  const table = tables.get(kind);
  if (table) draw(table, false);
}

/**
 * Whether somebody is in the table.
 * @param {Table} table
 * @returns {boolean}
 */
function isHeld({ over, place }) {
  return over || place.contains(document.activeElement) || place.contains(selected());
}

/**
 * @param {HTMLTableRowElement} row
 * @returns {string}
 */
function keyOf(row) {
  return row.dataset.key ?? "";
}

/**
 * Draw one table.
 * @param {Table} table
 * @param {boolean} held rows may be filled, but none may come, go or move
 */
function draw(table, held) {
  const isEvents = table.kind === "Event";
  /** @type {(Row | Run)[]} */
  const wanted = isEvents
    ? newestEvents()
    : [...rowsOf(table.kind).values()].sort(byPlace).slice(0, WORDS.rows);
  const uses = usesOf(table.kind);
  // Also a row that will leave shows what its object is now, as long as it stands.
  for (const [key, node] of isEvents ? [] : table.rows) {
    const row = rowsOf(table.kind).get(key);
    if (row) fill(node, row, uses);
  }
  const keys = wanted.map((each) => each.key);
  const changes = held ? countMoves(table, keys) : 0;
  tellWaiting(table.kind, changes);
  if (changes) return;
  removeOthers(table, new Set(keys));
  let next = table.body.firstElementChild;
  for (const each of wanted) {
    const node = table.rows.get(each.key) ?? newRow(table, each, uses);
    if (node === next) next = next.nextElementSibling;
    else table.body.insertBefore(node, next);
  }
  drawSize(table.kind, wanted.length);
}

/**
 * Take the rows out that are not wanted.
 * @param {Table} table
 * @param {Set<string>} wanted
 */
function removeOthers(table, wanted) {
  for (const [key, node] of table.rows) {
    if (wanted.has(key)) continue;
    node.remove();
    table.rows.delete(key);
  }
}

/**
 * Make a row that does not stand yet.
 * @param {Table} table
 * @param {Row | Run} each
 * @param {Map<string, Use>} uses
 * @returns {HTMLTableRowElement}
 */
function newRow(table, each, uses) {
  let node;
  if ("values" in each) {
    node = blankRow(each);
    fill(node, each, uses);
  } else {
    node = eventRow(each);
  }
  table.rows.set(each.key, node);
  if (!mayLightUp()) node.classList.remove("fresh");
  return node;
}

/**
 * Whether a new row may light up. Where many come nobody sees one of them, and the browser would
 * paint without end: that was two thirds of what a busy page cost.
 * @returns {boolean}
 */
function mayLightUp() {
  const now = performance.now();
  arrived.push(now);
  if (arrived.length > FEW_ROWS) arrived.shift();
  return arrived.length < FEW_ROWS || now - (arrived[0] ?? 0) > FEW_WITHIN;
}

/**
 * Make a row with empty cells, the first of them its heading.
 * @param {Row} row
 * @returns {HTMLTableRowElement}
 */
function blankRow(row) {
  const head = element("th", "");
  head.scope = "row";
  const made = element("tr", "fresh", head);
  made.dataset.key = row.key;
  for (let index = 1; index < row.values.length; index += 1) made.append(element("td", ""));
  return made;
}

/**
 * Fill the cells of a row that say something new.
 * @param {HTMLTableRowElement} node
 * @param {Row} row
 * @param {Map<string, Use>} uses
 */
function fill(node, row, uses) {
  const use = uses.get(`${row.namespace}/${row.name}`);
  sectionOf(row.kind).columns.forEach((column, index) => {
    const place = node.cells[index];
    const value = row.values[index] ?? null;
    const cell = cellOf(row, column, value, use, measuredOf(row.key, column.measured));
    if (!cell) return;
    const { text, make } = cell;
    if (!place || place.dataset.was === text) return;
    const isAdopted = place.dataset.was === undefined;
    place.dataset.was = text;
    if (make) {
      const made = make();
      // The server drew it already: leave the node, somebody may have the focus on it.
      if (!isAdopted || steadyText(place) !== steadyText(made)) place.replaceChildren(made);
    } else {
      say(place, text);
      place.title = column.show === "why" ? String(value) : text;
    }
  });
  node.classList.toggle("over", row.over);
  node.classList.remove("gone");
  node.dataset.version = String(row.version);
}

/**
 * What a cell says, without the relative time, which moves by itself.
 * @param {Element} node
 * @returns {string | null}
 */
function steadyText(node) {
  const moves = node.querySelector("time > [aria-hidden]")?.textContent;
  return moves ? (node.textContent ?? "").replace(moves, "") : node.textContent;
}

/**
 * Count the rows that would come, go or change their place; strike out those that are gone.
 * @param {Table} table
 * @param {string[]} keys as they should stand
 * @returns {number}
 */
function countMoves(table, keys) {
  const wanted = new Set(keys);
  const kept = keys.filter((key) => table.rows.has(key));
  let changes = keys.length - kept.length;
  /** @type {string[]} */
  const standing = [];
  for (const row of table.body.rows) {
    const key = keyOf(row);
    const stays = wanted.has(key);
    const exists = table.kind === "Event" || rowsOf(table.kind).has(key);
    row.classList.toggle("gone", !stays && !exists);
    if (stays) standing.push(key);
    else changes += 1;
  }
  kept.forEach((key, index) => { if (standing[index] !== key) changes += 1; });
  return changes;
}

/**
 * Say on the table's button how many rows wait; hide it when none does.
 * @param {string} kind
 * @param {number} changes
 */
function tellWaiting(kind, changes) {
  if (changes) waiting.add(kind);
  else waiting.delete(kind);
  const button = marked("apply", kind);
  if (!button) return;
  button.hidden = !changes;
  if (changes) say(button, `${changes} ${changes === 1 ? "change" : "changes"} – press R`);
}
