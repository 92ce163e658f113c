// Device memory: over time by call site and by process, who holds it, and who got none.

import { framesOf, siteOf } from "../api.js";
import { chart } from "../chart.js";
import { el, time, words } from "../../shared/dom.js";
import { bytes, count, process } from "../../shared/format.js";
import { panel, panels } from "../../shared/panel.js";
import { table } from "../../shared/table.js";

const over = (key, of, title, label, about) => (context) =>
  panel({
    key,
    wide: true,
    title,
    about,
    load: () => context.ask("series", { of, ...context.filters, points: 400 }),
    draw: ({ series, start_ns: startNs, end_ns: endNs }) => [
      chart({ label, curves: series.slice(0, 8), unit: "bytes", startNs, endNs, steps: true }),
      series.length > 8 && el("p", { class: "dim" }, `The first 8 of ${series.length} curves.`),
    ],
  });

const sites = over(
  "sites",
  "sites",
  "Live memory by call site",
  "Bytes allocated there and not yet freed",
  "The eight lines of code that held most. A curve that only rises is a leak.",
);
const byProcess = over("by-process", "memory", "Live memory by process", "Live bytes", null);

const holders = (context) =>
  panel({
    key: "holders",
    wide: true,
    title: "Who holds memory now",
    load: async () => {
      const answer = await context.ask("memory", { ...context.filters, limit: 50 });
      const frames = await framesOf(
        [...answer.holders, ...answer.failures].map((row) => row.stack_id),
        context.signal,
      );
      const named = (rows) => rows.map((row) => ({ ...row, site: siteOf(frames.get(String(row.stack_id))) }));
      return { usage: answer.usage, holders: named(answer.holders), failures: named(answer.failures) };
    },
    draw: ({ usage, holders, failures }) => [
      failures.length > 0 && [
        el(
          "h3",
          { class: "bad" },
          failures.length === 1 ? "An allocation failed" : `${count(failures.length)} allocations failed`,
        ),
        table({
          key: "failures",
          label: "Failed allocations",
          rows: failures,
          columns: [
            { key: "timestamp_ns", title: "when", show: (row) => time(row.timestamp_ns) },
            { key: "process", title: "process", show: (row) => process(row.process, row.pid) },
            { key: "op", title: "operation" },
            { key: "bytes", title: "wanted", number: true, show: (row) => bytes(row.bytes) },
            { key: "live_bytes", title: "live then", number: true, show: (row) => bytes(row.live_bytes) },
            { key: "site", title: "call site", show: (row) => el("span", { class: "code" }, row.site ?? "not known") },
          ],
        }),
      ],
      holders.length
        ? table({
            key: "holders",
            label: "Holders of memory",
            rows: holders,
            columns: [
              { key: "site", title: "call site", show: (row) => el("span", { class: "code" }, row.site ?? "not known") },
              { key: "process", title: "process", show: (row) => process(row.process, row.pid) },
              { key: "kind", title: "kind" },
              { key: "gpu", title: "GPU", number: true },
              { key: "bytes", title: "live", number: true, show: (row) => bytes(row.bytes) },
              { key: "count", title: "pieces", number: true, show: (row) => count(row.count) },
              { key: "oldest_ns", title: "oldest", show: (row) => time(row.oldest_ns) },
            ],
          })
        : words("good", "Nothing is held at the end of what is shown: all memory was freed."),
      usage.length > 0 && [
        el("h3", {}, "By process"),
        table({
          key: "usage",
          label: "Memory by process",
          rows: usage,
          columns: [
            { key: "process", title: "process", show: (row) => process(row.process, row.pid) },
            { key: "gpu", title: "GPU", number: true },
            { key: "kind", title: "kind" },
            { key: "live_bytes", title: "live", number: true, show: (row) => bytes(row.live_bytes) },
            { key: "peak_bytes", title: "at most", number: true, show: (row) => bytes(row.peak_bytes) },
            { key: "live_count", title: "pieces", number: true, show: (row) => count(row.live_count) },
            { key: "allocated_bytes", title: "allocated in all", number: true, show: (row) => bytes(row.allocated_bytes) },
            { key: "failures", title: "failures", number: true, show: (row) => count(row.failures) },
          ],
        }),
      ],
    ],
  });

export const memory = {
  name: "memory",
  title: "Memory",
  about: "Device memory: which lines of code hold it over time, who has most, which allocations failed.",
  show: panels((context) => [sites(context), holders(context), byProcess(context)]),
};
