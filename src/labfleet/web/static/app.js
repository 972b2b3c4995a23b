// The live page: follows the one event stream and keeps the server's tables current.
//
// One tab per browser holds the connection and shares what it hears (browsers open six
// connections to a server over HTTP/1.1). fetch instead of EventSource, because only so the
// heartbeat, which is a comment, and the status of a refusal can be seen. Text goes into the
// page as text nodes only. Nothing here decides anything: words, states and columns come from
// the server (words.py), cells look as templates/cells.html draws them.
"use strict";

const WORDS = JSON.parse(document.getElementById("words")?.textContent ?? "null");
const BODY = document.body.dataset;
const PACE = 250; // the page changes at most four times a second
const SILENCE = 30000; // two heartbeats
const HIDDEN = 60000;
const KINDS = WORDS ? Object.keys(WORDS.sections) : [];

// ---- fleet time ---------------------------------------------------------------------------

const time = { at: Date.parse(BODY.now), since: performance.now(), rate: Number(BODY.rate) || 1 };

function fleetNow() {
  return time.at + (performance.now() - time.since) * time.rate;
}

async function readClock() {
  try {
    const asked = performance.now();
    const reply = await fetch("/api/v1/version", { cache: "no-store" });
    if (!reply.ok) return;
    const found = await reply.json();
    const now = performance.now();
    time.at = Date.parse(found.time) + ((now - asked) / 2) * found.rate;
    time.since = now;
    time.rate = found.rate;
  } catch {
    // The clock goes on from what it knew; the mark says that the server is away.
  }
}

