// Rows as CSV (RFC 4180). A cell that a spreadsheet would take for a formula gets an apostrophe before it.

const isNumber = (text) => /^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text);

function cell(value) {
  if (value === null || value === undefined) return "";
  let text = typeof value === "object" ? JSON.stringify(value) : String(value);
  if (/^[\s\u0000]*[=+\-@\t\r]/.test(text) && !isNumber(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csv = (columns, rows) =>
  [columns, ...rows.map((row) => columns.map((column) => row[column]))]
    .map((line) => `${line.map(cell).join(",")}\r\n`)
    .join("");
