// Where the page's scripts begin. Who is not signed in gets the buttons only; for the others the
// page carries the words that everything behind live.js needs.

import { copyButtons, themeButton } from "./controls.js";

themeButton();
copyButtons();
if (document.getElementById("words")) await import("./live.js");
