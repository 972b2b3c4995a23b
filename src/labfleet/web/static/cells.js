// The cells of the tables. They look as templates/cells.html draws them: the page that the server
// made and the page that changed by itself are the same.

import { timeNode } from "./clock.js";
import { drawing, element, link } from "./dom.js";
import { address } from "./rows.js";
import { WORDS, sectionOf, stateOf } from "./words.js";

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./rows.js").Value} Value */
/** @typedef {import("./words.js").Column} Column */
/**
 * What is held of a worker or cluster, and by how many.
 * @typedef {{live: number, held: Record<string, number>}} Use
 */
/**
 * One measured number; null when it is unknown, with the reason.
 * @typedef {object} Measured
 * @property {number | null} value
 * @property {string} unit
 * @property {string | null} source
 * @property {string | null} at
 * @property {string} reason
 */
/**
 * What a cell shows: equal text needs no new node. Without `make` the text is all there is.
 * @typedef {{text: string, make?: () => HTMLElement}} Cell
 */

/**
 * Make the node of a state: a shape and a word, never colour alone.
 * @param {string} kind
 * @param {string} phase
 * @returns {HTMLElement}
 */
export function stateNode(kind, phase) {
  const found = stateOf(kind, phase);
  const shape = element("i", "", found.shape);
  shape.setAttribute("aria-hidden", "true");
  const made = element("span", `state ${found.tone}`, shape, ` ${phase}`);
  made.title = phase; // a narrow column cuts it
  return made;
}

/**
 * Write a number with one digit after the point, or none when that is 0.
 * @param {number} value
 * @returns {string}
 */
function number(value) {
  return value.toFixed(1).replace(/\.0$/, "");
}

/**
 * Make the bar of what is held.
 * @param {string} name of the amount
 * @param {number} held
 * @param {number} capacity
 * @returns {HTMLElement}
 */
function loadNode(name, held, capacity) {
  const unit = WORDS.units[name] ?? 1;
  const percent = capacity === 0 ? 0 : Math.min(100, Math.floor((held * 100) / capacity));
  const picture = drawing("svg", {
    viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true",
  });
  picture.append(drawing("rect", { width: String(percent), height: "10" }));
  const rising = percent >= 90 ? "warn" : "good";
  const text = ` ${number(held / unit)} of ${number(capacity / unit)}`;
  return element("span", `load ${held > capacity ? "bad" : rising}`, picture, text);
}

/**
 * Make what stands where there is no value: a word, or unknown with its reason.
 * @param {Column} column
 * @returns {HTMLElement}
 */
function absentNode(column) {
  if (!column.absent.startsWith("unknown")) return element("span", "absent", column.absent);
  const at = column.absent.indexOf(": ");
  if (at < 0) return element("span", "unknown", "unknown");
  const why = column.absent.slice(at + 2);
  const made = element("span", "unknown", "unknown", " ", element("small", "", why));
  made.title = column.absent;
  return made;
}

/**
 * The reason within a sentence that begins with what is needed.
 * @param {string} sentence
 * @returns {string}
 */
function gist(sentence) {
  const at = sentence.indexOf("; ");
  return at > 0 && sentence.startsWith("needs ") ? sentence.slice(at + 2) : sentence;
}

/**
 * @param {Row} row
 * @param {Column} column
 * @param {Use | undefined} use
 * @returns {Cell}
 */
function loadCell(row, column, use) {
  const capacity = row.capacity?.[column.path];
  if (capacity === undefined) return { text: "unknown", make: () => absentNode(column) };
  const held = use?.held[column.path] ?? 0;
  return { text: `${held} ${capacity}`, make: () => loadNode(column.path, held, capacity) };
}

/**
 * Put what was measured beside what is held, in one cell, where the column says so.
 * @param {Cell} held
 * @param {Column} column
 * @param {Measured | null | undefined} found null before it is known
 * @returns {Cell | null}
 */
function withMeasured(held, column, found) {
  if (!column.measured) return held;
  if (found === null) return null;
  const made = () => element("div", "", held.make?.() ?? held.text, measuredNode(found));
  return { text: `${held.text} ${found?.value} ${found?.at} ${found?.reason}`, make: made };
}

/**
 * Make what was measured, with its age, or unknown with its reason.
 * @param {Measured | undefined} found
 * @returns {HTMLElement}
 */
function measuredNode(found) {
  if (!found || found.value === null || found.at === null) {
    const unknown = element("small", "used unknown", "use unknown");
    unknown.title = `unknown: ${found ? found.reason : "not measured"}`;
    return unknown;
  }
  const sign = found.unit === "percent" ? "%" : found.unit;
  const text = `${number(found.value)} ${sign} used `;
  const made = element("small", "used", text, timeNode(found.at));
  made.title = found.source ?? "";
  return made;
}

/**
 * @param {Row} row
 * @param {string} show
 * @param {Value} value
 * @returns {Cell}
 */
function valueCell(row, show, value) {
  const text = String(value);
  switch (show) {
    case "time":
      return { text, make: () => timeNode(text) };
    case "state":
      return { text, make: () => stateNode(row.kind, text) };
    case "health":
      return { text, make: () => stateNode("Health", text) };
    case "flag":
      return { text: WORDS.flags[value ? "true" : "false"] };
    case "why":
      return { text: gist(text) };
    default:
      return { text };
  }
}

/**
 * Return the cell of a row in a column.
 * @param {Row} row
 * @param {Column} column
 * @param {Value | null} value of the row in that column
 * @param {Use | undefined} use what others hold of the row's object
 * @param {Measured | null | undefined} measured of it in that column; null before it is known
 * @returns {Cell | null} null when the cell stays as it is
 */
export function cellOf(row, column, value, use, measured) {
  const [show = "", plural = ""] = column.show.split(":");
  if (show === "name") {
    const href = address(sectionOf(row.kind).plural, row.name, row.namespace);
    return { text: row.name, make: () => link(href, row.name) };
  }
  if (show === "live") return { text: String(use?.live ?? 0) };
  if (show === "load") return withMeasured(loadCell(row, column, use), column, measured);
  if (value === null) return { text: "", make: () => absentNode(column) };
  if (show === "link" && WORDS.readable.includes(plural)) { // others lead to a refusal
    const name = String(value);
    return { text: name, make: () => link(address(plural, name, row.namespace), name) };
  }
  return valueCell(row, show, value);
}
