// The end of a visit: from a day before its token ends on, the page says so, by the fleet's clock.

import { fleetNow, timeNode } from "./clock.js";

const DAY = 86400000;
const HOUR = 3600000;

/** Show when the visit's token ends, once that is near; in the last hour more loudly. */
export function tellEnd() {
  const banner = document.getElementById("ends");
  const at = banner?.dataset.visit;
  if (!banner || !at) return;
  const left = Date.parse(at) - fleetNow();
  banner.hidden = left > DAY;
  if (banner.hidden) return;
  banner.classList.toggle("urgent", left < HOUR);
  banner.querySelector("time")?.replaceWith(timeNode(at));
}

/** Where a form asks for a time zone and nobody has said one, begin with the browser's own. */
export function ownZone() {
  /** @type {NodeListOf<HTMLInputElement>} */
  const fields = document.querySelectorAll("input[data-zone]");
  for (const field of fields) {
    if (field.value === field.dataset.zone && field.form?.dataset.first !== undefined) {
      field.defaultValue = Intl.DateTimeFormat().resolvedOptions().timeZone;
    }
  }
}
