// A finding as a card that answers in this order: what is wrong, why, who, where, what it cost, what to do.

import { badge, gradeOf, wordOf } from "../shared/badge.js";
import { causeBar, who } from "../shared/bar.js";
import { advice, el, time } from "../shared/dom.js";
import { count, ms, percent, since, us } from "../shared/format.js";

export function findingCard(finding, context, about, isOpen) {
  const { link } = context;
  const answers = [
    ["Why", causeBar(finding.causes, { about })],
    ["Who", culprits(finding)],
    ["Where", place(finding.where)],
    ["Cost", cost(finding)],
    [
      "Do",
      finding.fixes.length
        ? el(
            "ol",
            { class: "fixes" },
            finding.fixes.map((fix) => el("li", {}, advice(fix))),
          )
        : null,
    ],
  ];
  const window = { from: finding.window.start_ns, to: finding.window.end_ns };
  return el(
    "details",
    { class: `finding ${gradeOf(finding)}`, open: isOpen, "data-key": finding.id },
    el(
      "summary",
      {},
      badge(gradeOf(finding), wordOf(finding)),
      el("h3", {}, finding.title),
      el("span", { class: "price" }, ms(finding.impact.excess_ms)),
    ),
    el(
      "dl",
      { class: "answers" },
      answers
        .filter(([, answer]) => answer)
        .map(([name, answer]) => el("div", {}, el("dt", {}, name), el("dd", {}, answer))),
    ),
    el(
      "p",
      { class: "links" },
      el("a", { href: link("timeline", { pid: finding.pid ?? undefined, ...window, finding: finding.id }) }, "Timeline"),
      el("a", { href: link("stacks", { pid: finding.pid ?? undefined, ...stacksOf(finding), ...window }) }, "Stacks"),
      el("a", { href: link("sql", { sql: finding.sql }) }, "Evidence (SQL)"),
    ),
    evidence(finding),
  );
}

/** Stacks of the operation; of what is lost between calls those of all time. */
const stacksOf = (finding) => (finding.op ? { of: "calls", op: finding.op } : {});

/** Who was behind a tenth of it or more. */
function culprits(finding) {
  const all = finding.causes.flatMap((cause) => cause.by.map((culprit) => ({ ...culprit, class: cause.class })));
  const worst = all
    .filter((culprit) => culprit.ms * 10 >= finding.impact.excess_ms)
    .sort((a, b) => b.ms - a.ms)
    .slice(0, 3);
  const victim = [
    finding.process && `${finding.process}[${finding.pid}]`,
    finding.rank !== null && `rank ${finding.rank}`,
    finding.node,
    finding.cgroup,
  ]
    .filter(Boolean)
    .join(", ");
  const others = worst.some((culprit) => culprit.pid !== finding.pid);
  const of = el("span", { class: "dim" }, others && victim ? ` took it from ${victim}` : "");
  if (!worst.length)
    return victim ? el("p", {}, `${victim} itself`, el("span", { class: "dim" }, "; no other process took its time")) : null;
  return el(
    "p",
    {},
    worst.map((culprit, at) => [
      at ? ", " : "",
      el("strong", {}, who(culprit)),
      culprit.pid !== null && culprit.pid === finding.pid
        ? ` itself${finding.rank === null ? "" : `, rank ${finding.rank}`}`
        : "",
      ` ${ms(culprit.ms)}`,
      culprit.cgroup && el("span", { class: "dim" }, ` in ${culprit.cgroup}`),
    ]),
    of,
  );
}

function place({ python, native, kernel }) {
  const first = python[0] ?? native[0];
  if (!first && !kernel) return null;
  const callers = python.length ? python.slice(1, 4) : [];
  return el(
    "p",
    {},
    first && el("strong", { class: "code" }, first),
    callers.length > 0 && el("span", { class: "dim code" }, ` ← ${callers.join(" ← ")}`),
    kernel && el("span", { class: "dim" }, " kernel ", el("code", {}, kernel)),
  );
}

function cost({ impact, explained_pct: explained, by_design: built }) {
  const slow = impact.calls
    ? `${impact.slow_calls ? `${count(impact.slow_calls)} of ` : ""}${count(impact.calls)} calls${impact.slow_calls ? " slow" : ""}; usually ${us(impact.p50_us)}, p99 ${us(impact.p99_us)}, at worst ${us(impact.max_us)}`
    : null;
  return el(
    "p",
    {},
    el("strong", {}, ms(impact.excess_ms)),
    `${built ? "" : " lost"}, ${percent(impact.wall_pct)} of its time; ${percent(explained)} explained`,
    slow && el("span", { class: "dim" }, `. ${slow}`),
  );
}

function evidence(finding) {
  const seen = finding.causes.flatMap((cause) => cause.evidence.map((sentence) => [cause.class, sentence]));
  return el(
    "details",
    { class: "more", "data-key": `more ${finding.id}` },
    el("summary", {}, "Evidence, and what would refute it"),
    seen.length > 0 &&
      el(
        "ul",
        {},
        seen.slice(0, 20).map(([cause, sentence]) => el("li", {}, el("code", {}, cause), `: ${sentence}`)),
      ),
    el("p", {}, el("b", {}, "Refuted by: "), finding.refuted_by),
    el(
      "p",
      {},
      el("b", {}, "When: "),
      time(finding.window.start_ns),
      " – ",
      time(finding.window.end_ns),
      ` (${ms(since(finding.window.end_ns, finding.window.start_ns) / 1e6)})`,
    ),
    finding.where.native.length > 0 && [
      el("p", {}, el("b", {}, "Native frames, innermost first:")),
      el(
        "ol",
        { class: "frames" },
        finding.where.native.slice(0, 30).map((frame) => el("li", { class: "code" }, frame)),
      ),
    ],
  );
}
