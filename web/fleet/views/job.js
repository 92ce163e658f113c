// Job: every rank of one job beside its peers, when each came to the last collectives, who waited for whom, and the nodes' clocks.

import { choice, el, say, styled, words } from "../../shared/dom.js";
import { count, duration, percent } from "../../shared/format.js";
import { heat, matrix } from "../../shared/matrix.js";
import { panel } from "../../shared/panel.js";
import { sorting, table } from "../../shared/table.js";
import { ask, seldom } from "../api.js";
import { NO_JOB, STATES } from "../now.js";
import { legend, strip } from "../strip.js";
import { background, capital, counterfactualOf } from "../telling.js";

const nothing = (text) => Object.assign(new Error(text), { kind: "nothing" });
const seconds = (value) => (value === null || value === undefined ? "–" : duration(value * 1e9));

/** The job of the address, else the worst one. */
async function chosen(context) {
  const { jobs } = await context.now();
  const { cluster, job } = context.params;
  const found = job ? jobs.find((one) => one.job === job && (!cluster || one.cluster === cluster)) : jobs[0];
  return { jobs, job: found, named: job };
}

/** What is asked of one job. Ranks that name none are asked for without one. */
const of = (job, more) => ({ cluster_id: job.cluster, job_id: job.job === NO_JOB ? undefined : job.job, ...more });

const summary = (context, more) =>
  panel({
    key: "job",
    wide: true,
    load: async () => {
      const { jobs, job, named } = await chosen(context);
      const cost = job?.verdicts.length ? await more.cost(job.cluster, job.job) : null;
      return { names: jobs.map((one) => [one.cluster, one.job]), job, named, cost };
    },
    draw: ({ names, job, named, cost }) => {
      const choose = choice(
        "Job",
        JSON.stringify(job ? [job.cluster, job.job] : []),
        [
          ...(job ? [] : [["[]", named ? `${named} (not heard of)` : "none"]]),
          ...names.map(([cluster, name]) => [JSON.stringify([cluster, name]), `${name} of ${cluster}`.slice(0, 80)]),
        ],
        (value) => {
          const [cluster, name] = JSON.parse(value);
          context.set({ cluster, job: name, comm: undefined });
        },
      );
      choose.querySelector("select").dataset.key = "choose-job";
      if (!job) return [el("div", { class: "row" }, choose), words("empty", "No rank of this job has told its health in the last minute.")];
      const said = [
        ...job.hangs.map((one) => ["bad", `It hangs: ${one.message}.`]),
        ...job.verdicts.map((one) => ["bad", `${capital(one.message)}.`]),
        ...job.verdicts.map((one) => [null, counterfactualOf(cost, one.rank)?.message]).filter(([, text]) => text).map(([kind, text]) => [kind, `${capital(text)}.`]),
      ];
      if (!said.length) said.push(["good", `All ${count(job.ranks.length)} ranks that report keep up with their peers.`]);
      return [
        el("div", { class: "row" }, choose, el("span", { class: "dim" }, `cluster ${job.cluster}, ${count(job.size)} ranks`)),
        said.map(([kind, text]) => el("p", { class: kind ? `verdict ${kind}` : "verdict" }, text)),
        strip(job),
        legend(),
      ];
    },
  });

