// The timeline's picture: lanes of slices on a canvas. A slice is filled from below as far as calls took its time, in the colours of
// what they waited for; the rest of its time nothing of it was in a call.

import { duration, visible } from "../shared/format.js";
import { colourOf, colourOfName } from "../shared/palette.js";

const [LABEL, BAR, GAP, AXIS, MARK] = [15, 22, 7, 22, 18];
/** Findings that are at the same time. */
const ROWS = 6;

/** Where each lane is; all of it follows from the answer. `since` makes nanoseconds after the trace's begin of a time. */
export function lanesOf(answer, since) {
  const lanes = [];
  let top = AXIS;
  const add = (lane, height) => {
    lanes.push({ ...lane, top, height });
    top += height + GAP;
  };
  if (answer.findings.length) {
    const slices = answer.findings.map((mark) => ({
      from: since(mark.start_ns),
      to: since(mark.end_ns),
      name: mark.title,
      mark,
    }));
    const shown = stacked(slices).filter((slice) => slice.row < ROWS);
    const name = shown.length < slices.length ? `findings, the worst ${shown.length} of ${slices.length}` : "findings";
    add({ kind: "finding", name, slices: shown }, LABEL + Math.max(...shown.map((one) => one.row + 1)) * MARK);
  }
  // Processes that only used the driver come after those that are traced.
  const traced = new Set(answer.tracks.filter((track) => track.kind !== "thread").map((track) => track.pid));
  const isOther = (track) => Number(!traced.has(track.pid));
  for (const track of [...answer.tracks].sort((a, b) => isOther(a) - isOther(b))) {
    const slices = track.slices.map((slice) => ({ ...slice, from: since(slice.start_ns), to: since(slice.end_ns) }));
    add({ ...track, slices }, LABEL + BAR);
  }
  return { lanes, height: top + 4 };
}

/** Findings that are at the same time lie below each other. */
function stacked(slices) {
  const ends = [];
  for (const slice of slices) {
    let row = ends.findIndex((end) => end <= slice.from);
    if (row < 0) row = ends.length;
    ends[row] = slice.to;
    slice.row = row;
  }
  return slices;
}

const KINDS = {
  annotation: "annotation",
  process: "all calls of",
  thread: "calls of thread",
  waits: "",
  stream: "",
  rank: "collectives of",
  finding: "",
};
export const nameOfLane = (lane) => [KINDS[lane.kind], lane.name].filter(Boolean).join(" ");

export function paint(pen, { lanes, view, width, height, chosen, colours }) {
  pen.clearRect(0, 0, width, height);
  const x = (ns) => ((ns - view.from) / (view.to - view.from)) * width;
  axis(pen, view, width, height, colours);
  for (const lane of lanes) {
    for (const slice of lane.slices) {
      if (slice.to < view.from || slice.from > view.to) continue;
      const left = Math.max(0, x(slice.from));
      const right = Math.min(width, x(slice.to));
      const box = boxOf(lane, slice, left, Math.max(1.5, right - left));
      if (lane.kind === "finding") mark(pen, slice, box, colours);
      else fill(pen, lane, slice, box, colours);
      if (slice === chosen) {
        pen.strokeStyle = colours.focus;
        pen.lineWidth = 2.5;
        pen.strokeRect(box.x - 1, box.y - 1, box.width + 2, box.height + 2);
      }
    }
    pen.fillStyle = lane === chosen?.lane ? colours.focus : colours.ink;
    pen.font = colours.small;
    pen.fillText(cut(pen, nameOfLane(lane), width - 8), 4, lane.top + 11);
  }
}

function boxOf(lane, slice, x, width) {
  if (lane.kind === "finding") return { x, y: lane.top + LABEL + slice.row * MARK, width, height: MARK - 3 };
  return { x, y: lane.top + LABEL, width, height: BAR };
}

