// What is said of a rank or a job, in words that answer: who, since when, why, where, what it costs.

import { badge } from "../shared/badge.js";
import { swatch } from "../shared/bar.js";
import { el, time } from "../shared/dom.js";
import { age, count, percent, since } from "../shared/format.js";
import { causesInWords, seldom } from "./api.js";

const isPython = (frame) => /\.py:\d+/.test(frame);
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const whoIs = (rank, node) => [rank === null || rank === undefined ? null : `rank ${rank}`, node].filter(Boolean).join(" on ");

/** How long ago, and when that was. */
export const ago = (ns, now) => el("span", {}, `${age(since(now, ns))} ago`, el("span", { class: "dim" }, ", at ", time(ns)));

/** A stack, innermost first, with the innermost line of Python told first. */
export function stack(frames, key) {
  if (!frames?.length) return el("span", { class: "dim" }, "its agent has told no stack");
  const python = frames.find(isPython);
  const list = el(
    "ol",
    { class: "frames" },
    frames.slice(0, 64).map((frame) => el("li", { class: isPython(frame) ? "code python" : "code" }, frame)),
  );
  return [
    el("strong", { class: "code" }, python ?? frames[0]),
    frames.length > 1 &&
      el("details", { "data-key": `stack ${key}` }, el("summary", {}, `All ${frames.length} frames, innermost first`), list),
  ];
}

/** A card: badge, title, how long, and the answers that there are. */
export function card({ key, severity, title, price, answers, links, isOpen }) {
  return el(
    "details",
    { class: `finding ${severity}`, open: isOpen, "data-key": key },
    el("summary", {}, badge(severity), el("h3", {}, title), el("span", { class: "price" }, price)),
    el(
      "dl",
      { class: "answers" },
      answers.filter(([, answer]) => answer).map(([name, answer]) => el("div", {}, el("dt", {}, name), el("dd", {}, answer))),
    ),
    links?.length && el("p", { class: "links" }, links),
  );
}

/** The class of a cause with its meaning. */
export const cause = (reading, about) =>
  reading
    ? el(
        "p",
        {},
        swatch(reading.class),
        el("code", {}, reading.class),
        about.get(reading.class) && `: ${about.get(reading.class)}`,
        el("span", { class: "dim" }, `; ${percent(100 * reading.share)} of its time, its peers ${percent(100 * reading.median)}`),
      )
    : null;

/** Where the rank is more often than its peers, as the fleet has it; else what its node's own finding says of that. */
export function where(verdict, finding) {
  if (verdict.place)
    return el(
      "p",
      {},
      el("strong", { class: "code" }, verdict.place.line),
      el("span", { class: "dim" }, ` ${percent(100 * verdict.place.share)} of its time, its peers ${percent(100 * verdict.place.median)}`),
    );
  const lines = [...(finding?.where?.python ?? []), ...(finding?.where?.native ?? [])];
  if (!lines.length) return null;
  return el(
    "p",
    {},
    el("strong", { class: "code" }, lines[0]),
    lines.length > 1 && el("span", { class: "dim code" }, ` ← ${lines.slice(1, 4).join(" ← ")}`),
  );
}

/** What the pages of an incident need beside the verdicts: the cost by job, and the last findings of a rank; neither is asked for often. */
export function background(context) {
  const kept = new Map();
  const once = (key, seconds, load) => {
    if (!kept.has(key)) kept.set(key, seldom(seconds, load));
    return kept.get(key)().catch((error) => {
      if (error.name === "AbortError") throw error;
      return null;
    });
  };
  return {
    classes: causesInWords,
    cost: (cluster, job) =>
      once(`cost ${cluster} ${job}`, 20, () => context.ask("get_cost", { cluster_id: cluster, job_id: job, since: "15m" })),
    /** The newest finding of the rank's own agent. */
    finding: async (cluster, node, rank) => {
      const answer = await once(`finding ${cluster} ${node} ${rank}`, 10, () =>
        context.ask("event_history", { cluster_id: cluster, node_id: node, rank, findings: true, since: "15m", limit: 20 }),
      );
      const row = answer?.rows.find((one) => one.source !== "fleet" && one.finding);
      try {
        return row ? { ...JSON.parse(row.finding), class: row.class } : null;
      } catch {
        return null;
      }
    },
  };
}

/** What would be saved if this rank came with the others. The answer is of one job. */
export const counterfactualOf = (cost, rank) => cost?.counterfactuals.find((one) => one.rank === rank && one.gpu_hours_a_month > 0);

export const dollars = (value) => (value === null ? "–" : `$${value >= 100 ? count(value) : value.toFixed(2)}`);
export const hours = (value) => `${value >= 100 ? count(value) : Number(value.toPrecision(2))} GPU-h`;

/** How a hang came about, of the rank that is behind it. */
const KINDS = {
  missing: "did not come",
  mismatch: "called something else",
  deadlock: "waits in another communicator",
  inside: "came, as all did, and none is done",
};
export const hangTitle = (hang) => {
  const [first] = hang.culprits;
  const who = first ? `${whoIs(first.rank, first.node)} ${KINDS[hang.kind] ?? ""}` : "all came, and none is done";
  const more = hang.culprits.length > 1 ? ` (and ${hang.culprits.length - 1} more)` : "";
  return `Job ${hang.job} hangs in collective ${hang.seq}: ${who}${more}`;
};
