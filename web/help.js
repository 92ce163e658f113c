// What the keys do.

import { button, el } from "./dom.js";

const KEYS = [
  ["?", "these words"],
  ["Tab, Enter", "go through everything, open it"],
  ["← →", "timeline: pan; flame graph: neighbour"],
  ["+ −", "timeline: zoom in and out"],
  ["↑ ↓", "timeline: track; flame graph: caller and called"],
  ["N P", "timeline: next and previous slice of the track"],
  ["Enter", "timeline: zoom to the slice; flame graph: zoom to the frame"],
  ["0", "timeline: all of it; Esc: flame graph: all of it"],
  ["Ctrl Enter", "SQL: run"],
];

export function askForHelp(dialog, views) {
  if (dialog.open) return;
  const keys = [...views.map((view, at) => [String(at + 1), view.title]), ...KEYS];
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
