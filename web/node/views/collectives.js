// Collectives: which rank comes late to them, how late, and who waits for it.

import { choice, el, say, styled, words } from "../../shared/dom.js";
import { bytes, count, duration, percent, us } from "../../shared/format.js";
import { heat, matrix } from "../../shared/matrix.js";
import { panel } from "../../shared/panel.js";
import { table } from "../../shared/table.js";

const COLUMNS = 60;
const quoted = (text) => `'${String(text).replaceAll("'", "''")}'`;

const arrivals = (context, show) =>
  panel({
    key: "arrivals",
    wide: true,
    title: "Who comes late",
    about:
      "Each column is a collective, each row a rank: the darker, the later it came after the first one. All others wait for the last.",
    load: async () => {
      const comms = (
        await context.ask("sql", {
          statement:
            "SELECT comm_id_hash AS comm, max(nranks) AS nranks, count(*) AS calls, max(seq) AS last, count(DISTINCT rank) AS ranks FROM nccl_events WHERE seq IS NOT NULL AND comm_id_hash IS NOT NULL GROUP BY 1 ORDER BY calls DESC LIMIT 50",
        })
      ).rows;
      const comm = comms.find((one) => one.comm === context.params.comm) ?? comms[0];
      if (!comm) return { comms, rows: [] };
      const upTo = context.params.upto ? Number(context.params.upto) : comm.last;
      const statement = `SELECT rank, seq, op, timestamp_ns - min(timestamp_ns) OVER (PARTITION BY seq) AS late_ns, wait_ns FROM nccl_events WHERE comm_id_hash = ${quoted(comm.comm)} AND seq > ${Math.floor(upTo - COLUMNS)} AND seq <= ${Math.floor(upTo)} ORDER BY seq, rank`;
      return { comms, comm, upTo, rows: (await context.ask("sql", { statement, limit: 10000 })).rows };
    },
    draw: ({ comms, comm, upTo, rows }) => {
      if (!rows.length)
        return words(
          "empty",
          "The trace has no collectives whose order is known. Trace while a job uses NCCL, from the begin of its communicators on.",
        );
      const ranks = [...new Set(rows.map((row) => row.rank))].sort((a, b) => a - b);
      const seqs = [...new Set(rows.map((row) => row.seq))].sort((a, b) => a - b);
      const told = el("p", { class: "readout", role: "status" }, "Choose a cell to read it.");
      const worst = Math.max(...rows.map((row) => Number(row.late_ns)));
      const drawn = matrix({
        ranks,
        seqs,
        arrivals: rows,
        label: `Arrival of ${ranks.length} ranks at ${seqs.length} collectives, at most ${duration(worst)} late.`,
        tell: (text) => say(told, text),
      });
      show(drawn.draw);
      const missing = comm.nranks - ranks.length;
      const earlier = (from) => context.set({ comm: comm.comm, upto: Math.min(comm.last, Math.max(COLUMNS, from)) });
      return [
        el(
          "div",
          { class: "row" },
          comms.length > 1 &&
            choice(
              "Communicator",
              comm.comm,
              comms.map((one) => [one.comm, `${one.comm}: ${one.nranks} ranks, ${count(one.calls)} calls`]),
              (value) => context.set({ comm: value, upto: undefined }),
            ),
          el(
            "button",
            { type: "button", onclick: () => earlier(upTo - COLUMNS), disabled: upTo <= COLUMNS, "data-key": "earlier" },
            "Earlier",
          ),
          el(
            "button",
            { type: "button", onclick: () => earlier(upTo + COLUMNS), disabled: upTo >= comm.last, "data-key": "later" },
            "Later",
          ),
          el(
            "span",
            { class: "scale" },
            "first ",
            [0, 0.25, 0.5, 0.75, 1].map((part) =>
              styled(el("i", { class: "swatch", "aria-hidden": "true" }), { "--colour": heat(part) }),
            ),
            ` ${duration(worst)} late, ✕ did not come`,
          ),
        ),
        el("div", { class: "scrolls", "data-scroll": "matrix" }, drawn.canvas),
        told,
        missing > 0 &&
          el("p", { class: "dim" }, `The communicator has ${comm.nranks} ranks; ${missing} of them are not in this trace.`),
        lateness(ranks, rows),
      ];
    },
  });

