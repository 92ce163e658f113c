// A panel: a heading, and what is below it in each state: loading, nothing, failed, there.

import { button, el, redraw, words } from "./dom.js";

/** Somebody is about to copy something from here: it stays until that is done. */
const isSelecting = (body) => {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && body.contains(selection.anchorNode);
};

/** `load` asks, `draw` makes elements of the answer; an answer that is the same as before is not drawn again. `load` may show something
 * that is known sooner. */
export function panel({ key, title, about, load, draw, wide = false, quiet = false, waiting = "Loading…" }) {
  const body = el("div", { class: "panel-body" }, words("loading", waiting));
  const section = el(
    "section",
    {
      class: wide ? "panel wide" : "panel",
      "aria-labelledby": title ? `${key}-title` : null,
      "data-panel": key,
      "aria-busy": "true",
    },
    title && el("h2", { id: `${key}-title` }, title),
    about && el("p", { class: "about" }, about),
    body,
  );
  let shown;
  const show = (data, context) => {
    if (context.signal.aborted) return;
    const seen = JSON.stringify(data, (_, value) => (value instanceof Map ? [...value] : value));
    section.hidden = false;
    if (seen === shown || (shown !== undefined && isSelecting(body))) return;
    redraw(body, () => draw(data, context));
    shown = seen;
  };
  const panel = {
    section,
    async refresh(context) {
      try {
        show(await load(context, (sooner) => show(sooner, context)), context);
      } catch (error) {
        if (error.name === "AbortError" || context.signal.aborted) return;
        shown = undefined;
        const nothing = error.kind === "nothing";
        section.hidden = nothing && quiet;
        if (!error.kind) console.error(error);
        redraw(body, () =>
          words(
            nothing ? "empty" : "error",
            error.kind ? error.message : `This cannot be drawn: ${error.message}`,
            nothing ? null : button("Try again", () => panel.refresh(context)),
          ),
        );
      } finally {
        section.setAttribute("aria-busy", "false");
      }
    },
  };
  return panel;
}

/** A view of panels that are loaded side by side. */
export const panels = (make) => (context) => {
  const all = make(context);
  return {
    elements: all.map((one) => one.section),
    refresh: () => Promise.all(all.map((one) => one.refresh(context))),
  };
};
