// The dashboard of a trace: what all its views share, and how it stays up to date.

import { button, choice, time } from "../shared/dom.js";
import { process } from "../shared/format.js";
import { write } from "../shared/route.js";
import { place, shell } from "../shared/shell.js";
import { ask } from "./api.js";
import { watch } from "./live.js";
import { VIEWS } from "./views/all.js";

const SPANS = [
  ["", "all of it"],
  ["10s", "last 10 s"],
  ["60s", "last minute"],
  ["5m", "last 5 minutes"],
  ["30m", "last 30 minutes"],
  ["2h", "last 2 hours"],
];
const KEYS = [
  ["← →", "timeline: pan; flame graph: neighbour"],
  ["+ −", "timeline: zoom in and out"],
  ["↑ ↓", "timeline: track; flame graph: caller and called"],
  ["N P", "timeline: next and previous slice of the track"],
  ["F", "timeline: open or fold the process of the track"],
  ["Enter", "timeline: zoom to the slice; flame graph: zoom to the frame"],
  ["0", "timeline: all of it; Esc: flame graph: all of it"],
];

/** An end of a time range, which an address may say anything of. */
const shownTime = (ns) => (/^\d{1,19}$/.test(ns ?? "") ? time(ns) : "…");

let processes = [];
function drawFilters(view, route) {
  const form = place("filters");
  form.hidden = view.filters === false;
  const set = (params) => {
    location.hash = write(route.view, { ...route.params, ...params });
  };
  const pids = processes.map((one) => [
    one.pid,
    `${process(one.comm, one.pid)}${one.rank === null ? "" : `, rank ${one.rank}`}`.slice(0, 60),
  ]);
  const { pid, since, op, from, to } = route.params;
  if (pid && !pids.some(([known]) => String(known) === pid)) pids.push([pid, `process ${pid}`]);
  const spans = since && !SPANS.some(([known]) => known === since) ? [...SPANS, [since, `last ${since}`]] : SPANS;
  form.replaceChildren(
    choice("Process", pid, [["", "all processes"], ...pids], (value) => set({ pid: value })),
    choice("Time", since, spans, (value) => set({ since: value, from: undefined, to: undefined })),
    from || to
      ? button([shownTime(from), " – ", shownTime(to), " ✕"], () => set({ from: undefined, to: undefined }), {
          class: "chip",
          "data-key": "range",
          "aria-label": "Show all of the time, not only this range",
        })
      : "",
    op
      ? button(`only ${op} ✕`, () => set({ op: undefined }), {
          class: "chip",
          "aria-label": `Show all operations, not only ${op}`,
        })
      : "",
  );
  form.querySelectorAll("select").forEach((select, at) => {
    select.dataset.key = `filter-${at}`;
  });
}

async function knowProcesses() {
  try {
    const { rows } = await ask("processes", { limit: 500 });
    if (JSON.stringify(rows) === JSON.stringify(processes)) return;
    processes = rows;
    page.filtersChanged();
  } catch {
    // The views say what is wrong.
  }
}

const page = shell({
  name: "gpuwhy",
  views: () => VIEWS,
  filtersOf: ({ pid, since, from, to }) => ({ pid, since, from, to }),
  // As the server's questions have them.
  asFilters: ({ pid, since, from, to }) => ({ pid, since, from_ns: from, to_ns: to }),
  context: (signal) => ({ trace, ask: (name, request) => ask(name, request, signal) }),
  drawFilters,
  keys: KEYS,
});
const trace = watch({ element: place("trace"), age: place("age"), changed: page.refresh, renewed: page.show });

place("logout").hidden = location.protocol !== "https:";
page.begin();
trace.begin(knowProcesses);
