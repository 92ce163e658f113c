// Hangs: collectives that do not end. Which rank is missing, where it is, and what the others wait in.

import { el, words } from "../../shared/dom.js";
import { age, count, duration, since } from "../../shared/format.js";
import { panels, panel } from "../../shared/panel.js";
import { table } from "../../shared/table.js";
import { ago, capital, card, hangTitle, stack, whoIs } from "../telling.js";

function culprit(one, hang) {
  const facts = [
    one.last_seq !== null && `came to collective ${one.last_seq} last`,
    one.last_call && `last call ${one.last_call}`,
    one.expected_call && `the others called ${one.expected_call}`,
    one.silent_ns !== null && `heard of ${duration(Number(one.silent_ns))} ago`,
  ].filter(Boolean);
  return el(
    "div",
    { class: "facts" },
    el("p", {}, el("strong", {}, capital(whoIs(one.rank, one.node ?? "a node that no agent watches")))),
    facts.length > 0 && el("p", { class: "dim" }, facts.join(" · ")),
    el("div", {}, stack(one.stack, `${hang.comm} ${hang.seq} ${one.rank}`)),
  );
}

const waiting = (hang) =>
  el(
    "details",
    { "data-key": `waiting ${hang.comm} ${hang.seq}` },
    el("summary", {}, `${count(hang.waiting.length)} ranks wait in collective ${hang.seq}`),
    table({
      key: `waiting ${hang.comm}`,
      label: "Ranks that wait",
      rows: hang.waiting,
      columns: [
        { key: "rank", title: "rank", show: (row) => `rank ${row.rank}` },
        { key: "node", title: "node" },
        { key: "call", title: "in", show: (row) => el("code", {}, row.call) },
        { key: "waits_ns", title: "for", number: true, show: (row) => duration(Number(row.waits_ns)) },
        { key: "stack", title: "where", show: (row) => el("span", { class: "code" }, row.stack.find((one) => /\.py:\d+/.test(one)) ?? row.stack[0] ?? "–") },
      ],
    }),
  );

const findings = (hang) =>
  hang.last_findings.length > 0 &&
  el(
    "ul",
    { class: "sentences" },
    hang.last_findings.slice(0, 8).map((one) => el("li", {}, one.class && el("code", {}, one.class), ` ${one.title}`)),
  );

const autopsies = (context) =>
  panel({
    key: "findings",
    load: async () => {
      const { hangs, now } = await context.now();
      return { hangs, now };
    },
    draw: ({ hangs, now }) =>
      hangs.length
        ? hangs.map((hang) =>
            card({
              key: `hang ${hang.comm} ${hang.seq}`,
              severity: "critical",
              title: hangTitle(hang),
              price: `for ${age(since(now, hang.since_ns))}`,
              isOpen: true,
              answers: [
                ["What", el("p", {}, `${capital(hang.message)}${hang.certain ? "" : "; this is not certain, as not all ranks are watched"}.`)],
                ["Since", ago(hang.since_ns, now)],
                ["Who", hang.culprits.map((one) => culprit(one, hang))],
                ["Others", hang.waiting.length > 0 && waiting(hang)],
                ["Unseen", hang.unobserved.length > 0 && el("p", {}, `no agent watches rank ${hang.unobserved.slice(0, 20).join(", ")}`)],
                ["Before", findings(hang)],
              ],
              links: [
                el("a", { href: context.link("job", { cluster: hang.cluster, job: hang.job }) }, "The job and its ranks"),
                hang.culprits[0] &&
                  el(
                    "a",
                    { href: context.link("events", { cluster: hang.cluster, node: hang.culprits[0].node, rank: hang.culprits[0].rank }) },
                    "What the rank told",
                  ),
              ],
            }),
          )
        : words("good", "No collective hangs now. Past hangs are findings of class rank.hang.", el("a", { href: context.link("events", { kind: "findings", class: "rank.hang" }) }, "Past findings")),
  });

export const hangs = {
  name: "hangs",
  title: "Hangs",
  about: "Collectives that do not end: which rank is missing or called something else, its stack, and who waits.",
  show: panels((context) => [autopsies(context)]),
};
