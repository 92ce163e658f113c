// Every operation: how often, how long, and where the time went.

import { causeBar, partsBar, swatch } from "../../shared/bar.js";
import { el, words } from "../../shared/dom.js";
import { count, duration, ms, percent, process, us } from "../../shared/format.js";
import { panel } from "../../shared/panel.js";
import { sorting, table } from "../../shared/table.js";

const quantiles = [
  ["p50_us", "p50"],
  ["p95_us", "p95"],
  ["p99_us", "p99"],
  ["p999_us", "p99.9"],
  ["max_us", "max"],
];

const all = (context) =>
  panel({
    key: "operations",
    wide: true,
    load: async () => {
      const [all, blame] = await Promise.allSettled([
        context.ask("operations", context.filters),
        context.ask("blame", { ...context.filters, by: "op,cause", limit: 2000 }),
      ]);
      if (all.status === "rejected") throw all.reason;
      return { rows: all.value.rows, causes: byOperation(blame.value?.rows ?? []) };
    },
    draw: ({ rows, causes }) => {
      const total = (row) => (row.mean_us ?? 0) * row.count * 1000;
      const sum = rows.reduce((so_far, row) => so_far + total(row), 0) || 1;
      const wanted = (context.params.find ?? "").toLowerCase();
      const found = rows.filter((row) => row.op.toLowerCase().includes(wanted));
      const columns = [
        {
          key: "op",
          title: "operation",
          show: (row) =>
            el(
              "a",
              {
                href: context.link("operations", { ...context.params, op: row.op }),
                "aria-current": row.op === context.params.op ? "true" : null,
                "data-key": `op-${row.op}`,
              },
              row.op,
            ),
        },
        { key: "count", title: "calls", number: true, show: (row) => count(row.count) },
        {
          key: "total",
          title: "time in calls",
          number: true,
          of: total,
          show: (row) => `${duration(total(row))} (${percent((100 * total(row)) / sum)})`,
        },
        ...quantiles.map(([key, title]) => ({ key, title, number: true, show: (row) => us(row[key]) })),
        {
          key: "errors",
          title: "errors",
          number: true,
          show: (row) => (row.errors ? el("strong", { class: "bad" }, count(row.errors)) : "0"),
        },
        {
          key: "cause",
          title: "where the time went",
          of: (row) => causes.get(row.op)?.[0]?.class ?? null,
          show: (row) => (causes.has(row.op) ? whereTo(causes.get(row.op)) : partsBar(row)),
        },
      ];
      const field = el("input", {
        type: "search",
        value: context.params.find ?? "",
        placeholder: "find an operation",
        "aria-label": "Find an operation",
        "data-key": "find",
        onchange: () => context.set({ find: field.value }),
      });
      return [
        el("div", { class: "row" }, field),
        found.length
          ? table({ key: "operations", label: "Operations", columns, rows: found, sort: sorting(context, "total") })
          : words("empty", `No operation has “${context.params.find}” in its name.`),
      ];
    },
  });

/** Causes by operation, as shares of what is known of its time. */
function byOperation(rows) {
  const ops = new Map();
  for (const row of rows) if (row.op) ops.set(row.op, [...(ops.get(row.op) ?? []), row]);
  for (const [op, own] of ops) {
    const sum = own.reduce((total, row) => total + row.ms, 0) || 1;
    ops.set(
      op,
      own.map((row) => ({ class: row.cause, share_pct: (100 * row.ms) / sum, ms: row.ms })).sort((a, b) => b.ms - a.ms),
    );
  }
  return ops;
}

const whereTo = (parts) =>
  el(
    "div",
    { class: "in-cell" },
    causeBar(parts, { legend: false }),
    el(
      "small",
      { class: "dim" },
      parts
        .slice(0, 2)
        .filter((part) => part.share_pct >= 1)
        .map((part) => `${percent(part.share_pct)} ${part.class}`)
        .join(", "),
    ),
  );

