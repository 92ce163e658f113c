// A stacked bar: parts of a whole, each with its name, its share and its colour; what is left of 100 is shown as unexplained.

import { el, styled } from "./dom.js";
import { duration, percent, process } from "./format.js";
import { colourOf, isUnexplained, PARTS } from "./palette.js";

/** `parts` are `{class, share_pct, ms?, by?}`. */
export function causeBar(parts, { legend = true, small = !legend, about = new Map() } = {}) {
  const sum = parts.reduce((total, part) => total + part.share_pct, 0);
  const rest = 100 - sum;
  const all = rest > 0.5 ? [...parts, { class: "unknown", share_pct: rest, by: [] }] : parts;
  const label = all
    .filter((part) => part.share_pct >= 0.5)
    .map((part) => `${percent(part.share_pct)} ${part.class}`)
    .join(", ");
  const bar = el(
    "div",
    { class: small ? "bar small" : "bar", role: "img", "aria-label": label || "nothing" },
    all.map((part) => segment(part.class, part.share_pct, colourOf(part.class))),
  );
  if (!legend) return bar;
  const list = el(
    "ul",
    { class: "legend" },
    all
      .filter((part) => part.share_pct >= 0.5)
      .slice(0, 6)
      .map((part) =>
        el(
          "li",
          {},
          swatch(part.class),
          el("b", {}, percent(part.share_pct)),
          " ",
          el("code", {}, part.class),
          part.ms !== undefined && el("span", { class: "dim" }, ` ${duration(part.ms * 1e6)}`),
          el("span", {}, about.get(part.class) ? `: ${about.get(part.class)}` : ""),
          part.by?.length
            ? el(
                "span",
                {},
                ", by ",
                el("strong", {}, who(part.by[0])),
                part.by.length > 1 && ` and ${part.by.length - 1} more`,
              )
            : null,
        ),
      ),
  );
  return el("div", {}, bar, list);
}

export const who = (culprit) =>
  culprit.rank !== undefined && culprit.rank !== null && culprit.pid === null
    ? `rank ${culprit.rank}`
    : process(culprit.comm, culprit.pid);

export const swatch = (cause, colour = colourOf(cause)) =>
  styled(el("i", { class: isUnexplained(cause) ? "swatch striped" : "swatch", "aria-hidden": "true" }), {
    "--colour": colour,
  });

/** Where the time in calls went, as far as the clock tells without a cause. */
export function partsBar(row) {
  const parts = [
    ["on CPU", row.oncpu_pct],
    ["runnable", row.runq_pct],
    ["blocked", row.blocked_pct],
  ];
  if (parts.every(([, share]) => share === null || share === undefined)) return el("span", { class: "dim" }, "not known");
  const label = parts.map(([name, share]) => `${percent(share)} ${name}`).join(", ");
  return el(
    "div",
    { class: "bar small", role: "img", "aria-label": label, title: label },
    parts.map(([name, share]) => segment(name, share, PARTS[name])),
  );
}

function segment(name, share, colour) {
  const title = `${percent(share)} ${name}`;
  const one = el(
    "span",
    { class: isUnexplained(name) ? "segment striped" : "segment", title },
    share >= 14 ? el("span", { class: "on-colour", "aria-hidden": "true" }, name) : null,
  );
  return styled(one, { "flex-grow": String(Math.max(share, 0)), "--colour": colour });
}
