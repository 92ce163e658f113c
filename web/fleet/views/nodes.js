// Nodes: who speaks, who is silent, who has left; and what the server counted of itself.

import { el, words } from "../../shared/dom.js";
import { age, count } from "../../shared/format.js";
import { panel } from "../../shared/panel.js";
import { sorting, table } from "../../shared/table.js";

const WORDS = { speaks: "speaks", silent: "silent", left: "left" };
const ABOUT = {
  pushes: "pushes taken",
  rows: "rows stored",
  duplicate_pushes: "pushes that came again, and were not stored twice",
  duplicate_rows: "rows of those",
  left_out_points: "points left out, beyond a limit",
  busy_pushes: "pushes told to come later",
  refused_pushes: "pushes refused for good",
  failed_writes: "writes that failed",
  forgotten_rows: "rows forgotten by age or size",
};

function facts(row) {
  try {
    const resource = JSON.parse(row.resource);
    return [resource.gpu ?? resource["gpu.name"], resource["service.name"], resource["service.version"]].filter(Boolean).join(" ");
  } catch {
    return "";
  }
}

const list = (context) =>
  panel({
    key: "nodes",
    wide: true,
    load: async () => {
      const { nodes, jobs } = await context.now();
      const ranks = new Map();
      for (const job of jobs) for (const one of job.ranks) ranks.set(`${job.cluster} ${one.node}`, [...(ranks.get(`${job.cluster} ${one.node}`) ?? []), one.rank]);
      return nodes.map((node) => ({ ...node, told: age(node.age_ns), age_ns: undefined, sort: node.age_ns, ranks: ranks.get(`${node.cluster_id} ${node.node_id}`) ?? [] }));
    },
    draw: (nodes) => {
      if (!nodes.length) return words("empty", "No node has pushed yet.");
      const silent = nodes.filter((node) => node.state === "silent").length;
      return [
        el("p", { class: "verdict" }, silent ? `${count(silent)} of ${count(nodes.length)} nodes ${silent === 1 ? "is" : "are"} silent.` : "All nodes that are expected speak."),
        table({
          key: "nodes",
          label: "Nodes",
          rows: nodes,
          sort: sorting(context, "state", false),
          columns: [
            { key: "node_id", title: "node" },
            { key: "cluster_id", title: "cluster" },
            {
              key: "state",
              title: "state",
              of: (row) => ["silent", "speaks", "left"].indexOf(row.state),
              show: (row) => el("span", { class: row.state === "silent" ? "bad" : row.state === "left" ? "dim" : "good" }, WORDS[row.state]),
            },
            { key: "sort", title: "last heard of", number: true, show: (row) => `${row.told} ago` },
            { key: "ranks", title: "ranks now", of: (row) => row.ranks.length, number: true, show: (row) => row.ranks.slice(0, 8).join(", ") || "–" },
            { key: "resource", title: "says of itself", show: facts },
          ],
        }),
        el("p", { class: "dim" }, "A node is silent after a minute without a push, and has left after an hour. What is told of when it was last heard of is some seconds behind."),
      ];
    },
  });

const server = (context) =>
  panel({
    key: "server",
    wide: true,
    quiet: true,
    title: "The server, since it began",
    load: async () => {
      const { counted } = (await context.now()).health;
      if (!counted) throw Object.assign(new Error("Only tokens with the scope admin see this."), { kind: "nothing" });
      return counted;
    },
    draw: (counted) =>
      el(
        "dl",
        { class: "pairs" },
        Object.entries(counted).map(([name, value]) => el("div", {}, el("dt", {}, count(value)), el("dd", {}, ABOUT[name] ?? name))),
      ),
  });

export const nodes = {
  name: "nodes",
  title: "Nodes",
  about: "Who reports, and when each node was last heard of.",
  show(context) {
    const shown = [list(context), server(context)];
    return {
      elements: shown.map((one) => one.section),
      refresh: () => Promise.all(shown.map((one) => one.refresh(context))),
    };
  },
};