function fill(pen, lane, slice, { x, y, width, height }, colours) {
  const length = Math.max(1, slice.to - slice.from);
  if (lane.kind === "stream") {
    band(pen, x, y, width, height, Math.min(1, slice.longest_ns / length), "hsl(210 45% 72%)");
    band(pen, x, y, width, height, Math.min(1, slice.busy_ns / length), "hsl(210 45% 46%)");
    return;
  }
  pen.fillStyle = colours.pale;
  pen.fillRect(x, y, width, height);
  const full = slice.count === 1 && lane.kind !== "process" ? 1 : Math.min(1, slice.busy_ns / length);
  const parts = slice.blame?.length ? slice.blame : [{ class: null, ns: slice.busy_ns || 1 }];
  const sum = parts.reduce((total, part) => total + Number(part.ns), 0) || 1;
  let bottom = y + height;
  for (const part of parts) {
    const tall = Math.max(full > 0 ? 1 : 0, (Number(part.ns) / sum) * full * height);
    pen.fillStyle = part.class ? colourOf(part.class) : colourOfName(slice.name);
    pen.fillRect(x, Math.max(y, bottom - tall), width, Math.min(tall, bottom - y));
    bottom -= tall;
  }
  if (slice.errors) {
    pen.fillStyle = colours.bad;
    pen.fillRect(x, y - 3, Math.max(3, width), 3);
  }
  if (width > 40) label(pen, slice.count > 1 ? `${slice.name} ×${slice.count}` : slice.name, x, y, width, height, colours);
}

function band(pen, x, y, width, height, part, colour) {
  pen.fillStyle = colour;
  pen.fillRect(x, y + height * (1 - part), width, height * part);
}

function mark(pen, slice, { x, y, width, height }, colours) {
  pen.fillStyle = colours[slice.mark.severity] ?? colours.ink;
  pen.globalAlpha = 0.22;
  pen.fillRect(x, y, width, height);
  pen.globalAlpha = 1;
  pen.fillRect(x, y, 3, height);
  pen.fillStyle = colours.ink;
  pen.font = colours.small;
  if (width > 30) pen.fillText(cut(pen, `${slice.mark.severity}: ${slice.name}`, width - 12), x + 7, y + height - 4);
}

/** Readable on whatever colour it lies on. */
function label(pen, text, x, y, width, height, colours) {
  pen.font = colours.small;
  const shown = cut(pen, text, width - 8);
  if (!shown) return;
  const wide = pen.measureText(shown).width;
  pen.fillStyle = colours.paper;
  pen.globalAlpha = 0.82;
  pen.fillRect(x + 2, y + 3, wide + 4, height - 6);
  pen.globalAlpha = 1;
  pen.fillStyle = colours.ink;
  pen.fillText(shown, x + 4, y + height - 7);
}

function cut(pen, text, width) {
  const shown = visible(text, 200);
  if (pen.measureText(shown).width <= width) return shown;
  const fits = Math.floor((width / (pen.measureText(shown).width || 1)) * shown.length) - 1;
  return fits > 2 ? `${shown.slice(0, fits)}…` : "";
}

function axis(pen, view, width, height, colours) {
  const step = stepOf((view.to - view.from) / Math.max(2, width / 110));
  pen.font = colours.small;
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    const x = ((at - view.from) / (view.to - view.from)) * width;
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x, AXIS - 6);
    pen.lineTo(x, height);
    pen.stroke();
    pen.fillStyle = colours.dim;
    const text = at === 0 ? "0" : `+${duration(at)}`;
    pen.fillText(text, Math.min(x + 3, width - pen.measureText(text).width - 2), 11);
  }
}

const stepOf = (least) => {
  const size = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((part) => part * size).find((step) => step >= least) ?? size * 10;
};

/** The slice under a point: of those that touch it the shortest. */
export function sliceAt(lanes, view, width, px, py) {
  const lane = lanes.find((one) => py >= one.top && py < one.top + one.height);
  if (!lane) return null;
  const slack = ((view.to - view.from) / width) * 3;
  const at = view.from + (px / width) * (view.to - view.from);
  const row = lane.kind === "finding" ? Math.floor((py - lane.top - LABEL) / MARK) : null;
  const hit = lane.slices.filter(
    (one) => one.from - slack <= at && one.to + slack >= at && (row === null || one.row === row),
  );
  const slice = hit.sort((a, b) => a.to - a.from - (b.to - b.from))[0];
  return { lane, slice: slice ?? null };
}
