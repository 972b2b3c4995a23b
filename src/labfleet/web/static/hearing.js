// Turns what the stream says into messages for the tabs: whole states, and changes in small heaps.

import { isPausing } from "./pauses.js";
import { rowOf } from "./rows.js";
import { share } from "./tabs.js";
import { KINDS, PACE, WORDS } from "./words.js";

/** @typedef {import("./rows.js").ApiObject} ApiObject */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./messages.js").Change} Change */
/** @typedef {import("./fleet.js").Values} Values */
/**
 * A piece of a whole state.
 * @typedef {{first: boolean, last: boolean, items: ApiObject[]}} Snapshot
 */
/**
 * A change of one object.
 * @typedef {object} Told
 * @property {ApiObject} object
 * @property {number} revision
 * @property {string} at
 * @property {string} reason
 * @property {string} message
 * @property {string} actor
 */

/**
 * What was last measured of some objects.
 * @typedef {object} Samples
 * @property {boolean} whole nothing else is measured
 * @property {boolean} first
 * @property {{kind: string, namespace: string, name: string, values: Values}[]} items
 * @property {{kind: string, namespace: string, name: string}[]} gone
 */

/** Frames of which a page shows what the server draws of them. */
const FRAMES = ["alerts", "queue"];
/** @type {Row[]} the whole state that is arriving */
let incoming = [];
/** @type {Change[]} */
const queued = [];
let sending = 0;
let sent = -PACE;

/**
 * Take in one event of the stream.
 * @param {string} name
 * @param {any} data a Snapshot, Samples or a Told, as the name says; others are left alone
 */
export function hear(name, data) {
  if (name === "resync") hearResync(data);
  else if (name === "snapshot") hearSnapshot(data);
  else if (name === "samples") hearSamples(data);
  else if (FRAMES.includes(name)) share({ frame: { name, whole: data.whole } });
  else if (name in WORDS.changes) hearChange(name, data);
}

/** @param {{snapshot: boolean}} data */
function hearResync({ snapshot }) {
  incoming = [];
  if (!snapshot) share({ renew: true }); // else the server sends the whole state anew
}

/** @param {Snapshot} data */
function hearSnapshot(data) {
  if (data.first) incoming = [];
  for (const object of data.items) {
    const row = rowOf(object);
    if (row) incoming.push(row);
  }
  if (data.last) share({ all: incoming });
}

/** @param {Samples} data */
function hearSamples({ whole, first, items, gone }) {
  /** @type {[string, Values][]} */
  const shown = items.filter(({ kind }) => KINDS.includes(kind))
    .map((each) => [keyOf(each), each.values]);
  share({
    samples: { anew: whole && first, items: shown, gone: gone.map(keyOf) },
    frame: { name: "samples", whole },
  });
}

/**
 * The key of an object's row.
 * @param {{kind: string, namespace: string, name: string}} named
 * @returns {string}
 */
function keyOf({ kind, namespace, name }) {
  return `${kind}/${namespace}/${name}`;
}

/**
 * @param {string} name
 * @param {Told} data
 */
function hearChange(name, { object, revision, at, reason, message, actor }) {
  const { kind, metadata, status } = object;
  queued.push({
    row: rowOf(object),
    gone: name === "DELETED",
    pausing: isPausing(object),
    event: {
      key: String(revision), at, type: name, kind, namespace: metadata.namespace,
      name: metadata.name, uid: metadata.uid, phase: status.phase ?? null, reason, message, actor,
      count: 1, since: at, again: false,
    },
  });
  sending ||= setTimeout(() => {
    sending = 0;
    sent = performance.now();
    share({ changes: queued.splice(0) });
  }, Math.max(0, sent + PACE / 2 - performance.now()));
}
