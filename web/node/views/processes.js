// The traced processes, and whose they are: containers, pods, jobs, users.

import { el, styled, time } from "../../shared/dom.js";
import { count, duration, ms, percent, process, since } from "../../shared/format.js";
import { panel, panels } from "../../shared/panel.js";
import { sorting, table } from "../../shared/table.js";

const FACTS = [
  ["cmdline", "command line"],
  ["exe", "program"],
  ["cgroup", "cgroup"],
  ["container", "container"],
  ["container_id", "container id"],
  ["image", "image"],
  ["runtime", "runtime"],
  ["namespace", "namespace"],
  ["pod", "pod"],
  ["qos", "QoS class"],
  ["job_system", "batch system"],
  ["job_id", "job"],
  ["job_name", "job's name"],
  ["job_user", "job's user"],
  ["job_queue", "queue"],
  ["unit", "unit"],
  ["uid", "user id"],
  ["cpus_allowed", "CPUs allowed"],
  ["mems_allowed", "memory nodes allowed"],
  ["rank_source", "rank known from"],
  ["world_size", "world size"],
  ["local_rank", "local rank"],
  ["exit_code", "exit status"],
];

const byPid = (rows) => new Map((rows ?? []).map((row) => [row.pid, row]));

/** Of all streams of a process: it was busy at least as long as the busiest, and at most as long as all of them one after the other. */
function ofStreams(rows) {
  const all = new Map();
  for (const { pid, busy_lower_pct: lower, busy_upper_pct: upper } of rows) {
    const sum = all.get(pid) ?? { lower: 0, upper: 0, streams: 0 };
    all.set(pid, {
      lower: Math.min(100, Math.max(sum.lower, lower ?? 0)),
      upper: Math.min(100, sum.upper + (upper ?? 0)),
      streams: sum.streams + 1,
    });
  }
  return all;
}

const list = (context) =>
  panel({
    key: "processes",
    wide: true,
    load: async () => {
      const [all, busy, cost] = await Promise.allSettled([
        context.ask("processes", { pid: context.filters.pid, limit: 1000 }),
        context.ask("gpu_time", context.filters),
        context.ask("watch_cost", context.filters),
      ]);
      if (all.status === "rejected") throw all.reason;
      return { rows: all.value.rows, busy: busy.value?.rows ?? [], cost: cost.value?.rows ?? [] };
    },
    draw: ({ rows, busy, cost }) => {
      const [streams, watched] = [ofStreams(busy), byPid(cost)];
      return [
        table({
          key: "processes",
          label: "Processes",
          rows,
          sort: sorting(context, "start_ns", false),
          columns: [
            {
              key: "comm",
              title: "process",
              show: (row) =>
                el(
                  "a",
                  { href: context.link("overview", { pid: row.pid }), title: "its findings" },
                  process(row.comm, row.pid),
                ),
            },
            {
              key: "rank",
              title: "rank",
              number: true,
              show: (row) => (row.rank === null ? "–" : `${row.rank}${row.world_size ? ` of ${row.world_size}` : ""}`),
            },
            { key: "tenant", title: "whose" },
            { key: "container", title: "container", show: (row) => row.container ?? row.container_id?.slice(0, 12) ?? "–" },
            { key: "start_ns", title: "started", show: (row) => time(row.start_ns) },
            {
              key: "end_ns",
              title: "ran for",
              number: true,
              of: (row) => (row.end_ns === null ? null : since(row.end_ns, row.start_ns)),
              show: (row) => (row.end_ns === null ? "still runs" : duration(since(row.end_ns, row.start_ns))),
            },
            {
              key: "busy",
              title: "GPU busy",
              number: true,
              hint: "between two proven bounds, of all its streams together",
              of: (row) => streams.get(row.pid)?.upper ?? null,
              show: (row) => (streams.has(row.pid) ? bounds(streams.get(row.pid)) : "–"),
            },
            {
              key: "watched",
              title: "cost of watching",
              number: true,
              of: (row) => watched.get(row.pid)?.mean_pct ?? null,
              show: (row) =>
                watched.has(row.pid)
                  ? `${percent(watched.get(row.pid).mean_pct)} (${ms(watched.get(row.pid).cost_ms)})`
                  : "–",
            },
          ],
        }),
        rows.slice(0, 50).map((row) => facts(row, rows.length === 1)),
      ];
    },
  });

/** Proven busy is solid, what is between the bounds hatched. */
function bounds({ lower, upper, streams }) {
  const part = (name, share) => styled(el("span", { class: `segment ${name}` }), { "flex-grow": String(Math.max(0, share)) });
  const label = `${percent(lower)} – ${percent(upper)}`;
  return [
    el(
      "div",
      { class: "bar small", "aria-hidden": "true" },
      part("busy", lower),
      part("maybe", upper - lower),
      part("idle", 100 - upper),
    ),
    label,
    el("div", { class: "dim" }, `${streams} ${streams === 1 ? "stream" : "streams"}`),
  ];
}

const facts = (row, isOpen) =>
  el(
    "details",
    { class: "facts", open: isOpen, "data-key": `facts-${row.pid}-${row.start_ns}` },
    el(
      "summary",
      {},
      process(row.comm, row.pid),
      el("span", { class: "dim code" }, ` ${(row.cmdline ?? "").slice(0, 160)}`),
    ),
    el(
      "dl",
      { class: "pairs" },
      FACTS.filter(([key]) => row[key] !== null && row[key] !== undefined && row[key] !== "").map(([key, title]) =>
        el("div", {}, el("dt", {}, title), el("dd", { class: "code" }, row[key])),
      ),
    ),
  );

const neighbours = (context) =>
  panel({
    key: "neighbours",
    wide: true,
    quiet: true,
    title: "Neighbours who took the CPU",
    about: "Who ran on a CPU while a traced thread waited for it.",
    load: () => context.ask("noise", { ...context.filters, limit: 30 }),
    draw: ({ rows }) =>
      table({
        key: "noise",
        label: "Neighbours",
        rows,
        columns: [
          { key: "by", title: "neighbour", show: (row) => process(row.by_comm, row.by_pid) },
          { key: "tenant", title: "whose", show: (row) => row.tenant ?? row.cgroup ?? "–" },
          { key: "process", title: "took it from", show: (row) => process(row.process, row.pid) },
          { key: "ms", title: "time", number: true, show: (row) => ms(row.ms) },
          { key: "waits", title: "waits", number: true, show: (row) => count(row.waits) },
        ],
      }),
  });

export const processes = {
  name: "processes",
  title: "Processes",
  about: "The traced processes: rank, container, pod, job. A process leads to its findings.",
  show: panels((context) => [list(context), neighbours(context)]),
};
