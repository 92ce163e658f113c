// Curves over time, drawn with SVG: an axis of values, an axis of time, a readout under the pointer, and the numbers in words.

import { el, svg, time } from "../shared/dom.js";
import { big, duration, measured, visible } from "../shared/format.js";
import { CURVES } from "../shared/palette.js";

/** The drawing is stretched to its place; strokes and text are not. */
const [WIDTH, HEIGHT] = [1000, 100];

/** `curves` are `{name, unit, points: [[ns after start, value]]}`; `steps`: a value holds until the next one. */
export function chart({ label, curves, startNs, endNs, unit, steps = false, most = null, names = true }) {
  const span = Math.max(1, Number(big(endNs) - big(startNs)));
  const values = curves.flatMap((curve) => curve.points.map(([, value]) => value));
  const top = most ?? (nice(Math.max(...values, 0), unit) || 1);
  const x = (ns) => (ns / span) * WIDTH;
  const y = (value) => HEIGHT - (value / top) * HEIGHT;
  const stroke = (at) => ({
    stroke: CURVES[at % CURVES.length],
    "stroke-dasharray": DASHES[Math.floor(at / 2) % DASHES.length],
  });
  const grid = [0, 0.5, 1].map((part) =>
    svg("line", {
      x1: 0,
      x2: WIDTH,
      y1: y(top * part),
      y2: y(top * part),
      class: "grid",
      "vector-effect": "non-scaling-stroke",
    }),
  );
  const lines = curves.map((curve, at) =>
    svg("path", {
      d: path(curve.points, x, y, steps, span),
      fill: "none",
      "stroke-width": "2",
      "vector-effect": "non-scaling-stroke",
      ...stroke(at),
    }),
  );
  const cross = svg("line", {
    y1: 0,
    y2: HEIGHT,
    class: "cross",
    visibility: "hidden",
    "vector-effect": "non-scaling-stroke",
  });
  const drawing = svg(
    "svg",
    {
      viewBox: `0 -1 ${WIDTH} ${HEIGHT + 2}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": inWords(label, curves, unit),
    },
    grid,
    lines,
    cross,
  );
  const readout = el("span", { class: "readout dim" });
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * span;
    if (at < 0 || at > span) return;
    cross.setAttribute("x1", x(at));
    cross.setAttribute("x2", x(at));
    cross.setAttribute("visibility", "visible");
    const told = curves
      .map((curve) => [curve, near(curve.points, at, steps)])
      .filter(([, value]) => value !== null)
      .map(([curve, value]) => `${curves.length > 1 ? `${shorter(curve.name, 40)} ` : ""}${measured(value, unit)}`);
    readout.replaceChildren(
      time(big(startNs) + BigInt(Math.round(at))),
      visible(`: ${told.join(" · ") || "nothing"}`, 2000),
    );
  });
  drawing.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    readout.replaceChildren();
  });
  const legend =
    names &&
    el(
      "ul",
      { class: "legend inline" },
      curves.map((curve, at) =>
        el(
          "li",
          {},
          svg(
            "svg",
            { viewBox: "0 0 24 8", class: "dash", "aria-hidden": "true" },
            svg("line", { x1: 0, x2: 24, y1: 4, y2: 4, "stroke-width": 3, ...stroke(at) }),
          ),
          shorter(curve.name),
          el("span", { class: "dim" }, ` most ${measured(Math.max(...curve.points.map(([, value]) => value)), unit)}`),
        ),
      ),
    );
  const scale = (name, texts) =>
    el(
      "ul",
      { class: name, "aria-hidden": "true" },
      texts.map((text) => el("li", {}, text)),
    );
  return el(
    "figure",
    { class: "figure" },
    el("figcaption", {}, el("b", {}, label), readout),
    el(
      "div",
      { class: "chart" },
      scale(
        "values",
        [1, 0.5, 0].map((part) => measured(top * part, unit)),
      ),
      drawing,
      scale(
        "times",
        [0, 0.25, 0.5, 0.75, 1].map((part) => (part ? `+${duration(span * part)}` : "0")),
      ),
    ),
    legend,
  );
}

/** Told apart without colours, too. */
const DASHES = ["none", "7 3", "2 3", "10 3 2 3"];

export const shorter = (name, longest = 70) => (name.length > longest ? `${name.slice(0, longest)}…` : name);

function path(points, x, y, steps, span) {
  let made = "";
  points.forEach(([ns, value], at) => {
    const [px, py] = [x(ns).toFixed(1), y(value).toFixed(1)];
    if (at === 0) made += steps ? `M${px} ${y(0)}V${py}` : `M${px} ${py}`;
    else made += steps ? `H${px}V${py}` : `L${px} ${py}`;
  });
  if (steps && points.length) made += `H${x(span).toFixed(1)}`;
  else if (points.length === 1) made += "h3";
  return made;
}

/** The value at a time: of a level the last one before, else the nearest. */
function near(points, at, steps) {
  let found = null;
  for (const [ns, value] of points) {
    if (ns <= at) found = value;
    else {
      if (!steps && found === null) found = value;
      break;
    }
  }
  return found;
}

const nice = (value, unit) => {
  if (value <= 0) return 0;
  const whole = unit === "bytes" ? 1024 ** Math.floor(Math.log(value) / Math.log(1024)) : 1;
  const size = whole * 10 ** Math.floor(Math.log10(value / whole));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((part) => part * size).find((limit) => limit >= value) ?? value;
};

function inWords(label, curves, unit) {
  const told = curves.slice(0, 8).map((curve) => {
    const values = curve.points.map(([, value]) => value);
    const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
    return `${curve.name}: least ${measured(Math.min(...values), unit)}, mean ${measured(mean, unit)}, most ${measured(Math.max(...values), unit)}`;
  });
  return `${label}. ${told.join("; ")}`;
}
