// How bad it is: a word, a colour and a mark.

import { el } from "./dom.js";

const MARKS = { critical: "■", high: "▲", medium: "◆", low: "●", built: "○" };

/** What follows from how a program is built is neither good nor bad: it has a neutral colour. */
export const gradeOf = ({ severity, by_design: built }) => (built ? "built" : severity);

/** The severity in a word, or that the program is built so. */
export const wordOf = ({ severity, by_design: built }) => (built ? `as built: ${built}` : severity);

/** `word` is said instead of the grade. */
export const badge = (grade, word = grade) =>
  el("span", { class: `badge ${grade}` }, el("span", { "aria-hidden": "true" }, `${MARKS[grade] ?? ""} `), word);