/** Which rank is the late one, in numbers. */
function lateness(ranks, rows) {
  const last = new Map();
  for (const row of rows)
    if (!last.has(row.seq) || Number(row.late_ns) > Number(last.get(row.seq).late_ns)) last.set(row.seq, row);
  const seqs = last.size;
  const told = ranks.map((rank) => {
    const own = rows.filter((row) => row.rank === rank);
    const lates = own.map((row) => Number(row.late_ns));
    const waits = own.filter((row) => row.wait_ns !== null).map((row) => Number(row.wait_ns));
    const mean = (list) => (list.length ? list.reduce((sum, one) => sum + one, 0) / list.length : null);
    return {
      rank,
      came: own.length,
      mean: mean(lates),
      max: Math.max(...lates),
      last: [...last.values()].filter((row) => row.rank === rank).length,
      wait: mean(waits),
    };
  });
  const worst = told.reduce((a, b) => (b.last > a.last ? b : a));
  const sentence =
    seqs > 1 && worst.last > seqs / 2 && told.length > 1
      ? `Rank ${worst.rank} is the last at ${percent((100 * worst.last) / seqs)} of these collectives, ${duration(worst.mean)} late on average: the others wait for it.`
      : "No rank is the last at most of these collectives.";
  return [
    el("p", { class: "verdict" }, sentence),
    table({
      key: "lateness",
      label: "Lateness by rank",
      rows: [...told].sort((a, b) => b.mean - a.mean),
      columns: [
        { key: "rank", title: "rank", show: (row) => `rank ${row.rank}` },
        { key: "came", title: "came to", number: true, show: (row) => `${row.came} of ${seqs}` },
        {
          key: "last",
          title: "was last at",
          number: true,
          show: (row) => `${row.last} (${percent((100 * row.last) / seqs)})`,
        },
        { key: "mean", title: "mean lateness", number: true, show: (row) => duration(row.mean) },
        { key: "max", title: "most", number: true, show: (row) => duration(row.max) },
        { key: "wait", title: "mean wait for others", number: true, show: (row) => duration(row.wait) },
      ],
    }),
  ];
}

const summary = (context) =>
  panel({
    key: "collectives",
    wide: true,
    quiet: true,
    title: "By communicator",
    load: () => context.ask("collectives", { ...context.filters, limit: 200 }),
    draw: ({ rows }) =>
      table({
        key: "collectives",
        label: "Collectives",
        rows,
        columns: [
          { key: "op", title: "collective" },
          { key: "comm", title: "communicator", show: (row) => el("code", {}, row.comm_id_hash ?? row.comm ?? "–") },
          {
            key: "ranks_seen",
            title: "ranks seen",
            number: true,
            show: (row) => `${row.ranks_seen} of ${row.nranks ?? "?"}`,
          },
          { key: "calls", title: "calls", number: true, show: (row) => count(row.calls) },
          { key: "bytes", title: "bytes", number: true, show: (row) => bytes(row.bytes) },
          { key: "mean_wait_us", title: "mean wait", number: true, show: (row) => us(row.mean_wait_us) },
          { key: "max_wait_us", title: "longest wait", number: true, show: (row) => us(row.max_wait_us) },
          { key: "errors", title: "errors", number: true, show: (row) => count(row.errors) },
        ],
      }),
  });

export const collectives = {
  name: "collectives",
  title: "Collectives",
  about: "When each rank comes to each collective. The one that comes last is the one to look at.",
  show(context) {
    let draw = null;
    const shown = [
      arrivals(context, (how) => {
        draw = how;
        requestAnimationFrame(how);
      }),
      summary(context),
    ];
    return {
      elements: shown.map((one) => one.section),
      refresh: () => Promise.all(shown.map((one) => one.refresh(context))),
      themed: () => draw?.(),
    };
  },
};
