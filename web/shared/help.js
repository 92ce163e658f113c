// What the keys do.

import { button, el } from "./dom.js";

const COMMON = [
  ["?", "these words"],
  ["Tab, Enter", "go through everything, open it"],
  ["Ctrl Enter", "SQL: run"],
];

/** `more` are the keys of this page beside those of all. */
export function askForHelp(dialog, views, more) {
  if (dialog.open) return;
  const keys = [...views.map((view, at) => [String(at + 1), view.title]), ...COMMON, ...more];
  dialog.replaceChildren(
    el("h2", { id: "help-title" }, "Keys"),
    el(
      "dl",
      { class: "keys" },
      keys.map(([key, what]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, what))),
    ),
    button("Close", () => dialog.close(), { autofocus: true }),
  );
  dialog.showModal();
}

/** Escape closes it by itself; a click beside it does, too. */
export const closeOnClickBeside = (dialog) =>
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
