// What a slice of the timeline is, in words: when, how long, where its time went, and from where it was called.

import { badge, gradeOf, wordOf } from "../shared/badge.js";
import { framesOf, inWords } from "./api.js";
import { causeBar } from "../shared/bar.js";
import { button, el, time } from "../shared/dom.js";
import { count, duration } from "../shared/format.js";
import { nameOfLane } from "./lanes.js";

export function told({ lane, slice }, timeline) {
  const { context } = timeline;
  const zoom = button("Zoom to it", () => timeline.zoomTo(slice));
  const when = el(
    "p",
    {},
    time(timeline.absolute(slice.from)),
    ` (+${duration(slice.from)}), for ${duration(slice.to - slice.from)}, ${nameOfLane(lane)}`,
  );
  if (slice.mark) {
    const { mark } = slice;
    const read = el("a", { href: context.link("overview", { pid: mark.pid ?? undefined }) }, "Read the finding");
    return [el("h2", {}, badge(gradeOf(mark), wordOf(mark)), " ", mark.title), when, el("p", { class: "row" }, zoom, read)];
  }
  const frames = el("div", {});
  if (slice.stack_id !== undefined) tellFrames(slice.stack_id, frames, context);
  const isCall = lane.kind === "thread" && slice.count === 1;
  return [
    el("h2", {}, slice.count > 1 ? `${slice.name} ×${count(slice.count)}` : slice.name),
    when,
    el(
      "p",
      {},
      howLong(lane, slice),
      slice.errors ? el("strong", { class: "bad" }, ` ${count(slice.errors)} failed`) : null,
    ),
    parts(slice),
    frames,
    el(
      "p",
      { class: "row" },
      zoom,
      isCall && el("a", { href: context.link("stacks", { pid: lane.pid, of: "calls", op: slice.name }) }, `Stacks of ${slice.name}`),
    ),
  ];
}

function howLong(lane, slice) {
  if (lane.kind === "stream") {
    return `${count(slice.count)} pieces of work, busy between ${duration(slice.busy_ns)} and ${duration(slice.longest_ns)}`;
  }
  if (slice.count === 1) return `took ${duration(slice.busy_ns)}`;
  return `${count(slice.count)} in ${duration(slice.busy_ns)}, mostly ${slice.name}, the longest ${duration(slice.longest_ns)}`;
}

function parts({ blame = [] }) {
  const sum = blame.reduce((total, part) => total + Number(part.ns), 0);
  if (!sum) return null;
  const shareOf = (ns) => ({ ms: Number(ns) / 1e6, share_pct: (100 * Number(ns)) / sum });
  return causeBar(blame.map((part) => ({ class: part.class, ...shareOf(part.ns) })));
}

async function tellFrames(id, place, context) {
  try {
    const stack = (await framesOf([id], context.signal)).get(String(id));
    if (!stack) return;
    const python = stack.filter((frame) => frame.kind === "python");
    const shown = (python.length ? python : stack).slice(0, 12);
    const list = shown.map((frame) => el("li", { class: "code" }, inWords(frame)));
    place.replaceChildren(el("h3", {}, "Called from, innermost first"), el("ol", { class: "frames" }, list));
  } catch {
    // The slice is told without its stack.
  }
}
