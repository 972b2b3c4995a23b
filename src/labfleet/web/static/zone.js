// Beside a field for a time zone: a button that takes the zone of this browser.

import { element } from "./dom.js";

/** Offer the zone of this browser, unless the field has it already. */
export function offerZone() {
  /** @type {HTMLInputElement | null} */
  const field = document.querySelector("input[data-zone]");
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!field || !here || field.value === here) return;
  const offer = element("button", "", `Use ${here}`);
  offer.setAttribute("type", "button");
  offer.addEventListener("click", () => {
    field.value = here;
    field.form?.requestSubmit();
  });
  field.closest("label")?.after(offer);
}
