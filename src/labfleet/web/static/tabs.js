// The tabs of one browser: one holds the connection and tells the others what it hears, because
// browsers open six connections to a server over HTTP/1.1.

import { dropAsks, isBehind, ownAsks, putAsks } from "./asks.js";
import { allRows, allSamples, isWhole } from "./fleet.js";
import { connection } from "./mark.js";
import { take } from "./messages.js";
import { WHO } from "./words.js";

/** @typedef {import("./messages.js").Message} Message */

// Tabs of another token see another fleet; those of a server before an upgrade say other things.
const NAME = `labfleet ${WHO} ${import.meta.url}`;
/** @type {BroadcastChannel | null} */
let channel = null;
let leading = false;

/** Meet the other tabs; ask the one that leads for what it knows. */
export function joinTabs() {
  if (!("BroadcastChannel" in window)) return;
  channel = new BroadcastChannel(NAME);
  channel.onmessage = ({ data }) => receive(data);
  addEventListener("pagehide", () => tell({ bye: ownAsks().tab }));
  tell({ hello: true, asks: ownAsks() });
}

/** Hear and tell nothing any more. */
export function leaveTabs() {
  tell({ bye: ownAsks().tab });
  channel?.close();
  channel = null;
}

/** @param {Message} message */
function receive(message) {
  if (message.only && message.only !== ownAsks().tab) return;
  if (message.who) tell({ asks: ownAsks() });
  if (message.bye) dropAsks(message.bye);
  if (!message.asks) take(message);
  else if (leading) answer(message.asks, Boolean(message.hello));
}

/**
 * Take in what a page of another tab wants; tell one that is new what is known here.
 * @param {import("./asks.js").Asks} asks
 * @param {boolean} isNew
 */
function answer(asks, isNew) {
  putAsks(asks);
  if (!isNew) return;
  const only = asks.tab;
  tell({ only, state: connection(), heard: true, renew: isBehind(asks) });
  if (isWhole() && asks.rows) tell({ only, all: allRows(), samples: allSamples() });
}

/**
 * Tell the other tabs.
 * @param {Message} message
 */
function tell(message) {
  channel?.postMessage(message);
}

/**
 * Tell all tabs, this one too.
 * @param {Message} message
 */
export function share(message) {
  take(message);
  tell(message);
}

/** Tell the other tabs that somebody signs out here. */
export function tellLeaving() {
  tell({ leave: true });
}

/**
 * Do what only one tab does, as soon as no other does; without locks or channel each tab does it.
 * @param {() => Promise<void>} work
 * @param {AbortSignal} signal
 */
export async function asLeader(work, signal) {
  const lead = async () => {
    leading = true;
    putAsks(ownAsks());
    tell({ who: true });
    await work();
    leading = false;
  };
  if (!navigator.locks || !channel) {
    await lead();
    return;
  }
  try {
    await navigator.locks.request(NAME, { signal }, lead);
  } catch (error) {
    if (!signal.aborted) throw error; // no longer wanted while another tab led
  }
}
