// The overview: what a step goes to and how busy the GPU was, then what is wrong, then what else was measured.

import { parse } from "../../shared/ask.js";
import { causesInWords } from "../api.js";
import { causeBar, swatch } from "../../shared/bar.js";
import { chart } from "../chart.js";
import { el, styled, words } from "../../shared/dom.js";
import { ms, percent, process, us } from "../../shared/format.js";
import { findingCard } from "../finding.js";
import { panel, panels } from "../../shared/panel.js";
import { table } from "../../shared/table.js";

/** So many are open, and so many are shown however low they are. */
const [OPEN, SHOWN] = [1, 3];
const LEDGERS = 3;
const MORE_TREES = 12;
const WAITING = "Loading: causes are looked for in all of the trace. In a large one that takes some seconds…";

/** Asked once for all panels; the words for causes come after the first picture. */
function explained(context) {
  let asked;
  return {
    ask: () => (asked ??= context.ask("explain", { ...context.filters, op: context.params.op })),
    again: () => {
      asked = undefined;
    },
  };
}

const findings = (answer, context) =>
  panel({
    key: "findings",
    waiting: WAITING,
    load: async (_, sooner) => {
      let done = false;
      const about = causesInWords();
      const { pid, since, from_ns: from, to_ns: to } = context.filters;
      const whole = !pid && !since && !from && !to && !context.params.op;
      if (whole)
        stored(context)
          .then(async (known) => !done && known.length && sooner({ findings: known, about: await about }))
          .catch(() => {});
      const { findings } = await answer.ask();
      done = true;
      return { findings, about: await about };
    },
    draw: ({ findings, about }) => {
      if (!findings.length)
        return words(
          "good",
          "Nothing took time from the GPU that it should have had.",
          el("p", { class: "dim" }, "No rule found a stall in what was traced. Coverage says what was not seen."),
        );
      const worst = findings.filter((one) => one.severity !== "low");
      const told = worst.length
        ? worst.length === 1
          ? "One thing takes time from the GPU:"
          : `${worst.length} things take time from the GPU, the worst first:`
        : findings.every((one) => one.by_design)
          ? "Nothing is taken from the program by others; this is what follows from how it is built."
          : "Nothing takes much time from the GPU: what is marked “as built” follows from how the program is built, the rest is small.";
      const first = findings.slice(0, Math.max(worst.length, SHOWN));
      const rest = findings.slice(first.length);
      const cards = (list, open) => list.map((finding, at) => findingCard(finding, context, about, at < open));
      return [
        el("p", { class: "verdict" }, told),
        cards(first, OPEN),
        rest.length > 0 &&
          el(
            "details",
            { class: "rest", "data-key": "rest" },
            el("summary", {}, `${rest.length} more of low severity${ofBuilt(rest)}`),
            cards(rest, 0),
          ),
      ];
    },
  });

/** How many of them are no loss at all. */
function ofBuilt(list) {
  const built = list.filter((one) => one.by_design).length;
  if (!built) return "";
  return built === list.length ? ": how the programs are built" : `; ${built} of them: how the programs are built`;
}

/** What the trace concluded when it ended: there at once, however large it is. */
async function stored(context) {
  const order = "CASE severity WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END, excess_ms DESC";
  const { rows } = await context.ask("sql", { statement: `SELECT * FROM findings ORDER BY ${order} LIMIT 200` });
  return rows.map((row) => ({
    ...row,
    window: { start_ns: row.start_ns, end_ns: row.end_ns },
    impact: row,
    causes: parse(row.causes),
    where: parse(row.where_json),
    fixes: parse(row.fixes),
    refuted_by: row.refuted_by ?? "",
  }));
}

