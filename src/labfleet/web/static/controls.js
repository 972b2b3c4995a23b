// The buttons that every page has, signed in or not: the theme, and copying a command.

const THEMES = ["auto", "light", "dark"];
const YEAR = 31536000;

/** Show the button that goes through the themes; the server draws the chosen one from a cookie. */
export function themeButton() {
  const button = document.getElementById("theme");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "") + 1) % THEMES.length];
    root.dataset.theme = next;
    button.textContent = `Theme: ${next}`;
    document.cookie = `labfleet-theme=${next}; Path=/; Max-Age=${YEAR}; SameSite=Lax`;
  });
}

/** Show the buttons that copy, where the browser lets a page do that; those shown have theirs. */
export function copyButtons() {
  if (!navigator.clipboard) return; // only over HTTPS and on this machine
  /** @type {NodeListOf<HTMLElement>} */
  const buttons = document.querySelectorAll(".copy");
  for (const button of buttons) {
    if (!button.hidden) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling?.textContent ?? "");
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}