const one = (context) =>
  panel({
    key: "operation",
    wide: true,
    title: `${context.params.op}: what its time went to`,
    load: async () => {
      const request = { op: context.params.op, ...context.filters };
      const [blame, lines] = await Promise.allSettled([
        context.ask("blame", { ...request, limit: 40 }),
        context.ask("lines", { ...request, limit: 12 }),
      ]);
      if (blame.status === "rejected") throw blame.reason;
      return { blame: blame.value.rows, lines: lines.value?.rows ?? [] };
    },
    draw: ({ blame, lines }) => {
      const causes = new Map();
      for (const row of blame) causes.set(row.cause, (causes.get(row.cause) ?? 0) + row.ms);
      const sum = [...causes.values()].reduce((total, value) => total + value, 0) || 1;
      const parts = [...causes]
        .sort((a, b) => b[1] - a[1])
        .map(([cause, value]) => ({ class: cause, share_pct: (100 * value) / sum, ms: value }));
      return [
        causeBar(parts),
        el(
          "p",
          { class: "links" },
          el("a", { href: context.link("stacks", { op: context.params.op }) }, "Stacks of its calls"),
          el("a", { href: context.link("operations", { ...context.params, op: undefined }) }, "Close"),
        ),
        table({
          key: "blame",
          label: "By cause and culprit",
          rows: blame,
          columns: [
            { key: "cause", title: "cause", show: (row) => [swatch(row.cause), el("code", {}, row.cause)] },
            { key: "by", title: "because of", show: (row) => (row.by_comm ? process(row.by_comm, row.by_pid) : "–") },
            { key: "ms", title: "time", number: true, show: (row) => ms(row.ms) },
            { key: "count", title: "times", number: true, show: (row) => count(row.count) },
          ],
        }),
        lines.length > 0 && [
          el("h3", {}, "Where it is called"),
          table({
            key: "lines",
            label: "Lines",
            rows: lines,
            columns: [
              {
                key: "line",
                title: "line",
                show: (row) =>
                  el(
                    "span",
                    { class: "code" },
                    row.kind === "python"
                      ? `${(row.file ?? "?").split("/").pop()}:${row.line} ${row.function}`
                      : row.function,
                  ),
              },
              { key: "process", title: "process", show: (row) => process(row.process, row.pid) },
              { key: "kept", title: "kept calls", number: true, show: (row) => count(row.kept) },
              { key: "ms", title: "time in them", number: true, show: (row) => ms(row.ms) },
              { key: "max_us", title: "longest", number: true, show: (row) => us(row.max_us) },
            ],
          }),
        ],
      ];
    },
  });

const kernels = (context) =>
  panel({
    key: "kernels",
    wide: true,
    quiet: true,
    title: "Kernels launched",
    load: () => context.ask("kernels", { pid: context.filters.pid, limit: 200 }),
    draw: ({ rows }) =>
      el(
        "details",
        { "data-key": "kernels" },
        el("summary", {}, `${count(rows.length)} kernels, the most launched first`),
        table({
          key: "kernels",
          label: "Kernels",
          rows,
          columns: [
            { key: "kernel", title: "kernel", show: (row) => el("span", { class: "code" }, row.kernel ?? "unknown") },
            { key: "process", title: "process", show: (row) => process(row.process, row.pid) },
            { key: "launches", title: "launches", number: true, show: (row) => count(row.launches) },
            { key: "in_graphs", title: "in graphs", number: true, show: (row) => count(row.in_graphs) },
            { key: "mean_launch_us", title: "mean launch", number: true, show: (row) => us(row.mean_launch_us) },
          ],
        }),
      ),
  });

export const operations = {
  name: "operations",
  title: "Operations",
  about: "Every GPU operation, counted exactly over all calls. Choose one to see who took its time.",
  show(context) {
    const shown = [context.params.op && one(context), all(context), kernels(context)].filter(Boolean);
    return {
      elements: shown.map((part) => part.section),
      refresh: () => Promise.all(shown.map((part) => part.refresh(context))),
    };
  },
};
