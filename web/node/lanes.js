// The timeline's picture: lanes of slices on a canvas. A slice is filled from below as far as calls took its time, in the colours of
// what they waited for; the rest of its time nothing of it was in a call.

import { gradeOf, wordOf } from "../shared/badge.js";
import { duration, visible } from "../shared/format.js";
import { colourOf, colourOfName } from "../shared/palette.js";

const [LABEL, BAR, GAP, AXIS, MARK, UNDER] = [15, 22, 7, 22, 18, 14];
/** Findings that are at the same time. */
const ROWS = 6;

/** Where each lane is; all of it follows from the answer. `since` makes nanoseconds after the trace's begin of a time; processes beside
 * those that use a GPU are a lane each, unless `isOpen` says so. */
export function lanesOf(answer, since, isOpen = () => true) {
  const lanes = [];
  let top = AXIS;
  const add = (lane, height, gap = GAP) => {
    lanes.push({ ...lane, top, height });
    top += height + gap;
  };
  const withTimes = (track) => track.slices.map((slice) => ({ ...slice, from: since(slice.start_ns), to: since(slice.end_ns) }));
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
  const { loose, main, others } = byProcess(answer.tracks);
  for (const track of loose) add({ ...track, slices: withTimes(track) }, LABEL + BAR);
  const whole = ({ tracks }) => {
    for (const track of tracks) {
      // Waits of a thread stand under its calls, as one.
      const under = track.kind === "waits" && lanes.at(-1)?.kind === "thread" && lanes.at(-1).tid === track.tid;
      if (under) top -= GAP - 1;
      add({ ...track, under, slices: withTimes(track) }, under ? UNDER : LABEL + BAR);
    }
  };
  main.forEach(whole);
  for (const group of others) {
    const folds = { folds: group.pid, isOpen: isOpen(group.pid), count: group.tracks.length };
    if (folds.isOpen) {
      add({ kind: "group", name: group.name, pid: group.pid, slices: [], ...folds }, LABEL, 2);
      whole(group);
      continue;
    }
    const busiest = [...group.tracks].sort((a, b) => time(b) - time(a))[0];
    add({ ...busiest, name: group.name, shows: busiest.kind, slices: withTimes(busiest), ...folds }, LABEL + BAR);
  }
  return { lanes, height: top + 4, others: others.map((group) => group.pid) };
}

const time = (track) => track.slices.reduce((sum, slice) => sum + slice.busy_ns, 0);

/** Tracks by process, those of each in this order: all calls, threads with their waits, streams, ranks. Main are processes with work on
 * a GPU, or where none has any, the first. */
function byProcess(tracks) {
  const groups = new Map();
  for (const track of tracks.filter((one) => one.pid !== null)) {
    if (!groups.has(track.pid)) groups.set(track.pid, []);
    groups.get(track.pid).push(track);
  }
  const list = [...groups].map(([pid, own]) => ({ pid, name: nameOfProcess(pid, own), tracks: inOrder(pid, own) }));
  const uses = ({ tracks: own }) => own.some((track) => ["stream", "rank"].includes(track.kind));
  const main = list.some(uses) ? list.filter(uses) : list.slice(0, 1);
  return {
    loose: tracks.filter((one) => one.pid === null),
    main,
    others: list.filter((group) => !main.includes(group)),
  };
}

function nameOfProcess(pid, tracks) {
  const own = tracks.find((track) => track.kind === "process") ?? tracks.find((track) => track.tid === pid) ?? tracks[0];
  const name = own.name.replace(/^waits of /, "").replace(/\[\d+\]$/, "");
  return `${name}[${pid}]`;
}

