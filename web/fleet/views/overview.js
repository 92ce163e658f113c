// Overview: what is wrong now, the worst first; then every job with its ranks, and what it all costs.

import { advice, el, words } from "../../shared/dom.js";
import { age, count, percent, since } from "../../shared/format.js";
import { panel } from "../../shared/panel.js";
import { seldom } from "../api.js";
import { legend, strip } from "../strip.js";
import { ago, background, capital, card, cause, counterfactualOf, dollars, hangTitle, hours, stack, where, whoIs } from "../telling.js";

/** So many cards are told with what has to be asked for. */
const TOLD = 6;
/** So few are named in the first sentence. */
const NAMED = 3;
/** So many jobs are drawn. */
const JOBS = 60;

const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
const jobLink = (context, cluster, job) => context.link("job", { cluster, job });

const figures = (context, costs) =>
  panel({
    key: "figures",
    wide: true,
    title: "Now",
    load: async (_, sooner) => {
      const { hangs, stragglers, regressions, nodes, jobs } = await context.now();
      const told = {
        hangs: hangs.length,
        slow: stragglers.length,
        named: [
          ...hangs.map((one) => `job ${one.job} hangs${one.culprits[0] ? ` because of rank ${one.culprits[0].rank}` : ""}`),
          ...stragglers.map((one) => `${whoIs(one.rank, one.rank === null ? one.node : null)} drags job ${one.job}`),
        ].slice(0, NAMED + 1),
        regressions: regressions.length,
        silent: nodes.filter((node) => node.state === "silent").map((node) => node.node_id),
        jobs: jobs.length,
        ranks: jobs.reduce((sum, job) => sum + job.size, 0),
        nodes: nodes.length,
      };
      sooner({ ...told, cost: undefined });
      return { ...told, cost: await costs() };
    },
    draw: (told) => {
      if (!told.nodes)
        return words(
          "empty",
          "No node has pushed yet. On a GPU node run `gpuwhy trace --fleet URL` with the token in GPUWHY_FLEET_TOKEN, or let `gpuwhy-fleet load` play some.",
        );
      const figure = (number, name, state, href) =>
        el("li", { class: state }, el("b", {}, number), href ? el("a", { href }, name) : el("span", {}, name));
      const lost = told.cost;
      const price = !lost ? "…" : lost.dollars === null ? hours(lost.gpu_hours) : dollars(lost.dollars);
      const silent = told.silent.length;
      return [
        el("p", { class: "verdict" }, sentence(told)),
        el(
          "ul",
          { class: "figures" },
          figure(count(told.hangs), told.hangs === 1 ? "collective hangs" : "collectives hang", told.hangs ? "bad" : "fine", context.link("hangs")),
          figure(count(told.slow), told.slow === 1 ? "rank drags its job" : "ranks drag their jobs", told.slow ? "bad" : "fine"),
          figure(count(silent), silent === 1 ? "node is silent" : "nodes are silent", silent ? "so-so" : "fine", context.link("nodes")),
          figure(count(told.ranks), `ranks in ${plural(told.jobs, "job")}`, null),
          figure(price, "lost in the last hour", lost?.gpu_hours > 0 ? "so-so" : "fine", context.link("cost")),
        ),
      ];
    },
  });

/** The whole of it, for somebody who has ten seconds. */
function sentence({ hangs, slow, named, regressions, silent, jobs, ranks }) {
  const counted = [
    hangs && `${plural(hangs, "collective")} hang${hangs === 1 ? "s" : ""}`,
    slow && `${plural(slow, "rank")} drag${slow === 1 ? "s its job" : " their jobs"}`,
  ];
  const wrong = [
    ...(named.length > NAMED ? counted : named),
    regressions && `${plural(regressions, "job")} ${regressions === 1 ? "is" : "are"} slower than before`,
    silent.length === 1 && `node ${silent[0]} is silent`,
    silent.length > 1 && `${plural(silent.length, "node")} are silent`,
  ].filter(Boolean);
  if (!wrong.length) return `Nothing is wrong: ${plural(ranks, "rank")} of ${plural(jobs, "job")} keep up with their peers.`;
  return `${capital(wrong.join(", "))}.`;
}

const incidents = (context, more) =>
  panel({
    key: "findings",
    load: async () => {
      const [{ hangs, stragglers, regressions, now }, about] = await Promise.all([context.now(), more.classes()]);
      const worst = [...stragglers].sort((a, b) => b.excess_share - a.excess_share);
      const told = await Promise.all(
        worst.slice(0, TOLD).map(async (one) => ({
          cost: counterfactualOf(await more.cost(one.cluster, one.job), one.rank),
          finding: await more.finding(one.cluster, one.node, one.rank),
        })),
      );
      // The age of each is told in steps, so that a card that says the same is not drawn anew.
      return { hangs, regressions, stragglers: worst.map((one, at) => ({ ...one, ...told[at] })), about, now };
    },
    draw: ({ hangs, stragglers, regressions, about, now }) => [
      hangs.map((hang, at) => hangCard(context, hang, now, at === 0)),
      stragglers.map((one, at) => stragglerCard(context, one, about, now, at < TOLD)),
      regressions.map((one) => regressionCard(context, one, now)),
    ],
  });

