// What the server wrote into the page for the scripts: words.py as JSON, and who looks at it.
// Only pages of somebody who is signed in have it; nothing else here may be imported without.

/**
 * How a state is shown; `group` is what the summary counts.
 * @typedef {{group: string, order: number, tone: string, shape: string}} State
 */
/**
 * One column; words.py says what `show`, `path` and `measured` may be.
 * @typedef {{
 *   title: string, show: string, path: string, absent: string, wide: number, measured: string,
 * }} Column
 */
/**
 * One table of the page.
 * @typedef {object} Section
 * @property {string} kind
 * @property {string} plural
 * @property {string} title
 * @property {Column[]} columns
 * @property {string} since the instant by which what is over is sorted
 */
/**
 * What `as_json` of words.py gives, and what the page adds for its reader.
 * @typedef {object} Words
 * @property {Record<string, Record<string, State>>} states by kind and phase
 * @property {State} strange a state that words.py does not know, or none at all
 * @property {Record<string, string[]>} groups what the summary counts, by kind
 * @property {Record<string, Section>} sections by kind
 * @property {Record<string, string>} followed plurals of the kinds in the list of events, by kind
 * @property {Record<string, string>} changes words for the stream's names of changes
 * @property {string} namedBefore what the first event of a name's next object says
 * @property {Record<string, number>} units how many of each amount make one that is shown
 * @property {{true: string, false: string}} flags
 * @property {string[]} readable plurals of the kinds that the reader may read
 * @property {number} rows how many rows a table shows
 * @property {number} events how many rows the list of events shows
 * @property {number} over from this order on an object is over
 */

/** @returns {Words} */
function readWords() {
  const text = document.getElementById("words")?.textContent;
  if (!text) throw new Error("only pages of somebody who is signed in have words");
  return JSON.parse(text);
}

/** The tables of words.py. */
export const WORDS = readWords();

/** The kinds that have a table. */
export const KINDS = Object.keys(WORDS.sections);

/** The amounts that are counted: CPU, memory, nodes. */
export const UNITS = Object.keys(WORDS.units);

/** The id of the token that the page was made for; tabs of one token share a connection. */
export const WHO = document.body.dataset.who ?? "";

/** The page changes at most four times a second: milliseconds between two changes. */
export const PACE = 250;

/**
 * The table of a kind that has one.
 * @param {string} kind
 * @returns {Section}
 */
export function sectionOf(kind) {
  const found = WORDS.sections[kind];
  if (!found) throw new Error(`${kind} has no table`);
  return found;
}

/**
 * How a phase of a kind is shown.
 * @param {string} kind
 * @param {string | null} phase
 * @returns {State}
 */
export function stateOf(kind, phase) {
  return WORDS.states[kind]?.[phase ?? ""] ?? WORDS.strange;
}