const stuck = (context) =>
  panel({
    key: "stuck",
    title: "Calls that have not returned",
    quiet: true,
    load: () => context.ask("in_flight", { ...context.filters, limit: 50 }),
    draw: ({ rows }) => {
      const still = rows.filter((row) => row.lasts);
      if (!still.length) return words("good", "All calls that were seen waiting have returned.");
      return table({
        key: "stuck",
        label: "Calls in flight",
        rows: still,
        columns: [
          { key: "op", title: "operation" },
          { key: "process", title: "process", show: (row) => process(row.process, row.pid) },
          { key: "lasted_ms", title: "for", number: true, show: (row) => ms(row.lasted_ms) },
          { key: "rank", title: "rank", number: true },
          { key: "seq", title: "collective", number: true },
          { key: "line", title: "where", show: (row) => el("span", { class: "code" }, row.line ?? "not known") },
        ],
      });
    },
  });

// What a step of each process is made of: the critical path, largest part first. The process of the worst finding is open.
const steps = (answer) =>
  panel({
    key: "steps",
    waiting: WAITING,
    title: "Where does a step go?",
    about: "The critical path of the loop, through all threads it waits for.",
    load: async () => {
      const { steps, findings } = await answer.ask();
      const [first] = findings;
      const loops = steps.filter((tree) => tree.phase === "loop");
      return mainFirst(loops, first);
    },
    draw: (trees) => {
      if (!trees.length) return words("empty", "No loop was seen: there is no step to divide.");
      const [first, ...rest] = trees;
      return [
        stepTree(first),
        rest.length > 0 &&
          el(
            "details",
            { "data-key": "more-steps" },
            el("summary", {}, `${rest.length} more ${rest.length === 1 ? "process" : "processes"}`),
            rest.slice(0, MORE_TREES).map(stepTree),
            rest.length > MORE_TREES && el("p", { class: "dim" }, `The first ${MORE_TREES} of ${rest.length}.`),
          ),
      ];
    },
  });

const stepTree = (tree) =>
  el(
    "div",
    { class: "ledger" },
    el(
      "h3",
      {},
      process(tree.process, tree.pid),
      tree.rank !== null && ` rank ${tree.rank}`,
      tree.found_by
        ? ` · step ${ms(tree.mean_ms)} (p99 ${ms(tree.p99_ms)}, ${tree.count} steps)`
        : ` · ${ms(tree.mean_ms)}, no repeating step was found`,
      tree.requests && ` · request ${ms(tree.requests.ms)} (${tree.requests.count} finished)`,
      tree.gpu_busy_pct !== null && ` · GPU busy ${percent(tree.gpu_busy_pct)}`,
    ),
    causeBar(
      tree.path.map((part) => ({ class: part.class, share_pct: part.share_pct, ms: part.ms, by: [] })),
      { legend: false, small: false },
    ),
    table({
      key: `steps-${tree.pid}`,
      label: `Parts of a step of process ${tree.pid}`,
      rows: tree.path.filter((part) => part.share_pct >= 1 && part.process !== 0),
      columns: [
        { key: "ms", title: tree.found_by ? "a step" : "time", number: true, show: (part) => ms(part.ms) },
        { key: "share_pct", title: "share", number: true, show: (part) => percent(part.share_pct) },
        {
          key: "message",
          title: "goes to",
          show: (part) => [
            swatch(part.class),
            part.message,
            part.process !== tree.pid && `, ${process(part.thread, part.process)}`,
            el("div", { class: "code dim" }, own(part.where) ?? ""),
          ],
        },
        {
          key: "saves",
          title: "saved without it",
          number: true,
          hint: "what a step would take less without this part, at least and at most",
          show: ({ saves_ms: [least, most] }) => (most >= 0.001 ? savings(least, most) : "–"),
        },
      ],
    }),
  );

/** That of the worst finding's process comes first. */
const mainFirst = (trees, worst) =>
  [...trees].sort((a, b) => Number(b.pid === worst?.pid) - Number(a.pid === worst?.pid));

