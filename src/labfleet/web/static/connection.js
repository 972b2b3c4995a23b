// Connects this tab to the others and, when none of them leads, to the server. A tab that nobody
// sees for a minute lets go: it costs the server nothing, and catches up when it is seen again.

import { readClock } from "./clock.js";
import { setMark } from "./mark.js";
import { follow } from "./stream.js";
import { asLeader, joinTabs, leaveTabs } from "./tabs.js";

const HIDDEN = 60000;
/** @type {AbortController | null} */
let running = null;
let hiding = 0;

/** Connect, now and whenever the tab is seen again. */
export function keepConnected() {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(end, HIDDEN);
    } else {
      readClock();
      begin();
    }
  });
  begin();
}

function begin() {
  if (running) return;
  running = new AbortController();
  const { signal } = running;
  setMark("reconnecting");
  joinTabs();
  asLeader(() => follow(signal), signal);
}

function end() {
  running?.abort();
  running = null;
  leaveTabs();
  setMark("reconnecting");
}
