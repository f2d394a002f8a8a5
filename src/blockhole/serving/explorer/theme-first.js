// Runs before the page is painted, so that a remembered choice of colours does not flash in late.
try {
  const chosen = localStorage.getItem("blockhole.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch (refused) {
  // Storage can be forbidden; then the colours follow the system.
  if (!(refused instanceof DOMException)) throw refused;
}