/** The program's own line, where there is one, without its folders. */
const own = (lines) => {
  const line = lines.find((one) => !/\/(site|dist)-packages\/|\/lib\/python3|\/torchinductor_|^</.test(one)) ?? lines[0];
  return line?.replace(/^[^:]*\//, "");
};

const savings = (least, most) => ((most - least) / most < 0.1 ? ms(most) : `${ms(least)} – ${ms(most)}`);

/** How busy the GPUs were, over time: their own counter, or between bounds where there is none. */
const utilisation = (answer, context) =>
  panel({
    key: "utilisation",
    waiting: WAITING,
    title: "GPU utilisation",
    load: async () => {
      const { since, from_ns, to_ns } = context.filters;
      const [curves, explained] = await Promise.allSettled([
        context.ask("series", { of: "gpus", metrics: "sm_pct", since, from_ns, to_ns, points: 240 }),
        answer.ask(),
      ]);
      if (curves.status === "rejected" && curves.reason.kind !== "nothing") throw curves.reason;
      if (explained.status === "rejected") throw explained.reason;
      const { steps, idle, findings } = explained.value;
      const [tree] = mainFirst(steps.filter((one) => one.phase === "loop" && one.gpu_busy_pct !== null), findings[0]);
      return { curves: curves.value ?? null, tree: tree ?? null, idle };
    },
    draw: ({ curves, tree, idle }) => [
      tree &&
        el(
          "p",
          {},
          el("strong", { class: "large" }, percent(tree.gpu_busy_pct)),
          ` busy in the loop of ${process(tree.process, tree.pid)} (${tree.gpu_busy_source})`,
        ),
      curves
        ? chart({
            label: "GPU busy, by its own counter",
            curves: curves.series.slice(0, 8).map((curve) => ({ ...curve, name: curve.name.split(" of ").pop() })),
            unit: "%",
            startNs: curves.start_ns,
            endNs: curves.end_ns,
            most: 100,
            names: curves.series.length > 1,
          })
        : [
            el("p", { class: "dim" }, "The trace has no counters of the GPU. What its streams prove:"),
            idle.filter((one) => one.busy_upper_pct !== null).slice(0, LEDGERS).map(busy),
          ],
    ],
  });

const idle = (answer) =>
  panel({
    key: "idle",
    waiting: WAITING,
    wide: true,
    title: "Was the GPU kept busy?",
    about: "How long the GPU had work by its own counter, between two proven bounds, and what the critical path was in while it had none.",
    load: async () => (await answer.ask()).idle,
    draw: (idle) => {
      if (!idle.length) return words("empty", "No stream was seen busy: there is nothing to tell.");
      const starved = (one) => (one.starved_ms ?? 0) / (one.wall_ms || 1);
      const ledgers = [...idle]
        .sort((a, b) => starved(b) - starved(a))
        .map((one) =>
          el(
            "div",
            { class: "ledger" },
            el("h3", {}, process(one.process, one.pid), one.rank !== null && ` rank ${one.rank}`),
            one.busy_upper_pct === null ? el("p", { class: "dim" }, "Nothing tells how busy its streams were.") : busy(one),
            el(
              "p",
              {},
              one.starved_ms === null
                ? `What the path was in for ${ms(one.wall_ms)}:`
                : [el("b", {}, ms(one.starved_ms)), ` of ${ms(one.wall_ms)} without work. Meanwhile:`],
            ),
            causeBar(one.causes),
          ),
        );
      const rest = ledgers.slice(LEDGERS);
      const side = (list) => el("div", { class: "ledgers" }, list);
      return [
        side(ledgers.slice(0, LEDGERS)),
        rest.length > 0 &&
          el("details", { "data-key": "ledgers" }, el("summary", {}, `${rest.length} more processes`), side(rest)),
      ];
    },
  });

/** Proven busy is solid; what lies between the bounds is hatched: nobody knows. */
function busy({ busy_lower_pct: lower, busy_upper_pct: upper, busy_pct: counted }) {
  const bounds = `its streams were busy between ${percent(lower)} and ${percent(upper)} of the time`;
  const label = counted === null || counted === undefined ? `By bounds: ${bounds}` : `GPU busy ${percent(counted)} by its counter; ${bounds}`;
  const part = (name, share) =>
    styled(el("span", { class: `segment ${name}` }), { "flex-grow": String(Math.max(0, share)) });
  return el(
    "div",
    {},
    el(
      "div",
      { class: "bar small", role: "img", "aria-label": label },
      part("busy", lower),
      part("maybe", upper - lower),
      part("idle", 100 - upper),
    ),
    el("p", { class: "dim" }, label),
  );
}

const tail = (answer, context) =>
  panel({
    key: "tail",
    waiting: WAITING,
    wide: true,
    title: "What the slowest calls wait for",
    about: "The slowest of each operation by cause; p99 is what one call in a hundred exceeds.",
    load: async () => (await answer.ask()).tail,
    draw: (tail) => {
      const ops = new Map();
      for (const one of tail) ops.set(one.op, { ...ops.get(one.op), op: one.op, [one.quantile]: one });
      const rows = [...ops.values()].filter((row) => row["p99"]).sort((a, b) => b["p99"].p_us - a["p99"].p_us);
      if (!rows.length) return words("empty", "There are too few calls for a tail.");
      const shown = (row) => row["p99.9"] ?? row["p99"];
      const columns = [
        {
          key: "op",
          title: "operation",
          show: (row) => el("a", { href: context.link("operations", { op: row.op }) }, row.op),
        },
        { key: "p50", title: "p50", number: true, show: (row) => us(row["p50"]?.p_us) },
        { key: "p99", title: "p99", number: true, show: (row) => us(row["p99"]?.p_us) },
        { key: "p999", title: "p99.9", number: true, show: (row) => us(row["p99.9"]?.p_us) },
        {
          key: "cause",
          title: "spent on",
          show: (row) =>
            el(
              "div",
              { class: "in-cell" },
              causeBar(shown(row).by_cause, { legend: false }),
              el("span", { class: "dim" }, main(shown(row).by_cause)),
            ),
        },
      ];
      return [
        table({ key: "tail", label: "Tail by cause", columns, rows: rows.slice(0, 8) }),
        rows.length > 8 &&
          el(
            "details",
            { "data-key": "all-tails" },
            el("summary", {}, `${rows.length - 8} more operations`),
            table({ key: "tail-more", label: "Tail of more operations", columns, rows: rows.slice(8) }),
          ),
      ];
    },
  });

const main = (causes) =>
  causes
    .slice(0, 2)
    .filter((one) => one.share_pct >= 1)
    .map((one) => `${percent(one.share_pct)} ${one.class}`)
    .join(", ");

const NAMES = {
  memory_used_bytes: "GPU memory in use",
  power_mw: "Power",
  temperature_c: "Temperature",
  sm_clock_mhz: "Clock",
};
const ORDER = Object.keys(NAMES);

const gpus = (context) =>
  panel({
    key: "gpus",
    wide: true,
    title: "Other GPU counters over time",
    load: () => context.ask("series", { ...context.filters, of: "gpus", pid: undefined, points: 240 }),
    draw: ({ series, start_ns: startNs, end_ns: endNs }) => {
      const metrics = new Map();
      for (const curve of series) {
        const [metric, gpu] = curve.name.split(" of ");
        if (!metrics.has(metric)) metrics.set(metric, []);
        metrics.get(metric).push({ ...curve, name: gpu });
      }
      metrics.delete("sm_pct");
      const sorted = [...metrics].sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b));
      return [
        el(
          "div",
          { class: "charts" },
          sorted.map(([metric, curves]) =>
            chart({
              label: NAMES[metric] ?? metric,
              curves: curves.slice(0, 8),
              unit: curves[0].unit,
              startNs,
              endNs,
              most: metric.endsWith("_pct") ? 100 : null,
              names: curves.length > 1,
            }),
          ),
        ),
      ];
    },
  });

export const overview = {
  name: "overview",
  title: "Overview",
  about: "What a step goes to, how busy the GPU is, what is wrong, and what to do.",
  show(context) {
    const answer = explained(context);
    const all = [
      steps(answer),
      utilisation(answer, context),
      findings(answer, context),
      stuck(context),
      idle(answer),
      tail(answer, context),
      gpus(context),
    ];
    const made = panels(() => all)(context);
    return {
      ...made,
      refresh: () => {
        answer.again();
        return made.refresh();
      },
    };
  },
};
