// Light or dark as the system says, unless the reader chose. Runs before anything is drawn, so that nothing flashes.

(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("gpuwhy-theme");
  } catch {
    // Storage may be forbidden; then the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
