// The timeline: what happened when. Only the time that is seen is asked for, thinned out by the server to what can be drawn.

import { ask } from "../api.js";
import { swatch } from "../../shared/bar.js";
import { add, button, el, time, words } from "../../shared/dom.js";
import { big, duration, since } from "../../shared/format.js";
import { movable } from "../gestures.js";
import { lanesOf, paint, sliceAt } from "../lanes.js";
import { told } from "../slice.js";

/** After the last move the server is asked. */
const REST = 140;

export const timeline = {
  name: "timeline",
  title: "Timeline",
  about:
    "Calls by thread in the colours of what they waited for, the thread's waits under them, streams, ranks, findings. Hatched: between the two proven bounds. Drag or ← → to pan, Ctrl with the wheel, a pinch or + − to zoom, click or N P for details.",
  show: (context) => new Timeline(context).made(),
};

class Timeline {
  constructor(context) {
    this.context = context;
    this.view = { from: 0, to: 1 };
    this.lanes = [];
    this.chosen = null;
    this.canvas = el("canvas", {
      class: "timeline",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "timeline",
      "aria-label":
        "Timeline. Left and right pan, plus and minus zoom, up and down choose a track, N and P go through its slices, Enter zooms to one.",
      "data-key": "timeline",
    });
    this.state = el("div", {}, words("loading", "Loading…"));
    this.says = el("p", { class: "readout", role: "status" });
    this.details = el(
      "section",
      { class: "panel wide", "aria-label": "Details", "aria-live": "polite" },
      el("p", { class: "dim" }, "Click a slice, or press N on the timeline, to see what it is."),
    );
    this.legend = el("ul", { class: "legend inline" });
    this.fold = button("", () => this.turn(), { hidden: true, "data-key": "fold" });
  }

  made() {
    const { canvas, view } = this;
    this.move = movable(canvas, {
      view,
      whole: () => this.whole ?? { from: 0, to: 1 },
      changed: () => this.moved(),
      press: (x, y) => this.pressedAt(x, y),
      key: (name) => this.pressed(name),
    });
    const tool = (label, text, act) => button(text, act, { "aria-label": label, title: label });
    const tools = el(
      "div",
      { class: "row" },
      tool("Earlier", "◀", () => this.move.pan(-0.3)),
      tool("Later", "▶", () => this.move.pan(0.3)),
      tool("Zoom in", "+", () => this.move.zoom(0.5)),
      tool("Zoom out", "−", () => this.move.zoom(2)),
      button("All of it", () => this.move.whole()),
      this.fold,
      this.says,
    );
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(canvas);
    return {
      elements: [tools, this.legend, this.state, canvas, this.details],
      refresh: () => this.begin(),
      themed: () => this.draw(),
      leave: () => {
        this.watcher.disconnect();
        clearTimeout(this.timer);
        this.asked?.abort();
      },
    };
  }

  /** Lanes of the answer; other processes are a lane each until somebody opens them. */
  layOut() {
    const { params, filters } = this.context;
    const open = new Set((params.open ?? "").split(","));
    const isOpen = (pid) => Boolean(filters.pid) || open.has("all") || open.has(String(pid));
    Object.assign(this, lanesOf(this.answer, (ns) => since(ns, this.origin), isOpen));
    const { others } = this;
    this.fold.hidden = !others.length || Boolean(filters.pid);
    const all = others.every(isOpen);
    this.fold.textContent = `${all ? "Fold" : "Show"} ${others.length} other ${others.length === 1 ? "process" : "processes"}`;
    this.fold.setAttribute("aria-expanded", String(all));
  }

  /** Opens or folds one of the other processes, or all of them. */
  turn(pid) {
    const open = new Set((this.context.params.open ?? "").split(",").filter(Boolean));
    if (pid === undefined) {
      const all = open.has("all") || this.others.every((one) => open.has(String(one)));
      open.clear();
      if (!all) open.add("all");
    } else {
      if (open.delete("all")) for (const one of this.others) open.add(String(one));
      if (!open.delete(String(pid))) open.add(String(pid));
    }
    this.context.note({ open: [...open].join(",") || undefined });
    this.layOut();
    this.keepChosen();
    this.drawLegend();
    this.draw();
  }

