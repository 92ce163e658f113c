// The SQL console: one SELECT at a time, the tables explained beside it, the answer as a table and as CSV.

import { button, el, words } from "../dom.js";
import { count, duration } from "../format.js";
import { csv } from "../csv.js";
import { panel } from "../panel.js";
import { table } from "../table.js";

const FIRST = "SELECT op, count, p50_us, p99_us, max_us FROM op_summary";
const EXAMPLES = [
  ["Percentiles by operation", FIRST],
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

function result(place, answer, took) {
  const columns = Object.keys(answer.rows[0] ?? {});
  if (!columns.length) return place.replaceChildren(words("empty", `No rows. (${duration(took)})`));
  const told = el("span", { role: "status", class: "dim" });
  const text = () => csv(columns, answer.rows);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      told.textContent = "Copied.";
    } catch {
      told.textContent = "The browser does not allow copying here; save the file instead.";
    }
  };
  const save = () => {
    const link = el("a", { href: URL.createObjectURL(new Blob([text()], { type: "text/csv" })), download: "gpuwhy.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const isNumber = (column) =>
    answer.rows
      .slice(0, 50)
      .every((row) => row[column] === null || typeof row[column] === "number" || /^-?\d{17,}$/.test(row[column]));
  const cell = (value) =>
    value === null ? el("span", { class: "dim" }, "NULL") : typeof value === "number" ? String(value) : value;
  place.replaceChildren(
    el(
      "div",
      { class: "row" },
      el("b", {}, `${count(answer.rows.length)} rows${answer.truncated ? ", and there are more" : ""}`),
      el("span", { class: "dim" }, `in ${duration(took)}`),
      button("Copy as CSV", copy),
      button("Save as CSV", save),
      told,
    ),
    ...table({
      key: "result",
      label: "Result",
      rows: answer.rows,
      columns: columns.map((column) => ({
        key: column,
        title: column,
        number: isNumber(column),
        show: (row) => cell(row[column]),
      })),
    }).filter(Boolean),
  );
}

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
    const field = el("textarea", {
      rows: "5",
      spellcheck: "false",
      autocomplete: "off",
      "aria-label": "SQL statement",
      "data-key": "statement",
    });
    field.value = context.params.sql ?? FIRST;
    const place = el("div", { "aria-live": "polite" });
    const run = async () => {
      const statement = field.value.trim();
      if (!statement) return place.replaceChildren(words("empty", "Write a SELECT first."));
      context.note({ sql: statement });
      place.replaceChildren(words("loading", "Asking…"));
      const began = performance.now();
      try {
        result(place, await context.ask("sql", { statement, limit: 10000 }), (performance.now() - began) * 1e6);
      } catch (error) {
        if (error.name !== "AbortError") place.replaceChildren(words("error", error.message));
      }
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run();
      }
    });
    const insert = (statement) => {
      field.value = statement;
      field.focus();
      run();
    };
    const schema = help(context, insert);
    const console = el(
      "section",
      { class: "panel wide", "aria-label": "Console" },
      field,
      el(
        "div",
        { class: "row" },
        button("Run", run, { class: "main", "data-key": "run" }),
        el("span", { class: "dim" }, "Ctrl Enter"),
        EXAMPLES.map(([name, statement]) => button(name, () => insert(statement), { class: "link" })),
      ),
      place,
    );
    return {
      elements: [console, schema.section],
      refresh: () => schema.refresh(context),
      arrived: () => {
        if (context.params.sql) run();
      },
    };
  },
};
