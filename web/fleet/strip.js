// The ranks of a job as a strip: a cell a rank, coloured by what is said of it, and never by colour alone.

import { el } from "../shared/dom.js";
import { count } from "../shared/format.js";
import { STATES } from "./now.js";

/** So many cells have their number in them. */
const NUMBERED = 128;
const MARKS = { hang: "✕", slow: "▲", unheard: "?", off: "·", waits: "", fine: "" };

export function strip(job) {
  const told = Object.entries(STATES)
    .map(([state, words]) => [job.ranks.filter((one) => one.state === state), words, state])
    .filter(([ranks, , state]) => ranks.length && state !== "fine")
    .map(([ranks, words]) => `${ranks.length > 8 ? count(ranks.length) : `rank ${ranks.map((one) => one.rank ?? one.node).join(", ")}`} ${words}`);
  const label = `${count(job.size)} ranks: ${told.join("; ") || "all keep up"}`;
  const cells = job.ranks.map((one) => {
    const number = one.rank === null ? "–" : String(one.rank);
    const title = `rank ${number} on ${one.node}: ${STATES[one.state]}${one.health === null ? "" : `, health ${one.health.toFixed(2)}`}`;
    const isNumbered = job.ranks.length <= NUMBERED || one.state === "hang" || one.state === "slow";
    return el("span", { class: `cell ${one.state}`, title }, isNumbered && `${MARKS[one.state]}${number}`);
  });
  return el("div", { class: job.ranks.length > NUMBERED ? "strip dense" : "strip", role: "img", "aria-label": label }, cells);
}

/** The states that there are, with their names. */
export const legend = () =>
  el(
    "ul",
    { class: "legend inline" },
    Object.entries(STATES)
      .reverse()
      .map(([state, words]) => el("li", {}, el("span", { class: `cell ${state}`, "aria-hidden": "true" }, MARKS[state]), ` ${words}`)),
  );