  /** The first time, and whenever the trace has grown. */
  async begin() {
    const { params, trace, signal } = this.context;
    const about = await trace.known();
    if (signal.aborted) return;
    if (about.start_ns === null) return this.state.replaceChildren(words("empty", "The trace is empty so far."));
    this.origin = big(about.start_ns);
    const end = Math.max(1, since(about.end_ns, this.origin));
    const atEnd = this.whole && this.view.to >= this.whole.to;
    this.whole = { from: 0, to: end };
    if (!this.started) {
      const [from, to] = [params.from, params.to].map((text) =>
        /^\d+$/.test(text ?? "") ? since(text, this.origin) : null,
      );
      Object.assign(
        this.view,
        from !== null && to > from
          ? { from, to }
          : params.since
            ? { from: Math.max(0, end - spanOf(params.since)), to: end }
            : this.whole,
      );
      this.started = true;
    } else if (atEnd) {
      // Whoever looks at the newest goes on looking at it.
      const whole = this.view.from <= 0;
      const length = this.view.to - this.view.from;
      Object.assign(this.view, whole ? this.whole : { from: end - length, to: end });
    }
    await this.load();
  }

  moved() {
    if (!this.started) return;
    this.draw();
    // What is drawn now is of the old stretch of time, and readers of the page are told.
    this.canvas.ariaBusy = "true";
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      // Browsers refuse an address that changes with every move.
      const all = this.view.from <= 0 && this.view.to >= this.whole.to;
      const range = all ? {} : { from: this.absolute(Math.max(0, this.view.from)), to: this.absolute(this.view.to) };
      this.context.note({ from: undefined, to: undefined, since: undefined, ...range });
      this.load();
    }, REST);
  }

  absolute(ns) {
    return String(this.origin + BigInt(Math.round(ns)));
  }

  async load() {
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    const slices = Math.max(100, Math.min(1000, Math.round(this.canvas.clientWidth / 2)));
    // A little more than is seen, so that a small move shows something.
    const extra = (this.view.to - this.view.from) * 0.1;
    const request = {
      from_ns: this.absolute(Math.max(0, this.view.from - extra)),
      to_ns: this.absolute(this.view.to + extra),
      pid: this.context.filters.pid,
      slices,
      tracks: 80,
    };
    try {
      const answer = await ask("timeline", request, asked.signal);
      if (this.context.signal.aborted) return;
      Object.assign(
        this,
        { answer },
      );
      this.layOut();
      this.state.replaceChildren();
      this.keepChosen();
      this.drawLegend();
      this.canvas.hidden = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.lanes = [];
      this.state.replaceChildren(
        words(
          error.kind === "nothing" ? "empty" : "error",
          error.message,
          button("Try again", () => this.load()),
        ),
      );
    }
    this.canvas.ariaBusy = String(this.timer !== undefined);
    this.draw();
  }

  /** The slices are new ones; the chosen is the same again where it is still there. */
  keepChosen() {
    const wanted = this.chosen?.slice;
    if (!wanted && this.context.params.finding) {
      const lane = this.lanes.find((one) => one.kind === "finding");
      const slice = lane?.slices.find((one) => one.mark.id === this.context.params.finding);
      if (slice) return this.pick({ lane, slice }, false);
    }
    if (!this.chosen) return;
    const lane = this.lanes.find((one) => one.kind === this.chosen.lane.kind && one.name === this.chosen.lane.name);
    const slice = wanted && lane?.slices.find((one) => one.from === wanted.from && one.name === wanted.name);
    this.chosen = lane ? { lane, slice: slice ?? wanted } : null;
  }

  draw() {
    const { canvas, view } = this;
    const [width, height] = [canvas.clientWidth, Math.max(120, this.height ?? 120)];
    const scale = Math.min(3, devicePixelRatio || 1);
    canvas.style.setProperty("height", `${height}px`);
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const style = getComputedStyle(canvas);
    const named = (name) => style.getPropertyValue(name).trim();
    const colours = {
      ink: style.color,
      paper: named("--paper"),
      pale: named("--pale"),
      line: named("--line"),
      dim: named("--dim"),
      focus: named("--focus"),
      bad: named("--critical"),
      critical: named("--critical"),
      high: named("--high"),
      medium: named("--medium"),
      low: named("--low"),
      built: named("--dim"),
      small: `12px ${style.fontFamily}`,
    };
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    paint(pen, {
      lanes: this.lanes,
      view,
      width,
      height,
      chosen: this.chosen?.slice && Object.assign(this.chosen.slice, { lane: this.chosen.lane }),
      colours,
    });
    this.says.replaceChildren(
      ...(this.origin === undefined
        ? []
        : [
            time(this.absolute(Math.max(0, view.from))),
            " – ",
            time(this.absolute(view.to)),
            ` (${duration(view.to - view.from)})`,
            this.answer?.sampled ? "; calls are a sample, sums of processes are exact" : "",
          ]),
    );
  }

  drawLegend() {
    const classes = new Map();
    for (const lane of this.lanes)
      for (const slice of lane.slices)
        for (const part of slice.blame ?? []) classes.set(part.class, (classes.get(part.class) ?? 0) + Number(part.ns));
    this.legend.replaceChildren(
      ...[...classes].sort((a, b) => b[1] - a[1]).map(([name]) => el("li", {}, swatch(name), el("code", {}, name))),
    );
  }

  pressed(key) {
    const lanes = this.lanes.filter((lane) => lane.slices.length);
    if (!lanes.length) return false;
    const at = lanes.findIndex((lane) => lane === this.chosen?.lane);
    const lane = lanes[Math.max(0, at)];
    const seen = lane.slices.filter((slice) => slice.to >= this.view.from && slice.from <= this.view.to);
    const place = seen.indexOf(this.chosen?.slice);
    const pick = (slice, of = lane) => {
      this.pick({ lane: of, slice: slice ?? null });
      return true;
    };
    switch (key) {
      case "ArrowDown":
      case "ArrowUp": {
        const next = lanes[Math.min(Math.max(at + (key === "ArrowDown" ? 1 : -1), 0), lanes.length - 1)];
        return pick(
          next.slices.find((slice) => slice.to >= this.view.from && slice.from <= this.view.to),
          next,
        );
      }
      case "n":
      case "N":
        return pick(seen[Math.min(place + 1, seen.length - 1)]);
      case "p":
      case "P":
        return pick(seen[Math.max(place - 1, 0)]);
      case "f":
      case "F":
        if (this.chosen?.lane.folds !== undefined) this.turn(this.chosen.lane.folds);
        return true;
      case "Enter":
        if (this.chosen?.slice) this.zoomTo(this.chosen.slice);
        return true;
      default:
        return false;
    }
  }

  /** A slice is picked; the name of another process opens or folds it. */
  pressedAt(x, y) {
    const found = sliceAt(this.lanes, this.view, this.canvas.clientWidth, x, y);
    if (found?.lane.folds !== undefined && (!found.slice || y < found.lane.top + 15)) return this.turn(found.lane.folds);
    this.pick(found);
  }

  zoomTo({ from, to }) {
    const room = Math.max((to - from) * 0.1, 1000);
    this.move.to(from - room, to + room);
  }

  pick(found, tell = true) {
    if (!found?.slice) return;
    this.chosen = found;
    if (tell) this.context.note({ finding: found.slice.mark?.id });
    this.draw();
    this.details.replaceChildren();
    add(this.details, [told(found, this)]);
  }
}

const spanOf = (text) =>
  Number.parseFloat(text) * ({ ms: 1e6, s: 1e9, m: 60e9, h: 3600e9, d: 86400e9 }[text.replace(/^[\d.]+/, "")] ?? 1e9);
