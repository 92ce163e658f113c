// The SQL console, for tokens that may see all clusters, and the tables beside it.

import { sqlConsole } from "../../shared/console.js";
import { button, el } from "../../shared/dom.js";
import { panel } from "../../shared/panel.js";
import { seldom } from "../api.js";

const EXAMPLES = [
  [
    "Ranks by what is their own",
    "SELECT cluster_id, job_id, node_id, rank, median(value_double) AS own_seconds, count(*) AS points\nFROM events WHERE metric_name = 'gpuwhy.rank.own_seconds'\nGROUP BY ALL ORDER BY own_seconds DESC LIMIT 50",
  ],
  ["Metrics", "SELECT cluster_id, metric_name, kind, count(*) AS points, count(DISTINCT node_id) AS nodes FROM events GROUP BY ALL ORDER BY points DESC"],
  [
    "Slow collectives",
    "SELECT job_id, seq, any_value(op) AS op, count(DISTINCT rank) AS ranks, (max(timestamp_ns) - min(timestamp_ns)) / 1e6 AS spread_ms, arg_max(rank, timestamp_ns) AS last_rank\nFROM collectives GROUP BY job_id, comm_id_hash, seq HAVING ranks > 1 ORDER BY spread_ms DESC LIMIT 50",
  ],
  ["Findings by class", "SELECT cluster_id, source, class, count(*) AS findings, any_value(title) AS example FROM findings GROUP BY ALL ORDER BY findings DESC"],
];
const TABLES = "SELECT table_name, string_agg(column_name || ' ' || data_type, ', ' ORDER BY ordinal_position) AS columns FROM information_schema.columns WHERE table_schema = 'main' AND table_name <> 'batches' GROUP BY ALL ORDER BY ALL";

export const sql = {
  name: "sql",
  title: "SQL",
  about: "One SELECT in DuckDB's dialect over all clusters. It cannot change anything, and ends after 30 seconds or 10,000 rows.",
  filters: false,
  show(context) {
    const ask = (statement) => context.ask("sql", { sql: statement, limit: 10000 });
    const { section, insert, arrived } = sqlConsole(context, { examples: EXAMPLES, ask });
    const schema = panel({
      key: "schema",
      wide: true,
      title: "Tables and columns",
      load: seldom(600, () => ask(TABLES)),
      draw: ({ rows }) =>
        el(
          "dl",
          { class: "answers tables" },
          rows.map((row) =>
            el(
              "div",
              {},
              el("dt", {}, button(row.table_name, () => insert(`SELECT * FROM ${row.table_name} LIMIT 100`), { class: "link" })),
              el("dd", { class: "code" }, row.columns),
            ),
          ),
        ),
    });
    return { elements: [section, schema.section], refresh: () => schema.refresh(context), arrived };
  },
};
