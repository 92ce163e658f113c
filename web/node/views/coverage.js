// What the trace does not cover, and what it was made with.

import { el, time, words } from "../../shared/dom.js";
import { count, duration, ms, percent, process, since } from "../../shared/format.js";
import { panel, panels } from "../../shared/panel.js";
import { table } from "../../shared/table.js";

const covered = (context) =>
  panel({
    key: "covered",
    wide: true,
    load: () => context.ask("coverage", { since: context.filters.since }),
    draw: ({ coverage }) => {
      const figures = [
        [
          coverage.lost,
          "records lost",
          coverage.lost ? "bad" : "fine",
          "dropped because a buffer was full; sums of all calls do not depend on them",
        ],
        [
          coverage.sampled,
          "calls counted, not kept in full",
          "plain",
          "they are in all sums and percentiles, but have no row and no stack of their own",
        ],
        [
          coverage.degraded.length,
          "degraded",
          coverage.degraded.length ? "so-so" : "fine",
          "seen, but less of it, or dearer",
        ],
        [coverage.unattached.length, "not attached", coverage.unattached.length ? "bad" : "fine", "not seen at all"],
      ];
      return [
        el(
          "ul",
          { class: "figures" },
          figures.map(([value, name, kind, about]) =>
            el("li", { class: kind }, el("b", {}, count(value)), el("span", {}, name), el("small", {}, about)),
          ),
        ),
        sentences("Degraded", coverage.degraded),
        sentences("Not attached", coverage.unattached),
        sentences("Notes", coverage.notes ?? []),
      ];
    },
  });

const sentences = (title, list) =>
  list.length > 0 && [
    el("h3", {}, title),
    el(
      "ul",
      { class: "sentences" },
      list.slice(0, 200).map((sentence) => el("li", {}, sentence)),
    ),
  ];

const losses = (context) =>
  panel({
    key: "losses",
    title: "Losses by probe",
    load: () =>
      context.ask("sql", {
        statement:
          "SELECT probe, reason, sum(count) AS count, min(start_ns) AS first_ns, max(end_ns) AS last_ns FROM loss GROUP BY 1, 2 ORDER BY 3 DESC",
      }),
    draw: ({ rows }) =>
      rows.length
        ? table({
            key: "loss",
            label: "Losses",
            rows,
            columns: [
              { key: "probe", title: "probe" },
              { key: "reason", title: "why" },
              { key: "count", title: "records", number: true, show: (row) => count(row.count) },
              { key: "first_ns", title: "from", show: (row) => time(row.first_ns) },
              { key: "last_ns", title: "until", show: (row) => time(row.last_ns) },
            ],
          })
        : words("good", "Nothing was lost."),
  });

const cost = (context) =>
  panel({
    key: "cost",
    title: "What watching cost",
    quiet: true,
    load: () => context.ask("watch_cost", { limit: 50 }),
    draw: ({ rows }) =>
      table({
        key: "cost",
        label: "Cost of watching",
        rows,
        columns: [
          { key: "process", title: "process", show: (row) => process(row.process, row.pid) },
          { key: "calls", title: "calls", number: true, show: (row) => count(row.calls) },
          { key: "cost_ms", title: "cost", number: true, show: (row) => ms(row.cost_ms) },
          { key: "mean_pct", title: "mean", number: true, show: (row) => percent(row.mean_pct) },
          { key: "worst_pct", title: "worst", number: true, show: (row) => percent(row.worst_pct) },
        ],
      }),
  });

const probes = (context) =>
  panel({
    key: "probes",
    wide: true,
    title: "Probes",
    load: () =>
      context.ask("sql", {
        statement:
          "SELECT probe, state, count(*) AS targets, sum(hits) AS hits, sum(cost_ns) AS cost_ns, group_concat(DISTINCT flavour) AS flavours, max(reason) AS reason FROM probes GROUP BY 1, 2 ORDER BY state = 'attached', 1",
      }),
    draw: ({ rows }) =>
      rows.length
        ? table({
            key: "probes",
            label: "Probes",
            rows,
            columns: filled(rows, [
              { key: "probe", title: "probe" },
              { key: "state", title: "state" },
              { key: "targets", title: "targets", number: true },
              { key: "flavours", title: "attached as" },
              { key: "hits", title: "fired", number: true, show: (row) => count(row.hits) },
              {
                key: "cost_ns",
                title: "cost",
                number: true,
                show: (row) => duration(row.cost_ns === null ? null : Number(row.cost_ns)),
              },
              { key: "reason", title: "why" },
            ]),
          })
        : words("empty", "The trace does not say which probes it was made with."),
  });

/** The columns that say something. */
const filled = (rows, columns) => columns.filter(({ key }) => rows.some((row) => row[key] !== null && row[key] !== ""));

const sessions = (context) =>
  panel({
    key: "sessions",
    wide: true,
    title: "How it was traced",
    load: () => context.trace.known(),
    draw: (about) => [
      about.deleted_before_ns &&
        el("p", {}, "What was before ", time(about.deleted_before_ns, true), " was deleted to keep the file small."),
      about.sessions.map((one) =>
        el(
          "dl",
          { class: "pairs" },
          [
            ["host", one.host],
            ["from", time(one.start_ns, true)],
            ["for", one.end_ns === null ? "still being traced" : duration(since(one.end_ns, one.start_ns))],
            ["kernel", one.kernel],
            ["GPUs", (one.gpus ?? []).join(", ")],
            ["driver", one.driver],
            ["gpuwhy", one.version],
            ["flags", (one.flags ?? []).join(" ")],
          ]
            .filter(([, value]) => value)
            .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
        ),
      ),
    ],
  });

export const coverage = {
  name: "coverage",
  title: "Coverage",
  about: "What the trace does not cover: lost, sampled, degraded, not attached; and what watching cost.",
  show: panels((context) => [covered(context), losses(context), cost(context), probes(context), sessions(context)]),
};
