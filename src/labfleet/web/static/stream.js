// Follows the server's one event stream, over every break, until it is told to stop. fetch instead
// of EventSource, because only so the heartbeat, which is a comment, and the status of a refusal
// can be seen.

import { addressOf, asksOfAll, onMoreAsked, reached } from "./asks.js";
import { hear } from "./hearing.js";
import { SILENCE, noteHeard, silence } from "./mark.js";
import { share } from "./tabs.js";

/** So much follows each burst once a proxy held the stream back: it passes full buffers on. */
const PADDING = "&padding=8192";
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 15000;
/** The other tabs hear of heartbeats this often, in milliseconds. */
const TELL = 5000;

/**
 * Where the stream stands: how long to wait when it breaks, whether it was held back on its way,
 * whether every object is told, and whether it only ended because the pages want more.
 * @typedef {{wait: number, heldBack: boolean, rows: boolean, more: boolean}} Place
 */

/**
 * Follow the stream until the signal, or until the server knows the token no more.
 * @param {AbortSignal} signal
 */
export async function follow(signal) {
  /** @type {Place} */
  const place = { wait: FIRST_WAIT, heldBack: false, rows: false, more: false };
  reached.last = "";
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop, { once: true });
    onMoreAsked(() => { place.more = true; stop(); });
    const watchdog = setInterval(() => {
      if (silence() <= 2 * SILENCE) return;
      place.heldBack = true;
      stop();
    }, 1000);
    try {
      if (!await connect(place, attempt.signal)) return;
    } catch {
      // Away or cut off: wait a little and come again from the last place.
    } finally {
      clearInterval(watchdog);
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    if (place.more) {
      place.more = false;
      continue;
    }
    share({ state: "reconnecting" });
    await pause(place.wait, signal);
    place.wait = Math.min(place.wait * 2, LONGEST_WAIT);
  }
}

/**
 * Connect once and read until the stream ends; false when it is of no use to come again.
 * @param {Place} place
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>}
 */
async function connect(place, signal) {
  noteHeard();
  const asks = asksOfAll();
  // Tables need the whole state; other pages show it as of the place where they were drawn.
  if (asks.rows && !place.rows) reached.last = "";
  else if (!asks.rows) reached.last ||= document.body.dataset.at ?? "";
  place.rows = asks.rows;
  /** @type {Record<string, string>} */
  const headers = reached.last ? { "Last-Event-ID": reached.last } : {};
  reached.by = addressOf(asks);
  const address = reached.by + (place.heldBack ? PADDING : "");
  const reply = await fetch(address, { headers, signal, cache: "no-store" });
  if (reply.status === 401 || reply.status === 403) {
    location.reload(); // the server shows the form to sign in
    return false;
  }
  if (reply.ok && reply.body) {
    place.wait = FIRST_WAIT;
    share({ state: "live", heard: true });
    await readAll(reply.body);
  }
  return true;
}

/**
 * Read the stream to its end. Blocks are parted by an empty line.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 */
async function readAll(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    if (silence() > TELL) share({ state: "live", heard: true });
    else noteHeard();
    const blocks = (text + value).split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) readBlock(block);
  }
}

/**
 * Read one block: an event, or a comment that says nothing.
 * @param {string} block
 */
function readBlock(block) {
  let name = "message";
  let data = "null";
  let id = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  if (name === "unauthorized") location.reload();
  hear(name, JSON.parse(data));
  if (id) reached.last = id;
}

/**
 * Wait, but not beyond the signal.
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(milliseconds, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
  });
}