function stragglerCard(context, one, about, now, isOpen) {
  return card({
    key: `slow ${one.cluster} ${one.job} ${one.rank}`,
    severity: "high",
    title: `${capital(whoIs(one.rank, one.node))} drags job ${one.job}: ${percent(100 * one.excess_share)} of its time`,
    price: `for ${age(since(now, one.since_ns))}`,
    isOpen,
    answers: [
      ["What", el("p", {}, capital(one.message), ".")],
      ["Since", ago(one.since_ns, now)],
      ["Why", cause(one.cause, about) ?? el("span", { class: "dim" }, `the agents tell no cause; ${one.signal} tells it apart`)],
      ["Where", where(one, one.finding)],
      ["Cost", one.cost && el("p", {}, capital(one.cost.message), ".")],
      [
        "Do",
        one.finding?.fixes?.length > 0 &&
          el(
            "ol",
            { class: "fixes" },
            one.finding.fixes.slice(0, 3).map((fix) => el("li", {}, advice(fix))),
          ),
      ],
    ],
    links: [
      el("a", { href: jobLink(context, one.cluster, one.job) }, "The job and its ranks"),
      el("a", { href: context.link("events", { cluster: one.cluster, node: one.node, rank: one.rank }) }, "What the rank told"),
    ],
  });
}

function hangCard(context, hang, now, isOpen) {
  const [first] = hang.culprits;
  return card({
    key: `hang ${hang.comm} ${hang.seq}`,
    severity: "critical",
    title: hangTitle(hang),
    price: `for ${age(since(now, hang.since_ns))}`,
    isOpen,
    answers: [
      ["What", el("p", {}, capital(hang.message), hang.certain ? "." : "; this is not certain, as not all ranks are watched.")],
      ["Since", ago(hang.since_ns, now)],
      ["Where", first && stack(first.stack, `${hang.comm} ${first.rank}`)],
      ["Others", el("p", {}, `${plural(hang.waiting.length, "rank")} wait${hang.waiting.length === 1 ? "s" : ""} in ${hang.op}`)],
    ],
    links: [
      el("a", { href: context.link("hangs", { cluster: hang.cluster }) }, "Autopsy"),
      el("a", { href: jobLink(context, hang.cluster, hang.job) }, "The job and its ranks"),
    ],
  });
}

const regressionCard = (context, one, now) =>
  card({
    key: `regression ${one.cluster} ${one.job}`,
    severity: "medium",
    title: `Job ${one.job}: ${one.message}`,
    price: `for ${age(since(now, one.since_ns))}`,
    isOpen: false,
    answers: [["Since", ago(one.since_ns, now)]],
    links: [el("a", { href: jobLink(context, one.cluster, one.job) }, "The job and its ranks")],
  });

const jobs = (context) =>
  panel({
    key: "jobs",
    wide: true,
    title: "Jobs",
    about: "A cell a rank. Jobs where something is wrong come first.",
    load: async () => (await context.now()).jobs,
    draw: (all) => {
      if (!all.length) return words("empty", "No rank has told its health in the last minute.");
      const several = new Set(all.map((job) => job.cluster)).size > 1;
      return [
        legend(),
        el(
          "ul",
          { class: "jobs" },
          all.slice(0, JOBS).map((job) =>
            el(
              "li",
              {},
              el(
                "a",
                { href: jobLink(context, job.cluster, job.job), "data-key": `job ${job.cluster} ${job.job}` },
                several ? `${job.cluster} / ${job.job}` : job.job,
              ),
              strip(job),
            ),
          ),
        ),
        all.length > JOBS && el("p", { class: "dim" }, `The first ${JOBS} of ${count(all.length)} jobs; choose a cluster to see others.`),
        all.some((job) => job.size > job.ranks.length) &&
          el("p", { class: "dim" }, "Of large jobs, and of jobs whose ranks do not all report, only some ranks are drawn, the worst of them."),
      ];
    },
  });

const silent = (context) =>
  panel({
    key: "silent",
    wide: true,
    quiet: true,
    title: "Silent nodes",
    load: async () => {
      const { nodes } = await context.now();
      const found = nodes.filter((node) => node.state === "silent");
      if (!found.length) throw Object.assign(new Error("All nodes speak."), { kind: "nothing" });
      return found.map(({ node_id, cluster_id, age_ns }) => ({ node_id, cluster_id, for: age(age_ns) }));
    },
    draw: (nodes) =>
      el(
        "ul",
        { class: "sentences" },
        nodes
          .slice(0, 20)
          .map((node) => el("li", {}, el("strong", {}, node.node_id), ` of ${node.cluster_id} has not been heard of for ${node.for}`)),
        nodes.length > 20 && el("li", {}, el("a", { href: context.link("nodes") }, `and ${nodes.length - 20} more`)),
      ),
  });

export const overview = {
  name: "overview",
  title: "Overview",
  about: "Which rank drags its job, since when, why, and what it costs; what hangs; which nodes are silent.",
  show(context) {
    const more = background(context);
    const costs = seldom(30, () => context.ask("get_cost", { cluster_id: context.filters.cluster }));
    const shown = [figures(context, costs), incidents(context, more), silent(context), jobs(context)];
    return {
      elements: shown.map((one) => one.section),
      refresh: () => Promise.all(shown.map((one) => one.refresh(context))),
    };
  },
};