const ranks = (context, calls) =>
  panel({
    key: "ranks",
    wide: true,
    title: "Ranks",
    about: "Medians of the last minute. Own time is what a rank spends of a step outside collectives and waits for the GPU: the rank with the most of it is the one the others wait for.",
    load: async () => {
      const { job } = await chosen(context);
      if (!job) throw nothing("There is no such job now.");
      const metric = (name) => context.ask("find_outlier_nodes", of(job, { metric_name: `gpuwhy.rank.${name}`, members: 4096 }));
      const [own, step, idle, { communicators }] = await Promise.all([metric("own_seconds"), metric("step_seconds"), metric("idle_ratio"), calls(job)]);
      const value = (answer, rank) =>
        answer.cohorts.find((one) => one.cluster_id === job.cluster && (one.job_id ?? NO_JOB) === job.job)?.values?.find((one) => one.rank === rank)?.value ?? null;
      const world = [...communicators].sort((a, b) => b.nranks - a.nranks || b.joined - a.joined)[0];
      return job.ranks.map((one) => {
        const late = world?.ranks.find((other) => other.rank === one.rank);
        return {
          ...one,
          own: value(own, one.rank),
          step: value(step, one.rank),
          idle: value(idle, one.rank),
          late: late ? Number(late.median_late_ns) : null,
          last: late?.joined ? late.last / late.joined : null,
          kept: late ? Number(late.kept_waiting_ns) : null,
        };
      });
    },
    draw: (rows) =>
      table({
        key: "ranks",
        label: "Ranks",
        rows,
        most: 2048,
        sort: sorting(context, "state", false),
        columns: [
          { key: "rank", title: "rank", show: (row) => (row.rank === null ? "–" : `rank ${row.rank}`) },
          { key: "node", title: "node" },
          {
            key: "state",
            title: "verdict",
            of: (row) => Object.keys(STATES).indexOf(row.state),
            show: (row) => el("span", {}, el("i", { class: `cell dot ${row.state}`, "aria-hidden": "true" }), ` ${STATES[row.state]}`),
          },
          { key: "health", title: "health", number: true, show: (row) => row.health?.toFixed(2) ?? "–", hint: "share of a step that the rank has to spare, 0 to 1" },
          { key: "own", title: "own time", number: true, show: (row) => seconds(row.own), hint: "host time of a step outside collectives and waits" },
          { key: "step", title: "step", number: true, show: (row) => seconds(row.step) },
          { key: "idle", title: "GPU idle", number: true, show: (row) => (row.idle === null ? "–" : percent(100 * row.idle)), hint: "share of time without queued GPU work" },
          { key: "late", title: "late by", number: true, show: (row) => (row.late === null ? "–" : duration(row.late)), hint: "behind the median rank at collectives" },
          { key: "last", title: "comes last", number: true, show: (row) => (row.last === null ? "–" : percent(100 * row.last)) },
          { key: "kept", title: "kept others waiting", number: true, show: (row) => (row.kept === null ? "–" : duration(row.kept)), hint: "time of all others, summed" },
        ],
      }),
  });

const arrivals = (context, calls, drawn) =>
  panel({
    key: "arrivals",
    wide: true,
    title: "Arrival at the last collectives",
    about: "Each column is a collective, each row a rank: the darker, the later it came after the first. All others wait for the last.",
    load: async () => {
      const { job } = await chosen(context);
      if (!job) throw nothing("There is no such job now.");
      const { communicators } = await calls(job);
      return communicators.filter((one) => one.rounds.length).sort((a, b) => b.nranks - a.nranks || b.joined - a.joined);
    },
    draw: (comms) => {
      const comm = comms.find((one) => one.comm === context.params.comm) ?? comms[0];
      if (!comm) return words("empty", "Lately no collective was seen by several ranks.");
      const rounds = [...comm.rounds].reverse();
      const came = rounds.flatMap((round) => round.order.map(([rank, behind]) => ({ rank, seq: round.seq, op: round.op, late_ns: Number(behind) })));
      const ranks = [...new Set(came.map((one) => one.rank))].sort((a, b) => a - b);
      const worst = Math.max(...came.map((one) => one.late_ns));
      const told = el("p", { class: "readout", role: "status" }, "Choose a cell to read it.");
      const made = matrix({
        ranks,
        seqs: rounds.map((round) => round.seq),
        arrivals: came,
        label: `Arrival of ${ranks.length} ranks at ${rounds.length} collectives, at most ${duration(worst)} late.`,
        absent: comm.nranks > 16 ? "was not among the sixteen last ones" : "did not come, or was not seen",
        tell: (text) => say(told, text),
      });
      drawn(made.draw);
      return [
        el(
          "div",
          { class: "row" },
          comms.length > 1 &&
            choice(
              "Communicator",
              comm.comm,
              comms.slice(0, 50).map((one) => [one.comm, `${one.comm}: ${one.nranks} ranks`]),
              (value) => context.set({ comm: value }),
            ),
          el(
            "span",
            { class: "scale" },
            "first ",
            [0, 0.25, 0.5, 0.75, 1].map((part) => styled(el("i", { class: "swatch", "aria-hidden": "true" }), { "--colour": heat(part) })),
            ` ${duration(worst)} late`,
          ),
        ),
        el("div", { class: "scrolls", "data-scroll": "matrix" }, made.canvas),
        told,
        el("p", { class: "verdict" }, lastOnes(comm)),
        !comm.blocking && el("p", { class: "dim" }, "Calls of this communicator return before they are done, so only their beginnings are compared."),
      ];
    },
  });

