// How the fleet stands now: what was judged, what hangs, who speaks. Views that are drawn in the same moment share one answer.

import { since } from "../shared/format.js";
import { ask, seldom } from "./api.js";

const FRESH = 1500;
/** Of each job so many ranks are drawn, the worst first. */
const RANKS = 512;
/** A node that has not spoken for so long is silent; the store itself is some seconds behind. */
const SILENT_NS = 60e9;
/** And who was silent for so long has left. */
const LEFT_NS = 3600e9;
/** A rank whose last word is so much older than its job's newest one is not heard of. */
const UNHEARD_NS = 20e9;
/** Ranks that name no job are each other's peers. */
export const NO_JOB = "default";

/** How bad each state of a rank is, the worst first, and what it means. */
export const STATES = {
  hang: "the others hang because of it",
  slow: "drags the others",
  unheard: "not heard of",
  off: "beyond its peers, not judged",
  waits: "waits in a hang",
  fine: "keeps up",
};
const ORDER = Object.keys(STATES);

export function watcher() {
  const nodesOf = new Map();
  let [key, until, answer] = [null, 0, null];
  const gather = async (cluster, signal) => {
    if (!nodesOf.has(cluster)) nodesOf.set(cluster, seldom(8, () => ask("nodes", { cluster_id: cluster, limit: 10000 })));
    const [health, outliers, autopsy, nodes] = await Promise.all([
      ask("health", {}, signal),
      ask("find_outlier_nodes", { cluster_id: cluster, members: RANKS }, signal),
      ask("hang_autopsy", { cluster_id: cluster }, signal),
      nodesOf.get(cluster)(),
    ]);
    return stand(health, outliers, autopsy, nodes);
  };
  return (cluster, signal) => {
    if (!answer || key !== cluster || performance.now() > until) {
      [key, until] = [cluster, performance.now() + FRESH];
      answer = gather(cluster, signal);
      answer.catch(() => {
        until = 0;
      });
    }
    return answer;
  };
}

function stand(health, { verdicts, cohorts }, { hangs }, nodes) {
  const now = health.now_ns;
  const told = nodes.rows.map((node) => ({ ...node, age_ns: Math.max(0, since(now, node.last_seen_ns)) }));
  for (const node of told) node.state = node.age_ns < SILENT_NS ? "speaks" : node.age_ns < LEFT_NS ? "silent" : "left";
  return {
    health,
    now,
    hangs,
    stragglers: verdicts.filter((one) => one.kind === "straggler"),
    regressions: verdicts.filter((one) => one.kind === "regression"),
    nodes: told,
    jobs: jobs(cohorts, verdicts, hangs),
  };
}

function jobs(cohorts, verdicts, hangs) {
  const all = new Map();
  const of = (cluster, job) => {
    const name = job ?? NO_JOB;
    const id = JSON.stringify([cluster, name]);
    if (!all.has(id)) all.set(id, { cluster, job: name, known: new Map(), verdicts: [], hangs: [] });
    return all.get(id);
  };
  for (const cohort of cohorts) {
    const job = Object.assign(of(cohort.cluster_id, cohort.job_id), {
      median: cohort.median,
      threshold: cohort.threshold,
      members: cohort.members,
      nranks: cohort.nranks,
    });
    const newest = (cohort.values ?? []).reduce((most, one) => (BigInt(one.last_ns) > most ? BigInt(one.last_ns) : most), 0n);
    const isOff = new Set(cohort.outliers.map((one) => one.member));
    for (const one of cohort.values ?? []) {
      const unheard = Number(newest - BigInt(one.last_ns)) > UNHEARD_NS;
      const off = isOff.has(one.rank === null ? one.node_id : `rank ${one.rank} on ${one.node_id}`);
      put(job, one.rank, { node: one.node_id, health: one.value, state: unheard ? "unheard" : off ? "off" : "fine" });
    }
  }
  for (const verdict of verdicts) {
    const job = of(verdict.cluster, verdict.job);
    job.verdicts.push(verdict);
    if (verdict.rank !== null) put(job, verdict.rank, { node: verdict.node, state: "slow" });
  }
  for (const hang of hangs) {
    const job = of(hang.cluster, hang.job);
    job.hangs.push(hang);
    for (const waiter of hang.waiting) put(job, waiter.rank, { node: waiter.node, state: "waits" });
    for (const culprit of hang.culprits) put(job, culprit.rank, { node: culprit.node, state: "hang" });
  }
  const told = [...all.values()].map(({ known, ...job }) => {
    const ranks = [...known.values()].sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || a.node.localeCompare(b.node));
    const worst = Math.min(...ranks.map((one) => ORDER.indexOf(one.state)), ORDER.length);
    const size = Math.max(job.nranks ?? 0, job.members ?? 0, ranks.length);
    return { ...job, ranks, size, worst };
  });
  const name = (job) => `${job.cluster} ${job.job}`;
  return told.sort((a, b) => a.worst - b.worst || name(a).localeCompare(name(b), "en", { numeric: true }));
}

/** A worse state goes before a better one. */
function put(job, rank, told) {
  const id = rank === null || rank === undefined ? `node ${told.node}` : rank;
  const known = job.known.get(id);
  const state = known && ORDER.indexOf(known.state) < ORDER.indexOf(told.state) ? known.state : told.state;
  job.known.set(id, { rank: rank ?? null, health: null, ...known, ...withoutNull(told), state });
}

const withoutNull = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));
