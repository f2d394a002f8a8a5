/**
 * Light and dark: as the system has it, until the button is pressed; the choice is remembered in this browser.
 *
 * @module
 */

const system = matchMedia("(prefers-color-scheme: dark)");

/**
 * Let the button change the colours.
 *
 * @param {HTMLElement} button
 */
export function wireTheme(button) {
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    choose(isDark() ? "light" : "dark");
    show();
  });
  system.addEventListener("change", show);
  show();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === undefined ? system.matches : chosen === "dark";
}

/** @param {"light" | "dark"} theme */
function choose(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("blockhole.theme", theme);
  } catch (refused) {
    // Without storage the choice holds until the page is left.
    if (!(refused instanceof DOMException)) throw refused;
  }
}
