// Stacks: where in the code time or memory goes, as a flame graph or an icicle.

import { choice, el, say } from "../../shared/dom.js";
import { bytes, count, duration, percent } from "../../shared/format.js";
import { flame, nameOf, tree } from "../flame.js";
import { panel } from "../../shared/panel.js";

const OF = [
  ["time", "all time of a thread"],
  ["calls", "time in GPU calls"],
  ["waits", "waits between calls"],
  ["memory", "live device memory"],
];
const FRAMES = [
  ["own", "the program's own"],
  ["all", "all"],
  ["python", "Python"],
  ["native", "native"],
];

/** What is measured in nanoseconds is counted as this. */
const COUNTED = { time: "calls, waits and samples", calls: "calls", waits: "samples", memory: "pieces" };

const graph = (context, knowThreads) => {
  const { params } = context;
  const of = params.of ?? "time";
  let parts = null;
  const draw = ({ frames, value, unit, count: calls, sampled, truncated }) => {
    const { root, nodes } = tree(frames, value);
    const measure = unit === "bytes" ? bytes : duration;
    const told = el("p", { class: "readout", role: "status" });
    const tell = (node) => {
      say(
        told,
        `${nameOf(node)}: ${measure(node.value)}, ${percent((100 * node.value) / (value || 1))} of all${node.frame ? `, ${count(node.frame.count)} ${COUNTED[of]}${node.frame.module ? `, in ${node.frame.module}` : ""}` : ""}`,
      );
    };
    const place = el("div", {});
    const path = el("p", { class: "links path" });
    const found = el("span", { class: "dim", role: "status" });
    const search = el("input", {
      type: "search",
      value: params.find ?? "",
      placeholder: "find a function",
      "aria-label": "Find a function",
      "data-key": "find-frame",
    });
    let at = nodes.get(params.at === undefined ? null : Number(params.at)) ?? root;
    const show = () => {
      const drawn = flame({
        at,
        total: value,
        icicle: params.shape !== "flame",
        search: search.value,
        measure,
        choose,
        tell,
      });
      place.replaceChildren(drawn.place);
      found.textContent = search.value ? `${percent((100 * drawn.matched) / (value || 1))} of all is in what was found` : "";
      const above = [];
      for (let node = at; node; node = node.parent) above.unshift(node);
      path.replaceChildren(
        "Shown: ",
        ...above.map((node) => el("button", { type: "button", class: "link", onclick: () => choose(node) }, nameOf(node))),
      );
      path.hidden = at === root;
      tell(at);
    };
    const choose = (node) => {
      at = node;
      context.note({ at: node.id ?? undefined });
      show();
      place.querySelector(`[data-key="frame-${node.id}"]`)?.focus({ preventScroll: true });
    };
    search.addEventListener("input", () => {
      context.note({ find: search.value || undefined });
      show();
    });
    show();
    parts = { show };
    return [
      el("div", { class: "row" }, search, found),
      path,
      place,
      told,
      el(
        "p",
        { class: "dim" },
        `${count(calls)} ${COUNTED[of]}, ${measure(value)} in all.`,
        of === "time" && " Waits are clocked, from half a millisecond on; their lines, and the code that runs, are sampled.",
        sampled && " There are more kept calls than were read: these are estimates.",
        truncated && " Only the heaviest frames are drawn.",
      ),
    ];
  };
  return {
    part: panel({
      key: "stacks",
      wide: true,
      load: async () => {
        const ask = (thread) =>
          context.ask("stacks", {
            of,
            ...thread,
            frames: params.frames,
            op: params.op,
            cause: params.cause,
            ...context.filters,
            limit: 2000,
          });
        if (of !== "time" || params.tid === ALL) return ask({});
        if (params.tid) return knowThreads(await ask({ tid: params.tid }), params.tid);
        const answer = await ask({ busiest: true });
        return knowThreads(answer, answer.threads?.[0]?.tid);
      },
      draw,
    }),
    redraw: () => parts?.show(),
  };
};

const ALL = "all";

export const stacks = {
  name: "stacks",
  title: "Stacks",
  about:
    "Where in the code the time goes, in calls, between them and while it waits; start, loop and end apart. The wider, the more. Press a frame to zoom into it, one of its callers to zoom out.",
  show(context) {
    const { params } = context;
    const set = (key) => (value) => context.set({ [key]: value, at: undefined });
    // Which threads there are is known with the first answer.
    const thread = el("div", { class: "fits" });
    const knowThreads = (answer, tid) => {
      const options = (answer.threads ?? []).map((one) => [one.tid, `${one.name}, ${duration(one.active_ns)} active`]);
      const chosen = choice("Thread", tid, [...options, [ALL, "all threads"]], set("tid"));
      chosen.querySelector("select").dataset.key = "stacks-thread";
      thread.replaceChildren(chosen);
      return answer;
    };
    if (params.tid === ALL) {
      const chosen = choice("Thread", ALL, [["", "the busiest thread"], [ALL, "all threads"]], set("tid"));
      thread.replaceChildren(chosen);
    }
    const controls = el(
      "div",
      { class: "row" },
      choice("Of", params.of ?? "time", OF, (value) => context.set({ of: value, tid: undefined, at: undefined })),
      thread,
      choice("Frames", params.frames ?? "own", FRAMES, set("frames")),
      choice(
        "Shape",
        params.shape ?? "icicle",
        [
          ["icicle", "icicle (callers above)"],
          ["flame", "flame graph (callers below)"],
        ],
        (value) => context.set({ shape: value }),
      ),
      params.cause &&
        el("a", { class: "chip", href: context.link("stacks", { ...params, cause: undefined }) }, `only ${params.cause} ✕`),
    );
    controls.querySelectorAll("select").forEach((select, at) => {
      select.dataset.key = `stacks-${at}`;
    });
    const made = graph(context, knowThreads);
    return { elements: [controls, made.part.section], refresh: () => made.part.refresh(context) };
  },
};
