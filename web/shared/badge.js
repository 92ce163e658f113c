// How bad it is: a word, a colour and a mark.

import { el } from "./dom.js";

const MARKS = { critical: "■", high: "▲", medium: "◆", low: "●" };

/** `word` is said instead of the severity. */
export const badge = (severity, word = severity) =>
  el("span", { class: `badge ${severity}` }, el("span", { "aria-hidden": "true" }, `${MARKS[severity] ?? ""} `), word);
