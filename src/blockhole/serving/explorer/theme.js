// Light and dark: as the system has it, until the button is pressed; the choice is remembered in this browser, and so
// is how queries are written. It runs before the page is painted, so that a remembered choice does not flash in late
// and there is room for what the address asks; that is why it is no module.
{
  const KEY = "blockhole.theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  const isDark = () => (root.dataset.theme === undefined ? system.matches : root.dataset.theme === "dark");

  /** @param {() => void} use storage, which can be forbidden: then a choice holds until the page is left */
  const stored = (use) => {
    try {
      use();
    } catch (refused) {
      if (!(refused instanceof DOMException)) throw refused;
    }
  };

  root.dataset.way = "build";
  root.dataset.asked = /[?&](q|entity)=/.exec(location.search)?.[1] ?? "";
  stored(() => {
    const chosen = localStorage.getItem(KEY);
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
    root.dataset.way = localStorage.getItem("blockhole.way") ?? "build";
  });

  addEventListener("DOMContentLoaded", () => {
    const button = /** @type {HTMLElement} */ (document.getElementById("theme"));
    const show = () => button.setAttribute("aria-pressed", String(isDark()));
    button.addEventListener("click", () => {
      const theme = isDark() ? "light" : "dark";
      root.dataset.theme = theme;
      stored(() => localStorage.setItem(KEY, theme));
      show();
    });
    system.addEventListener("change", show);
    show();
  });
}
