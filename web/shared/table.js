// Tables that sort by a click on their heads. A wide one scrolls in its own frame, never the page.

import { button, el } from "./dom.js";

/** `columns` are `{key, title, of, show, number, hint}`: what to sort by, and what to show. `sort` is `{by, down, change}`. */
export function table({ key, label, columns, rows, sort, most = 500 }) {
  const by = columns.find((column) => column.key === sort?.by);
  const value = (column, row) => (column.of ? column.of(row) : row[column.key]);
  const ordered = by ? [...rows].sort((a, b) => compare(value(by, a), value(by, b)) * (sort.down ? -1 : 1)) : rows;
  const head = el(
    "tr",
    {},
    columns.map((column) => {
      const sorted = column === by ? (sort.down ? "descending" : "ascending") : null;
      const turn = () => sort.change(column.key, column === by ? !sort.down : Boolean(column.number));
      const mark = sorted ? (sort.down ? " ▼" : " ▲") : "";
      return el(
        "th",
        { scope: "col", class: column.number ? "number" : null, "aria-sort": sorted, title: column.hint },
        sort
          ? button([column.title, el("span", { "aria-hidden": "true" }, mark)], turn, {
              class: "sorter",
              "data-key": `sort-${column.key}`,
            })
          : column.title,
      );
    }),
  );
  const body = el(
    "tbody",
    {},
    ordered.slice(0, most).map((row) =>
      el(
        "tr",
        {},
        columns.map((column, at) => {
          const shown = column.show ? column.show(row) : value(column, row);
          return el(
            at === 0 ? "th" : "td",
            { class: column.number ? "number" : null, scope: at === 0 ? "row" : null },
            shown ?? "–",
          );
        }),
      ),
    ),
  );
  const frame = el(
    "div",
    { class: "scrolls", role: "region", "aria-label": label, tabindex: "0", "data-scroll": key },
    el("table", {}, el("caption", { class: "unseen" }, label), el("thead", {}, head), body),
  );
  return [frame, rows.length > most && el("p", { class: "dim" }, `The first ${most} of ${rows.length} rows.`)];
}

function compare(a, b) {
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : -1;
  if (b === null || b === undefined) return 1;
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
}

/** How a view's table is sorted, as its address says. */
export const sorting = (context, by, down = true) => ({
  by: context.params.sort ?? by,
  down: context.params.sort ? context.params.order !== "up" : down,
  change: (key, isDown) => context.set({ sort: key, order: isDown ? undefined : "up" }),
});
