// Follows the server's one event stream, over every break, until it is told to stop. fetch instead
// of EventSource, because only so the heartbeat, which is a comment, and the status of a refusal
// can be seen.

import { hear } from "./hearing.js";
import { SILENCE, noteHeard, silence } from "./mark.js";
import { share } from "./tabs.js";
import { WORDS } from "./words.js";

/** Measured values are asked for where a table shows some. */
const MEASURED = Object.values(WORDS.sections)
  .some(({ columns }) => columns.some(({ measured }) => measured));
const FRAMES = MEASURED ? "objects,samples" : "objects";
const KINDS = Object.keys(WORDS.followed).join(",");
const ADDRESS = `/api/v1/events?kinds=${KINDS}&frames=${FRAMES}`;
/** So much follows each burst once a proxy held the stream back: it passes full buffers on. */
const PADDING = "&padding=8192";
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 15000;
/** The other tabs hear of heartbeats this often, in milliseconds. */
const TELL = 5000;

/**
 * Where the stream stands: the id of the last event that was heard, from which it goes on, how
 * long to wait when it breaks, and whether it was held back on its way.
 * @typedef {{last: string, wait: number, heldBack: boolean}} Place
 */

/**
 * Follow the stream until the signal, or until the server knows the token no more.
 * @param {AbortSignal} signal
 */
export async function follow(signal) {
  /** @type {Place} */
  const place = { last: "", wait: FIRST_WAIT, heldBack: false };
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop, { once: true });
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
  /** @type {Record<string, string>} */
  const headers = place.last ? { "Last-Event-ID": place.last } : {};
  const address = place.heldBack ? ADDRESS + PADDING : ADDRESS;
  const reply = await fetch(address, { headers, signal, cache: "no-store" });
  if (reply.status === 401 || reply.status === 403) {
    location.reload(); // the server shows the form to sign in
    return false;
  }
  if (reply.ok && reply.body) {
    place.wait = FIRST_WAIT;
    share({ state: "live", heard: true });
    await readAll(reply.body, place);
  }
  return true;
}

/**
 * Read the stream to its end. Blocks are parted by an empty line.
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @param {Place} place
 */
async function readAll(body, place) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    if (silence() > TELL) share({ state: "live", heard: true });
    else noteHeard();
    const blocks = (text + value).split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) readBlock(block, place);
  }
}

/**
 * Read one block: an event, or a comment that says nothing.
 * @param {string} block
 * @param {Place} place
 */
function readBlock(block, place) {
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
  if (id) place.last = id;
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
