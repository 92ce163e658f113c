// A console for SQL: one SELECT at a time, the answer as a table and as CSV.

import { csv } from "./csv.js";
import { button, el, words } from "./dom.js";
import { count, duration } from "./format.js";
import { table } from "./table.js";

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

/** `examples` are names and statements, the first is shown at first; `ask` runs one. `section` is the console, `insert` runs a statement in it,
 * `arrived` the one of the address. */
export function sqlConsole(context, { examples, ask }) {
  const field = el("textarea", {
    rows: "5",
    spellcheck: "false",
    autocomplete: "off",
    "aria-label": "SQL statement",
    "data-key": "statement",
  });
  field.value = context.params.sql ?? examples[0][1];
  const place = el("div", { "aria-live": "polite" });
  const run = async () => {
    const statement = field.value.trim();
    if (!statement) return place.replaceChildren(words("empty", "Write a SELECT first."));
    context.note({ sql: statement });
    place.replaceChildren(words("loading", "Asking…"));
    const began = performance.now();
    try {
      result(place, await ask(statement), (performance.now() - began) * 1e6);
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
  const section = el(
    "section",
    { class: "panel wide", "aria-label": "Console" },
    field,
    el(
      "div",
      { class: "row" },
      button("Run", run, { class: "main", "data-key": "run" }),
      el("span", { class: "dim" }, "Ctrl Enter"),
      examples.map(([name, statement]) => button(name, () => insert(statement), { class: "link" })),
    ),
    place,
  );
  return {
    section,
    insert,
    arrived: () => {
      if (context.params.sql) run();
    },
  };
}