function inOrder(pid, tracks) {
  const of = (kind) => tracks.filter((track) => track.kind === kind);
  const threads = new Map();
  for (const track of [...of("thread"), ...of("waits")]) {
    if (!threads.has(track.tid)) threads.set(track.tid, []);
    threads.get(track.tid).push(track);
  }
  const calls = (own) => Number(own.some((track) => track.kind === "thread"));
  const sorted = [...threads].sort(
    ([a, ofA], [b, ofB]) => Number(b === pid) - Number(a === pid) || calls(ofB) - calls(ofA),
  );
  const rest = tracks.filter((track) => !["process", "thread", "waits"].includes(track.kind));
  return [...of("process"), ...sorted.flatMap(([, own]) => own), ...rest];
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
/** Of a folded process, the track that is shown. */
const SHOWN = {
  process: "all its calls",
  thread: "the calls of its busiest thread",
  waits: "the waits of its busiest thread",
  stream: "its busiest stream",
  rank: "its collectives",
};
/** What a lane shows, in words. */
export const nameOfLane = (lane) => {
  if (lane.folds !== undefined) {
    const fold = lane.isOpen ? "▾" : "▸";
    const tracks = `${lane.count} ${lane.count === 1 ? "track" : "tracks"}`;
    return `${fold} ${lane.name}: ${lane.isOpen ? tracks : `${tracks}, folded; shown: ${SHOWN[lane.shows] ?? lane.shows}`}`;
  }
  return [KINDS[lane.kind], lane.name].filter(Boolean).join(" ");
};

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
    if (lane.under) continue;
    pen.fillStyle = lane === chosen?.lane ? colours.focus : colours.ink;
    pen.font = colours.small;
    pen.fillText(cut(pen, nameOfLane(lane), width - 8), 4, lane.top + 11);
  }
}

function boxOf(lane, slice, x, width) {
  if (lane.kind === "finding") return { x, y: lane.top + LABEL + slice.row * MARK, width, height: MARK - 3 };
  if (lane.under) return { x, y: lane.top, width, height: UNDER };
  return { x, y: lane.top + LABEL, width, height: BAR };
}

function fill(pen, lane, slice, { x, y, width, height }, colours) {
  const length = Math.max(1, slice.to - slice.from);
  if (lane.kind === "stream") {
    // Up to the upper bound nobody knows: hatched. Proven is solid.
    const [upper, lower] = [slice.longest_ns, slice.busy_ns].map((ns) => Math.min(1, ns / length));
    band(pen, x, y, width, height, upper, hatched(pen));
    pen.fillStyle = "hsl(210 45% 56%)";
    if (upper > lower) pen.fillRect(x, y + height * (1 - upper), width, 1);
    band(pen, x, y, width, height, lower, "hsl(210 45% 46%)");
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
  if (width > 40 && !lane.under) label(pen, slice.count > 1 ? `${slice.name} ×${slice.count}` : slice.name, x, y, width, height, colours);
}

let hatching;
function hatched(pen) {
  if (!hatching) {
    const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
    const ink = tile.getContext("2d");
    ink.strokeStyle = "hsl(210 45% 56%)";
    ink.lineWidth = 1.5;
    for (const at of [-8, 0, 8]) {
      ink.moveTo(at, 8);
      ink.lineTo(at + 8, 0);
    }
    ink.stroke();
    hatching = pen.createPattern(tile, "repeat");
  }
  return hatching;
}

function band(pen, x, y, width, height, part, colour) {
  pen.fillStyle = colour;
  pen.fillRect(x, y + height * (1 - part), width, height * part);
}

function mark(pen, slice, { x, y, width, height }, colours) {
  pen.fillStyle = colours[gradeOf(slice.mark)] ?? colours.ink;
  pen.globalAlpha = 0.22;
  pen.fillRect(x, y, width, height);
  pen.globalAlpha = 1;
  pen.fillRect(x, y, 3, height);
  pen.fillStyle = colours.ink;
  pen.font = colours.small;
  if (width > 30) pen.fillText(cut(pen, `${wordOf(slice.mark)}: ${slice.name}`, width - 12), x + 7, y + height - 4);
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
