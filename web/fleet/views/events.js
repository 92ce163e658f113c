// Events: what nodes told, the newest first, and what they and the fleet found.

import { button, choice, el, time, words } from "../../shared/dom.js";
import { count } from "../../shared/format.js";
import { badge } from "../../shared/badge.js";
import { panel } from "../../shared/panel.js";
import { table } from "../../shared/table.js";
import { seldom } from "../api.js";

const ROWS = 300;
const SPANS = [
  ["5m", "last 5 minutes"],
  ["15m", "last 15 minutes"],
  ["1h", "last hour"],
  ["6h", "last 6 hours"],
  ["1d", "last day"],
];
const KINDS = [
  ["findings", "findings"],
  ["all", "all events"],
];

/** The time is the node's own. */
const when = { key: "timestamp_ns", title: "when", show: (row) => time(row.timestamp_ns) };
const whose = [
  { key: "node_id", title: "node", show: (row) => el("span", { class: "name" }, row.node_id || "–") },
  { key: "job_id", title: "job", show: (row) => el("span", { class: "name" }, row.job_id ?? "–") },
  { key: "rank", title: "rank" },
];
const details = (row, text) =>
  text && el("details", { "data-key": `row ${row.timestamp_ns} ${row.node_id} ${row.rank} ${row.metric_name ?? row.class}` }, el("summary", {}, "all of it"), el("pre", { class: "code" }, text));

const COLUMNS = {
  findings: [
    when,
    { key: "severity", title: "severity", show: (row) => (row.severity ? badge(row.severity) : "–") },
    { key: "class", title: "class", show: (row) => el("code", {}, row.class ?? "–") },
    { key: "title", title: "what" },
    { key: "source", title: "by" },
    ...whose,
    { key: "finding", title: "", show: (row) => details(row, row.finding) ?? "" },
  ],
  all: [
    when,
    { key: "metric_name", title: "what", show: (row) => el("code", {}, row.metric_name) },
    { key: "value", title: "value", number: true, show: (row) => String(row.value_double ?? row.value_int ?? "–") },
    ...whose,
    { key: "kind", title: "kind" },
    { key: "attrs", title: "", show: (row) => details(row, row.attrs) ?? "" },
  ],
};

function form(context, kind) {
  const { params } = context;
  const field = (name, label, size = "14") => {
    const input = el("input", { type: "text", value: params[name] ?? "", "data-key": `field-${name}`, autocomplete: "off", size });
    return el("label", { class: "choice" }, el("span", {}, label), input);
  };
  const fields = { node: field("node", "Node"), rank: field("rank", "Rank", "4"), job: field("job", "Job") };
  if (kind === "all") fields.metric = field("metric", "Metric");
  else fields.class = field("class", "Class");
  const given = () => Object.fromEntries(Object.entries(fields).map(([name, label]) => [name, label.querySelector("input").value.trim()]));
  return el(
    "form",
    {
      class: "row",
      "aria-label": "Which events",
      onsubmit: (event) => {
        event.preventDefault();
        context.set(given());
      },
    },
    choice("Show", kind, KINDS, (value) => context.set({ ...given(), kind: value })),
    choice("Time", params.since ?? "15m", SPANS, (value) => context.set({ ...given(), since: value })),
    Object.values(fields),
    el("button", { class: "main" }, "Show"),
    button("Clear", () => context.set({ node: undefined, rank: undefined, job: undefined, metric: undefined, class: undefined })),
  );
}

export const events = {
  name: "events",
  title: "Events",
  about: "What nodes reported, the newest first, and what they and the fleet found. Times are those of the nodes' clocks.",
  show(context) {
    const { params } = context;
    const kind = COLUMNS[params.kind] ? params.kind : "findings";
    const isFindings = kind === "findings";
    const load = seldom(5, async () => {
      const answer = await context.ask("event_history", {
        cluster_id: context.filters.cluster,
        node_id: params.node,
        rank: /^\d+$/.test(params.rank ?? "") ? Number(params.rank) : undefined,
        job_id: params.job,
        metric_name: isFindings ? undefined : params.metric,
        since: params.since ?? "15m",
        findings: isFindings,
        limit: ROWS,
      });
      const rows = isFindings && params.class ? answer.rows.filter((row) => row.class === params.class) : answer.rows;
      return { rows, truncated: answer.truncated };
    });
    const shown = panel({
      key: "events",
      wide: true,
      load,
      draw: ({ rows, truncated }) =>
        rows.length
          ? [
              el("p", { class: "dim" }, `${count(rows.length)} rows${truncated ? ", and there are more: narrow it down" : ""}`),
              table({ key: "events", label: isFindings ? "Findings" : "Events", rows, columns: COLUMNS[kind] }),
            ]
          : words("empty", "There is nothing of that in this time."),
    });
    return { elements: [el("div", { class: "wide" }, form(context, kind)), shown.section], refresh: () => shown.refresh(context) };
  },
};
