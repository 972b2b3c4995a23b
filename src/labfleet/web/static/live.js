// The live page of somebody who is signed in: its clock runs, its tables follow the server's
// stream. No script decides anything: words, states and columns come from the server (words.py).

import { readClock, tick } from "./clock.js";
import { keepConnected } from "./connection.js";
import { countDown } from "./countdown.js";
import { listenToKeys } from "./keys.js";
import { showMark } from "./mark.js";
import { adoptTables } from "./tables.js";
import { tellLeaving } from "./tabs.js";
import { ownZone, tellEnd } from "./visit.js";
import { offerZone } from "./zone.js";

const SECOND = 1000;
const CLOCK = 60 * SECOND;

adoptTables();
tick();
countDown();
tellEnd();
ownZone();
setInterval(() => { tick(); countDown(); showMark(); tellEnd(); }, SECOND);
setInterval(readClock, CLOCK);
readClock();
document.getElementById("leave")?.addEventListener("submit", tellLeaving);
offerZone();
listenToKeys();
keepConnected();