function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return "now";
  const text =
    size < 90 ? `${Math.trunc(size)} s`
    : size < 5400 ? `${Math.trunc(size / 60)} min`
    : size < 129600 ? `${Math.trunc(size / 3600)} h`
    : `${Math.trunc(size / 86400)} d`;
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const HERE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function utc(at) {
  return `${new Date(at).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function exact(at) {
  // Both, each with its zone: an hour without one has misled people.
  return ZONE === "UTC" ? utc(at) : `${utc(at)} (yours: ${HERE.format(at)}, ${ZONE})`;
}

function say(node, text) {
  if (node && node.textContent !== text) node.textContent = text;
}

function tick() {
  const now = fleetNow();
  for (const node of document.querySelectorAll("main time")) {
    const at = Date.parse(node.dateTime);
    say(node.firstElementChild, relative((at - now) / 1000));
    if (ZONE !== "UTC" && !node.dataset.zoned) {
      node.title = exact(at);
      node.dataset.zoned = "1";
    }
  }
  const clock = document.getElementById("clock");
  if (clock) {
    say(clock, new Date(now).toISOString().slice(11, 19));
    clock.title = exact(now);
  }
  showMark();
}

// ---- cells: the same as templates/cells.html ----------------------------------------------

function element(name, className, ...inside) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...inside);
  return made;
}

function read(object, paths) {
  for (const path of paths.split("|")) {
    let value = object;
    for (const step of path.split(".")) value = value?.[step];
    if (value !== undefined && value !== null && value !== "") return value;
  }
  return null;
}

function address(plural, name, namespace) {
  const path = `/${plural}/${encodeURIComponent(name)}`;
  return namespace === "default" ? path : `${path}?namespace=${encodeURIComponent(namespace)}`;
}

function number(value) {
  return value.toFixed(1).replace(/\.0$/, "");
}

function stateOf(kind, phase) {
  return WORDS.states[kind]?.[phase] ?? WORDS.strange;
}

function targets(spec) {
  const percent = { cpuMilli: spec.cpuPercent, memoryMib: spec.memoryPercent };
  const found = {};
  for (const name of Object.keys(WORDS.units)) {
    found[name] = Math.floor((spec.capacity[name] * (percent[name] ?? 100)) / 100);
  }
  return found;
}

// What is kept of an object: enough for its row, small enough to share between tabs.
function project(object) {
  const { kind, metadata, status, spec } = object;
  const section = WORDS.sections[kind];
  const values = section.columns.map((column) => {
    if (!column.path || column.show === "load") return null;
    return read(object, column.path);
  });
  const phase = status.phase ?? null;
  const order = kind in WORDS.states ? stateOf(kind, phase).order : 0;
  const over = order >= WORDS.over;
  const at = Date.parse(read(object, over ? section.since : "metadata.creationTimestamp")) || 0;
  const live = kind === "Simulation" ? phase === "APPROVED" : !over;
  return {
    key: `${kind}/${metadata.namespace}/${metadata.name}`,
    kind, name: metadata.name, namespace: metadata.namespace,
    version: Number(metadata.resourceVersion), values, phase, over, order,
    at: over ? -at : at,
    holder: live ? (kind === "Session" ? status.worker : kind === "Simulation" ? spec.cluster : null) : null,
    held: status.reservation?.amounts ?? null,
    capacity: kind === "Cluster" ? targets(spec) : kind === "Worker" ? status.capacity : null,
  };
}

function stateNode(kind, phase) {
  const found = stateOf(kind, phase);
  const shape = element("i", "", found.shape);
  shape.setAttribute("aria-hidden", "true");
  return element("span", `state ${found.tone}`, shape, ` ${phase}`);
}

function timeNode(text) {
  const at = Date.parse(text);
  const made = element("time", "",
    element("span", "", relative((at - fleetNow()) / 1000)), element("span", "vh", utc(at)));
  made.firstChild.setAttribute("aria-hidden", "true");
  made.dateTime = text;
  made.title = exact(at);
  made.dataset.zoned = "1";
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

function loadNode(name, held, capacity) {
  const unit = WORDS.units[name];
  const percent = capacity === 0 ? 0 : Math.min(100, Math.floor((held * 100) / capacity));
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", "0 0 100 10");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const bar = document.createElementNS(SVG, "rect");
  bar.setAttribute("width", percent);
  bar.setAttribute("height", "10");
  picture.append(bar);
  const tone = held > capacity ? "bad" : percent >= 90 ? "warn" : "good";
  return element("span", `load ${tone}`, picture, ` ${number(held / unit)} of ${number(capacity / unit)}`);
}

function absentNode(column) {
  if (!column.absent.startsWith("unknown")) return element("span", "absent", column.absent);
  const why = column.absent.split(": ")[1];
  const made = element("span", "unknown", "unknown", ...(why ? [" ", element("small", "", why)] : []));
  if (why) made.title = column.absent;
  return made;
}

function gist(sentence) {
  const at = sentence.indexOf("; ");
  return at > 0 && sentence.startsWith("needs ") ? sentence.slice(at + 2) : sentence;
}

function linkNode(href, text) {
  const made = element("a", "", text);
  made.href = href;
  return made;
}

// Returns [what the cell shows as text, a maker of its node]; equal text needs no new node.
function cell(row, column, value, uses) {
  const [show, plural] = column.show.split(":");
  const use = uses.get(`${row.namespace}/${row.name}`);
  if (show === "name") {
    const href = address(WORDS.sections[row.kind].plural, row.name, row.namespace);
    return [row.name, () => linkNode(href, row.name)];
  }
  if (show === "live") return [String(use?.live ?? 0), null];
  if (show === "load") {
    if (!row.capacity) return ["unknown", () => absentNode(column)];
    const held = use?.held[column.path] ?? 0;
    const all = row.capacity[column.path];
    return [`${held} ${all}`, () => loadNode(column.path, held, all)];
  }
  if (value === null) return ["", () => absentNode(column)];
  if (show === "link") {
    return [String(value), () => linkNode(address(plural, value, row.namespace), String(value))];
  }
  if (show === "time") return [value, () => timeNode(value)];
  if (show === "state") return [value, () => stateNode(row.kind, value)];
  if (show === "health") return [value, () => stateNode("Health", value)];
  if (show === "flag") return [WORDS.flags[String(value)], null];
  if (show === "why") return [gist(String(value)), null];
  return [String(value), null];
}

// ---- tables -------------------------------------------------------------------------------

const objects = new Map(KINDS.map((kind) => [kind, new Map()]));
let happenings = [];
let whole = false; // the first snapshot is in: before it the server's rows stand as they are
const tables = new Map();
const dirty = new Set();
let drawing = 0;

function adopt() {
  for (const node of document.querySelectorAll("table[data-kind], table[data-events]")) {
    const kind = node.dataset.kind ?? "Event";
    const table = { kind, node, body: node.tBodies[0], rows: new Map(), over: false, forced: false };
    for (const row of table.body.rows) table.rows.set(row.dataset.key, row);
    const place = node.closest(".scroll");
    place.addEventListener("pointerenter", () => { table.over = true; });
    place.addEventListener("pointerleave", () => { table.over = false; touch(kind); });
    place.addEventListener("focusout", () => touch(kind));
    tables.set(kind, table);
  }
  for (const button of document.querySelectorAll("[data-apply]")) {
    button.addEventListener("click", () => apply(button.dataset.apply));
  }
  document.addEventListener("selectionchange", () => {
    if (document.getSelection().isCollapsed) for (const kind of waiting) touch(kind);
  });
}

// Rows do not move under somebody's pointer, focus or selection.
function isHeld(table) {
  if (table.forced) return false;
  const place = table.node.closest(".scroll");
  const chosen = document.getSelection();
  return table.over || place.contains(document.activeElement)
    || (chosen && !chosen.isCollapsed && place.contains(chosen.anchorNode));
}

const waiting = new Set();

function apply(kind) {
  const table = tables.get(kind);
  if (!table) return;
  table.forced = true;
  draw(table);
  table.forced = false;
}

function touch(kind) {
  if (!whole || !tables.has(kind)) return;
  dirty.add(kind);
  if (!drawing) drawing = setTimeout(drawAll, PACE);
}

function drawAll() {
  drawing = 0;
  for (const kind of dirty) draw(tables.get(kind));
  dirty.clear();
  counts();
}

function usesOf(kind) {
  const found = new Map();
  const from = kind === "Worker" ? "Session" : kind === "Cluster" ? "Simulation" : null;
  for (const each of from ? objects.get(from).values() : []) {
    if (!each.holder) continue;
    const name = `${each.namespace}/${each.holder}`;
    const use = found.get(name) ?? { live: 0, held: {} };
    use.live += 1;
    for (const unit of Object.keys(WORDS.units)) {
      use.held[unit] = (use.held[unit] ?? 0) + (each.held?.[unit] ?? 0);
    }
    found.set(name, use);
  }
  return found;
}

function byPlace(a, b) {
  return a.order - b.order || a.at - b.at
    || (a.namespace < b.namespace ? -1 : a.namespace > b.namespace ? 1 : 0)
    || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

function fill(node, row, uses) {
  const { columns } = WORDS.sections[row.kind];
  columns.forEach((column, index) => {
    const place = node.cells[index];
    const [text, make] = cell(row, column, row.values[index], uses);
    if (place.dataset.was === text) return;
    const adopted = place.dataset.was === undefined;
    place.dataset.was = text;
    if (make) {
      const made = make();
      // The server drew it already: leave the node, somebody may have the focus on it.
      if (!adopted || steady(place) !== steady(made)) place.replaceChildren(made);
    } else {
      say(place, text);
      place.title = column.show === "why" ? String(row.values[index]) : text;
    }
  });
  node.classList.toggle("over", row.over);
  node.classList.remove("gone");
  node.dataset.version = row.version;
}

// What a cell says, without the relative time, which moves by itself.
function steady(node) {
  return (node.querySelector(".vh") ?? node).textContent;
}

function blank(key, columns) {
  const made = element("tr", "fresh");
  made.dataset.key = key;
  for (let index = 0; index < columns; index += 1) {
    made.append(element(index ? "td" : "th"));
  }
  made.cells[0].scope = "row";
  return made;
}

function happeningRow(each) {
  const made = element("tr", "fresh");
  made.dataset.key = each.key;
  const object = element("th", "", element("span", "kind", each.kind), " ", linkNode(each.href, each.name));
  object.scope = "row";
  const reason = element("td", "", each.reason);
  reason.title = each.reason;
  const actor = element("td", "", each.actor);
  actor.title = each.actor;
  made.append(element("td", "", timeNode(each.at)), object, element("td", "", each.what),
    element("td", "", ...(each.phase ? [stateNode(each.kind, each.phase)] : [])), reason, actor);
  return made;
}

function draw(table) {
  const events = table.kind === "Event";
  const wanted = events
    ? happenings
    : [...objects.get(table.kind).values()].sort(byPlace).slice(0, WORDS.rows);
  const uses = events ? null : usesOf(table.kind);
  const keys = new Set(wanted.map((each) => each.key));
  const kept = wanted.filter((each) => table.rows.has(each.key));
  // Also a row that will leave shows what its object is now, as long as it stands.
  if (!events) {
    for (const [key, row] of table.rows) {
      const each = objects.get(table.kind).get(key);
      if (each) fill(row, each, uses);
    }
  }
  const changes = isHeld(table) ? movesOf(table, wanted, keys, kept) : 0;
  notice(table.kind, changes);
  if (changes) return;
  for (const [key, row] of table.rows) {
    if (keys.has(key)) continue;
    row.remove();
    table.rows.delete(key);
  }
  let next = table.body.firstElementChild;
  for (const each of wanted) {
    let row = table.rows.get(each.key);
    if (!row) {
      row = events ? happeningRow(each) : blank(each.key, each.values.length);
      if (!events) fill(row, each, uses);
      table.rows.set(each.key, row);
    }
    if (row === next) next = next.nextElementSibling;
    else table.body.insertBefore(row, next);
  }
  sizes(table.kind, wanted.length);
}

// How many rows would come, go or change their place; those that are gone are struck out.
function movesOf(table, wanted, keys, kept) {
  let changes = wanted.length - kept.length;
  const standing = [];
  for (const row of table.body.rows) {
    const stays = keys.has(row.dataset.key);
    row.classList.toggle("gone", !stays && table.kind !== "Event"
      && !objects.get(table.kind).has(row.dataset.key));
    if (stays) standing.push(row.dataset.key);
    else changes += 1;
  }
  kept.forEach((each, index) => { if (standing[index] !== each.key) changes += 1; });
  return changes;
}

function notice(kind, changes) {
  if (changes) waiting.add(kind);
  else waiting.delete(kind);
  const button = document.querySelector(`[data-apply="${kind}"]`);
  if (!button) return;
  button.hidden = !changes;
  if (changes) say(button, `${changes} ${changes === 1 ? "change" : "changes"} – press R`);
}

function sizes(kind, shown) {
  const all = kind === "Event" ? shown : objects.get(kind).size;
  const full = document.querySelector(`[data-full="${kind}"]`);
  const empty = document.querySelector(`[data-empty="${kind}"]`);
  if (full) full.hidden = all === 0;
  if (empty) empty.hidden = all !== 0;
}

function counts() {
  for (const kind of KINDS) {
    const rows = objects.get(kind);
    say(document.querySelector(`[data-total="${kind}"]`), String(rows.size));
    const more = document.querySelector(`[data-more="${kind}"]`);
    if (more) {
      const rest = rows.size - Math.min(rows.size, WORDS.rows);
      more.hidden = rest === 0;
      say(more.querySelector("b"), String(rest));
    }
    const found = {};
    for (const each of rows.values()) {
      const { group } = stateOf(kind, each.phase);
      found[group] = (found[group] ?? 0) + 1;
    }
    for (const group of WORDS.groups[kind] ?? []) {
      const place = document.querySelector(`[data-count="${kind}/${group}"]`);
      if (!place) continue;
      say(place.querySelector("b"), String(found[group] ?? 0));
      place.classList.toggle("none", !found[group]);
    }
  }
}

// ---- what is heard ------------------------------------------------------------------------

function take(message) {
  if (message.state) setMark(message.state, message.heard);
  if (message.leave) setTimeout(() => location.reload(), 300);
  if (message.all) {
    for (const kind of KINDS) objects.set(kind, new Map());
    for (const row of message.all) objects.get(row.kind).set(row.key, row);
    if (!happenings.length) happenings = standing();
    if (message.happenings) happenings = message.happenings;
    whole = true;
    for (const kind of [...KINDS, "Event"]) touch(kind);
    reloadDetail(null);
    reloadBanner();
  }
  for (const each of message.changes ?? []) change(each);
}

function change({ row, gone, happening, pausing }) {
  if (row) changeRow(row, gone);
  if (pausing) reloadBanner();
  if (!happenings.some((each) => each.key === happening.key)) {
    happenings = [happening, ...happenings].slice(0, WORDS.events);
    touch("Event");
  }
}

function changeRow(row, gone) {
  const rows = objects.get(row.kind);
  const old = rows.get(row.key);
  if (old && old.version > row.version) return;
  if (gone) rows.delete(row.key);
  else rows.set(row.key, row);
  touch(row.kind);
  if (row.kind === "Session") touch("Worker");
  if (row.kind === "Simulation") touch("Cluster");
  reloadDetail(row.key);
}

// The server's rows of the list of events, as the stream would have told them.
function standing() {
  const rows = tables.get("Event")?.body.rows ?? [];
  return [...rows].map((row) => ({ key: row.dataset.key }));
}

function hear(name, data) {
  if (name === "snapshot") {
    if (data.first) incoming = [];
    for (const object of data.items) if (objects.has(object.kind)) incoming.push(project(object));
    if (data.last) share({ all: incoming });
    return;
  }
  if (!(name in WORDS.changes)) return;
  const { kind, metadata, status } = data.object;
  queued.push({
    row: objects.has(kind) ? project(data.object) : null,
    gone: name === "DELETED",
    pausing: pausing(data.object),
    happening: {
      key: String(data.revision), at: data.at, what: WORDS.changes[name], kind,
      name: metadata.name, phase: status.phase ?? null,
      href: address(WORDS.followed[kind], metadata.name, metadata.namespace),
      reason: data.reason, actor: data.actor,
    },
  });
  sending ||= setTimeout(() => {
    sending = 0;
    share({ changes: queued.splice(0) });
  }, PACE / 2);
}

let incoming = [];
const queued = [];
let sending = 0;

// ---- the page of one object: its own HTML again -------------------------------------------

const detail = { key: document.getElementById("live")?.dataset.object, timer: 0, over: false };

function reloadDetail(key) {
  if (!detail.key || (key !== null && key !== detail.key) || detail.timer) return;
  detail.timer = setTimeout(async () => {
    const place = document.getElementById("live");
    const chosen = document.getSelection();
    const held = place.contains(document.activeElement) || (chosen && !chosen.isCollapsed)
      || place.querySelector(".scroll:hover, .command:hover");
    detail.timer = 0;
    if (held) {
      detail.timer = setTimeout(() => { detail.timer = 0; reloadDetail(null); }, 1000);
      return;
    }
    try {
      const reply = await fetch(location.href, { cache: "no-store" });
      if (!reply.ok && reply.status !== 404) return;
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const fresh = page.getElementById("live");
      if (fresh) {
        place.replaceChildren(...document.adoptNode(fresh).childNodes);
        copyButtons();
        tick();
      }
    } catch {
      // The mark says that the server is away; the next change or snapshot tries again.
    }
  }, 2 * PACE);
}

// ---- what is paused -----------------------------------------------------------------------

const banner = { node: document.getElementById("paused"), timer: 0 };

// A pool's own pause is told by its object; the list of the server says which are shown.
function pausing({ kind, metadata, spec }) {
  if (kind === "Settings") return true;
  if (kind !== "Pool" || !banner.node) return false;
  return banner.node.dataset.pools.includes(` ${metadata.name} `) !== Boolean(spec.paused);
}

function reloadBanner() {
  if (!banner.node || banner.timer) return;
  banner.timer = setTimeout(async () => {
    banner.timer = 0;
    try {
      // The smallest page that has the banner.
      const reply = await fetch("/logout", { cache: "no-store" });
      if (!reply.ok) return;
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      const fresh = page.getElementById("paused");
      if (!fresh || fresh.innerHTML === banner.node.innerHTML) return;
      banner.node.dataset.pools = fresh.dataset.pools;
      banner.node.replaceChildren(...document.adoptNode(fresh).childNodes);
    } catch {
      // The mark says that the server is away; the next snapshot tries again.
    }
  }, 2 * PACE);
}

// ---- the mark -----------------------------------------------------------------------------

const mark = { state: "still", heard: performance.now() };

function setMark(state, heard) {
  mark.state = state;
  if (heard) mark.heard = performance.now();
  showMark();
}

function showMark() {
  const place = document.getElementById("mark");
  if (!place || mark.state === "still") return;
  const silent = performance.now() - mark.heard > SILENCE;
  const state = mark.state === "live" && silent ? "delayed" : mark.state;
  const said = { live: "live", reconnecting: "reconnecting", delayed: "delayed" }[state];
  place.dataset.state = state;
  say(place.lastElementChild, said);
  place.title = state === "delayed"
    ? `Nothing heard for ${Math.round((performance.now() - mark.heard) / 1000)} s`
    : state === "live" ? "Changes appear as they happen" : "The server does not answer; what you see may be old";
}

// ---- the one connection of this browser ---------------------------------------------------

let channel = null;
let leading = false;
let running = null;

function share(message) {
  take(message);
  channel?.postMessage(message);
}

function begin() {
  if (running) return;
  running = new AbortController();
  const { signal } = running;
  setMark("reconnecting");
  channel = "BroadcastChannel" in window ? new BroadcastChannel(`labfleet ${BODY.who}`) : null;
  if (channel) {
    channel.onmessage = ({ data }) => {
      if (data.hello && leading && whole) {
        const all = KINDS.flatMap((kind) => [...objects.get(kind).values()]);
        channel.postMessage({ all, state: mark.state, heard: true });
      } else if (!data.hello) {
        take(data);
      }
    };
    channel.postMessage({ hello: true });
  }
  const lead = async () => {
    leading = true;
    await follow(signal);
    leading = false;
  };
  if (navigator.locks && channel) {
    navigator.locks.request(`labfleet ${BODY.who}`, { signal }, lead).catch(() => {});
  } else {
    lead();
  }
}

function end() {
  running?.abort();
  running = null;
  channel?.close();
  channel = null;
  setMark("reconnecting");
}

function pause(milliseconds, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
  });
}

async function follow(signal) {
  let last = "";
  let wait = 1000;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop, { once: true });
    const watchdog = setInterval(() => {
      if (performance.now() - mark.heard > 2 * SILENCE) stop();
    }, 1000);
    try {
      mark.heard = performance.now();
      const reply = await fetch(`/api/v1/events?kinds=${Object.keys(WORDS.followed).join(",")}`, {
        headers: last ? { "Last-Event-ID": last } : {}, signal: attempt.signal, cache: "no-store",
      });
      if (reply.status === 401 || reply.status === 403) {
        location.reload();
        return;
      }
      if (reply.ok && reply.body) {
        wait = 1000;
        share({ state: "live", heard: true });
        last = await readAll(reply.body, last);
      }
    } catch {
      // Away or cut off: wait a little and come again from the last place.
    }
    clearInterval(watchdog);
    signal.removeEventListener("abort", stop);
    if (signal.aborted) return;
    last = place.last ?? last;
    share({ state: "reconnecting" });
    await pause(wait, signal);
    wait = Math.min(wait * 2, 15000);
  }
}

const place = { last: null };

async function readAll(body, last) {
  place.last = last;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return place.last;
    if (performance.now() - mark.heard > 5000) share({ state: "live", heard: true });
    else mark.heard = performance.now();
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) one(block);
  }
}

function one(block) {
  let name = "message";
  let data = null;
  let id = null;
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  if (name === "unauthorized") location.reload();
  // After a resync the server sends the whole state anew.
  if (name === "resync") incoming = [];
  if (data !== null && name !== "resync") hear(name, JSON.parse(data));
  if (id) place.last = id;
}

let hiddenSince = 0;

document.addEventListener("visibilitychange", () => {
  if (!WORDS) return;
  clearTimeout(hiddenSince);
  if (document.hidden) {
    hiddenSince = setTimeout(end, HIDDEN);
  } else {
    readClock();
    begin();
  }
});

// ---- keys, theme, copy --------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.toLowerCase() === "r") for (const kind of [...waiting]) apply(kind);
});

function themeButton() {
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    root.dataset.theme = next;
    button.textContent = `Theme: ${next}`;
    document.cookie = `labfleet-theme=${next}; Path=/; Max-Age=31536000; SameSite=Lax`;
  });
}

function copyButtons() {
  for (const button of document.querySelectorAll(".copy")) {
    if (!navigator.clipboard || !button.hidden) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

themeButton();
copyButtons();
if (WORDS) {
  adopt();
  tick();
  setInterval(tick, 1000);
  setInterval(readClock, 60000);
  readClock();
  document.getElementById("leave")?.addEventListener("submit", () => {
    channel?.postMessage({ leave: true });
  });
  begin();
}