function lastOnes(comm) {
  const [first] = [...comm.ranks].sort((a, b) => b.last - a.last);
  if (!first?.joined || first.last * 2 < first.joined) return "No rank is the last at most of these collectives.";
  return `Rank ${first.rank} on ${first.node} is the last at ${percent((100 * first.last) / first.joined)} of ${count(first.joined)} collectives, ${duration(Number(first.median_late_ns))} behind the median rank.`;
}

const waits = (context, calls) =>
  panel({
    key: "waits",
    title: "Who waited for whom",
    load: async () => {
      const { job } = await chosen(context);
      if (!job) throw nothing("There is no such job now.");
      const all = (await calls(job)).communicators.flatMap((one) => one.waits);
      return all.sort((a, b) => Number(b[2]) - Number(a[2])).slice(0, 12);
    },
    draw: (rows) =>
      rows.length
        ? table({
            key: "waits",
            label: "Who waited for whom",
            rows: rows.map(([waiting, awaited, ns]) => ({ waiting, awaited, ns: Number(ns) })),
            columns: [
              { key: "waiting", title: "waited", show: (row) => `rank ${row.waiting}` },
              { key: "awaited", title: "for", show: (row) => `rank ${row.awaited}` },
              { key: "ns", title: "in all", number: true, show: (row) => duration(row.ns) },
            ],
          })
        : words("empty", "Nobody was seen to wait."),
  });

const clocks = (context, calls) =>
  panel({
    key: "clocks",
    title: "Clocks of the nodes",
    about: "Nobody leaves a collective before all have come: that bounds how far clocks are apart.",
    load: async () => {
      const { job } = await chosen(context);
      if (!job) throw nothing("There is no such job now.");
      return (await calls(job)).clocks;
    },
    draw: (rows) =>
      rows.length
        ? table({
            key: "clocks",
            label: "Clocks",
            rows,
            columns: [
              { key: "node", title: "node" },
              {
                key: "ahead_ns",
                title: "ahead by",
                number: true,
                show: (row) => (row.node === row.reference ? "reference" : row.ahead_ns === null ? "not known" : duration(Number(row.ahead_ns))),
              },
              { key: "error_ns", title: "wrong by at most", number: true, show: (row) => (row.node === row.reference ? "" : row.error_ns === null ? "–" : duration(Number(row.error_ns))) },
              { key: "collectives", title: "collectives", number: true, show: (row) => count(row.collectives) },
            ],
          })
        : words("empty", "All ranks are on one node, or no collective joins the nodes."),
  });

export const job = {
  name: "job",
  title: "Job",
  about: "Every rank of one job beside its peers.",
  filters: false,
  show(context) {
    const more = background(context);
    const kept = new Map();
    /** The collectives of a job, joined by the server: that reads much, so not every time. */
    const calls = (job) => {
      const key = `${job.cluster} ${job.job}`;
      if (!kept.has(key)) {
        const load = async () => {
          const { jobs } = await ask("collectives", of(job, { since: job.hangs.length ? "10m" : "30s" }), context.signal);
          return jobs.find((one) => one.cluster_id === job.cluster && one.job_id === job.job) ?? { communicators: [], clocks: [] };
        };
        let asking = null;
        const slowly = seldom(4, load);
        kept.set(key, () => (asking ??= slowly().finally(() => (asking = null))));
      }
      return kept.get(key)();
    };
    let draw = null;
    const drawn = (how) => {
      draw = how;
      requestAnimationFrame(how);
    };
    const shown = [summary(context, more), ranks(context, calls), arrivals(context, calls, drawn), waits(context, calls), clocks(context, calls)];
    return {
      elements: shown.map((one) => one.section),
      refresh: () => Promise.all(shown.map((one) => one.refresh(context))),
      themed: () => draw?.(),
    };
  },
};
