// The dashboard of a fleet: what all its views share, and how it stays up to date.

import { choice } from "../shared/dom.js";
import { read, write } from "../shared/route.js";
import { place, shell } from "../shared/shell.js";
import { ask } from "./api.js";
import { keepUp } from "./live.js";
import { watcher } from "./now.js";
import { VIEWS } from "./views/all.js";

const now = watcher();
const clusterOf = () => read(location.hash).params.cluster;
let health = null;
let clusters = [];

/** SQL sees all clusters, so it is for those who may. */
const maySql = () => health?.clusters === "*" && health.scopes.includes("sql");

function drawFilters(view, route) {
  const form = place("filters");
  const { cluster } = route.params;
  const all = cluster && !clusters.includes(cluster) ? [...clusters, cluster] : clusters;
  form.hidden = view.filters === false || all.length < 2;
  const choose = (value) => {
    location.hash = write(route.view, { cluster: value });
  };
  const options = [["", "all clusters"], ...all.map((name) => [name, name.slice(0, 60)])];
  form.replaceChildren(choice("Cluster", cluster, options, choose));
  form.querySelector("select").dataset.key = "filter-cluster";
}

const page = shell({
  name: "gpuwhy fleet",
  views: () => VIEWS.filter((view) => view.name !== "sql" || maySql()),
  filtersOf: ({ cluster }) => ({ cluster }),
  context: (signal) => ({
    ask: (name, request) => ask(name, request, signal),
    now: () => now(clusterOf(), undefined),
  }),
  drawFilters,
  keys: [["← → ↑ ↓", "job: choose an arrival in the matrix"]],
});

const live = keepUp({
  element: place("trace"),
  age: place("age"),
  now: () => now(clusterOf()),
  refresh: () => page.refresh(),
  told: (found) => {
    health = found.health;
    const known = [...new Set([...clusters, ...found.nodes.map((node) => node.cluster_id)])].sort();
    if (known.length === clusters.length) return;
    clusters = known;
    page.filtersChanged();
  },
});

// Which views there are is known with the first answer.
try {
  health = await ask("health");
} catch {
  // The views say what is wrong.
}
page.begin();
live.begin();
