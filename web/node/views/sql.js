// The SQL console, and the tables explained beside it.

import { sqlConsole } from "../../shared/console.js";
import { button, el } from "../../shared/dom.js";
import { panel } from "../../shared/panel.js";

const EXAMPLES = [
  ["Percentiles by operation", "SELECT op, count, p50_us, p99_us, max_us FROM op_summary"],
  [
    "Who took the time",
    "SELECT op, cause, by_comm, round(sum(ns) / 1e6, 2) AS ms FROM blame GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 20",
  ],
  [
    "The slowest calls",
    "SELECT timestamp_ns, op, pid, tid, round(duration_ns / 1e6, 3) AS ms, kept, stack_id FROM cuda_events ORDER BY duration_ns DESC LIMIT 20",
  ],
  [
    "Lines of Python",
    "SELECT f.file, f.line, f.function, count(*) AS calls, round(sum(c.duration_ns) / 1e6, 2) AS ms FROM cuda_events c JOIN frames f USING (stack_id) WHERE f.kind = 'python' AND f.depth = (SELECT min(depth) FROM frames g WHERE g.stack_id = f.stack_id AND g.kind = 'python') GROUP BY 1, 2, 3 ORDER BY 5 DESC LIMIT 20",
  ],
  [
    "Late ranks",
    "SELECT rank, count(*) AS n, round(avg(late) / 1e6, 2) AS mean_late_ms FROM (SELECT rank, timestamp_ns - min(timestamp_ns) OVER (PARTITION BY comm_id_hash, seq) AS late FROM nccl_events WHERE seq IS NOT NULL) GROUP BY rank ORDER BY 3 DESC",
  ],
];

const help = (context, insert) =>
  panel({
    key: "schema",
    wide: true,
    title: "Tables and columns",
    load: () =>
      context.ask("sql", { statement: "SELECT table_name, column_name, unit, about FROM schema_doc", limit: 5000 }),
    draw: ({ rows }) => {
      const tables = Map.groupBy
        ? Map.groupBy(rows, (row) => row.table_name)
        : rows.reduce((all, row) => all.set(row.table_name, [...(all.get(row.table_name) ?? []), row]), new Map());
      const list = el("div", { class: "schema" });
      const show = (wanted) =>
        list.replaceChildren(
          ...[...tables]
            .filter(([name, columns]) =>
              [name, ...columns.map((one) => `${one.column_name} ${one.about}`)].join(" ").toLowerCase().includes(wanted),
            )
            .map(([name, columns]) => {
              const own = columns.find((one) => !one.column_name);
              return el(
                "details",
                { "data-key": `table-${name}` },
                el("summary", {}, el("code", {}, name), own && el("span", { class: "dim" }, ` ${own.about}`)),
                button(`Select from ${name}`, () => insert(`SELECT * FROM ${name} LIMIT 100`), { class: "link" }),
                el(
                  "dl",
                  { class: "pairs" },
                  columns
                    .filter((one) => one.column_name)
                    .map((one) =>
                      el(
                        "div",
                        {},
                        el("dt", {}, el("code", {}, one.column_name)),
                        el("dd", {}, one.about, one.unit && el("span", { class: "dim" }, ` (${one.unit})`)),
                      ),
                    ),
                ),
              );
            }),
        );
      const field = el("input", {
        type: "search",
        placeholder: "find a table or column",
        "aria-label": "Find a table or column",
        "data-key": "find-table",
        oninput: () => show(field.value.toLowerCase()),
      });
      show("");
      return [el("div", { class: "row" }, field), list];
    },
  });

export const sql = {
  name: "sql",
  title: "SQL",
  about: "One SELECT over the trace. It cannot change anything, and ends after 30 seconds or 10,000 rows.",
  filters: false,
  show(context) {
    const ask = (statement) => context.ask("sql", { statement, limit: 10000 });
    const { section, insert, arrived } = sqlConsole(context, { examples: EXAMPLES, ask });
    const schema = help(context, insert);
    return { elements: [section, schema.section], refresh: () => schema.refresh(context), arrived };
  },
};
