// What is kept of an object: enough for its row, small enough to share between tabs. Pure.

import { KINDS, UNITS, WORDS, sectionOf, stateOf } from "./words.js";

/** @typedef {Record<string, number>} Amounts in the units of the API: cpuMilli, memoryMib, nodes */
/**
 * An object as the stream sends it, and what is read of its spec and status.
 * @typedef {object} ApiObject
 * @property {string} kind
 * @property {{name: string, namespace: string, resourceVersion: string, uid: string}} metadata
 * @property {Spec} spec
 * @property {Status} status
 */
/**
 * @typedef {object} Spec
 * @property {Amounts} [capacity] of a cluster
 * @property {number} [cpuPercent]
 * @property {number} [memoryPercent]
 * @property {string} [cluster] of a simulation
 * @property {boolean} [paused] of a pool
 */
/**
 * @typedef {object} Status
 * @property {string | null} [phase]
 * @property {string | null} [worker] of a session
 * @property {Amounts | null} [capacity] of a worker
 * @property {{capacity: Amounts} | null} [seen] of a cluster's nodes
 * @property {{amounts?: Amounts} | null} [reservation]
 */
/** @typedef {string | number | boolean} Value what a cell shows */
/**
 * A reservation; instants in milliseconds, Infinity for an end that nobody knows.
 * @typedef {{amounts: Amounts, start: number, end: number}} Held
 */
/**
 * One row of a table.
 * @typedef {object} Row
 * @property {string} key kind, namespace and name
 * @property {string} kind
 * @property {string} name
 * @property {string} namespace
 * @property {number} version
 * @property {(Value | null)[]} values by column; null where the object says nothing
 * @property {string | null} phase
 * @property {boolean} over nothing will happen to it any more
 * @property {number} order of its state
 * @property {number} at where it stands among those of its order
 * @property {string | null} holder the worker or cluster on which it holds something
 * @property {Held | null} held what it holds there, and from when to when
 * @property {Amounts | null} capacity what others can hold of it
 */

/**
 * The value at the first path that has one.
 * @param {unknown} object
 * @param {string} paths dotted; `|` tries one after the other
 * @returns {Value | null}
 */
function read(object, paths) {
  for (const path of paths.split("|")) {
    /** @type {any} */
    let value = object;
    for (const step of path.split(".")) value = value?.[step];
    if (value !== undefined && value !== null && value !== "") return value;
  }
  return null;
}

/**
 * The address of an object's page.
 * @param {string} plural
 * @param {string} name
 * @param {string} namespace
 * @param {string} uid which of the objects that have had the name; empty: the present one
 * @returns {string}
 */
export function address(plural, name, namespace, uid = "") {
  const path = `/${plural}/${encodeURIComponent(name)}`;
  const asked = namespace === "default" ? [] : [`namespace=${encodeURIComponent(namespace)}`];
  if (uid) asked.push(`uid=${encodeURIComponent(uid)}`);
  return asked.length ? `${path}?${asked.join("&")}` : path;
}

/** What nodes always tell of themselves: none of it is none, where they were seen. */
const NODES_TELL = ["cpuMilli", "memoryMib"];

/**
 * What a cluster has of something: what is stated, but no more than what was seen of its nodes.
 * @param {Spec} spec
 * @param {Status} status
 * @param {string} name
 * @returns {number}
 */
function has({ capacity }, { seen }, name) {
  const stated = capacity?.[name] ?? 0;
  const found = seen?.capacity[name] ?? 0;
  if (!seen || (found === 0 && !NODES_TELL.includes(name))) return stated;
  return stated ? Math.min(stated, found) : found;
}

/**
 * What of a cluster may be used: what it has times the percentage of its target.
 * @param {Spec} spec
 * @param {Status} status
 * @returns {Amounts}
 */
function targets(spec, status) {
  /** @type {Record<string, number | undefined>} */
  const percent = { cpuMilli: spec.cpuPercent, memoryMib: spec.memoryPercent };
  return Object.fromEntries(UNITS.map((name) => [
    name, Math.floor((has(spec, status, name) * (percent[name] ?? 100)) / 100),
  ]));
}

/**
 * The worker or cluster on which a live object holds something.
 * @param {ApiObject} object
 * @param {boolean} over
 * @returns {string | null}
 */
function holderOf({ kind, spec, status }, over) {
  if (kind === "Session") return over ? null : status.worker ?? null;
  if (kind === "Simulation") return status.reservation ? spec.cluster ?? null : null;
  return null;
}

/**
 * What an object offers to others; null when that is not known.
 * @param {ApiObject} object
 * @returns {Amounts | null}
 */
function capacityOf({ kind, spec, status }) {
  if (kind === "Cluster") return targets(spec, status);
  return kind === "Worker" ? status.capacity ?? null : null;
}

/**
 * @param {any} reservation
 * @returns {Held | null}
 */
function heldOf(reservation) {
  if (!reservation) return null;
  const { amounts, start, end } = reservation;
  return { amounts, start: Date.parse(start), end: end ? Date.parse(end) : Infinity };
}

/**
 * Return the row of an object, or null when its kind has no table.
 * @param {ApiObject} object
 * @returns {Row | null}
 */
export function rowOf(object) {
  const { kind, metadata, status } = object;
  if (!KINDS.includes(kind)) return null;
  const section = sectionOf(kind);
  const phase = status.phase ?? null;
  const order = kind in WORDS.states ? stateOf(kind, phase).order : 0;
  const over = order >= WORDS.over;
  const at = Date.parse(String(read(object, over ? section.since : "metadata.creationTimestamp")));
  return {
    key: `${kind}/${metadata.namespace}/${metadata.name}`,
    kind, name: metadata.name, namespace: metadata.namespace,
    version: Number(metadata.resourceVersion),
    values: section.columns.map((column) => (
      column.path && column.show !== "load" ? read(object, column.path) : null
    )),
    phase, over, order,
    at: (over ? -at : at) || 0,
    holder: holderOf(object, over),
    held: heldOf(status.reservation ?? null),
    capacity: capacityOf(object),
  };
}

/**
 * Compare two rows: live ones by state and age, those that are over newest first.
 * @param {Row} a
 * @param {Row} b
 * @returns {number}
 */
export function byPlace(a, b) {
  return a.order - b.order || a.at - b.at
    || byText(a.namespace, b.namespace) || byText(a.name, b.name);
}

/**
 * Compare as Python does, by code and not by the browser's language.
 * @param {string} a
 * @param {string} b
 * @returns {number}
 */
function byText(a, b) {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
