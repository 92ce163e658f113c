// The page: which view is shown, what all views share, and how it stays up to date.

import { ask } from "./api.js";
import { button, choice, el } from "./dom.js";
import { process } from "./format.js";
import { askForHelp, closeOnClickBeside } from "./help.js";
import { watch } from "./live.js";
import { filtersOf, read, write } from "./route.js";
import { VIEWS } from "./views/all.js";

const place = (id) => document.getElementById(id);
const SPANS = [
  ["", "all of it"],
  ["10s", "last 10 s"],
  ["60s", "last minute"],
  ["5m", "last 5 minutes"],
  ["30m", "last 30 minutes"],
  ["2h", "last 2 hours"],
];

let shown = null;
let leaving = new AbortController();

/** What a view gets to know, and what it can do. */
function contextOf(route) {
  const { signal } = leaving;
  return {
    params: route.params,
    filters: filtersOf(route.params),
    signal,
    trace,
    ask: (name, request) => ask(name, request, signal),
    link: (view, params = {}) => write(view, { ...filtersOf(route.params), ...params }),
    /** Changes the address of this view; it is shown anew. */
    set: (params) => {
      location.hash = write(route.view, { ...route.params, ...params });
    },
    /** The same without showing it anew, for what changes often. */
    note: (params) => {
      Object.assign(route.params, params);
      history.replaceState(null, "", write(route.view, route.params));
    },
  };
}

const trace = watch({
  element: place("trace"),
  age: place("age"),
  changed: () => shown?.refresh(),
  renewed: () => show(),
});

async function show() {
  const route = read(location.hash);
  const view = VIEWS.find((one) => one.name === route.view);
  if (!view) return location.replace("#overview");
  const same = shown?.name === view.name;
  const focused = document.activeElement?.dataset?.key;
  leaving.abort();
  leaving = new AbortController();
  shown?.leave?.();
  drawNav(view.name, route);
  drawFilters(view, route);
  document.title = `${view.title} · gpuwhy`;
  const made = view.show(contextOf(route));
  const main = place("main");
  main.dataset.view = view.name;
  const heading = el("h1", { tabindex: "-1" }, view.title);
  main.replaceChildren(heading, el("p", { class: "about" }, view.about), ...made.elements);
  shown = { name: view.name, ...made };
  // Whoever goes to a view by the keyboard goes on from its begin; whoever changed something in it stays there.
  const stay = () => {
    if (!same || !focused || document.activeElement !== document.body) return;
    document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };
  if (!same && location.hash) heading.focus({ preventScroll: true });
  stay();
  await made.refresh();
  made.arrived?.();
  // What had the focus may be there only now.
  stay();
}

function drawNav(current, route) {
  place("views").replaceChildren(
    ...VIEWS.map((view, at) =>
      el(
        "li",
        {},
        el(
          "a",
          {
            href: write(view.name, filtersOf(route.params)),
            "aria-current": view.name === current ? "page" : null,
            "aria-keyshortcuts": String(at + 1),
          },
          view.title,
        ),
      ),
    ),
  );
  place("views").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

let processes = [];
function drawFilters(view, route) {
  const form = place("filters");
  form.hidden = view.filters === false;
  const set = (params) => {
    location.hash = write(route.view, { ...route.params, ...params });
  };
  const pids = processes.map((one) => [
    one.pid,
    `${process(one.comm, one.pid)}${one.rank === null ? "" : `, rank ${one.rank}`}`.slice(0, 60),
  ]);
  const { pid, since, op } = route.params;
  if (pid && !pids.some(([known]) => String(known) === pid)) pids.push([pid, `process ${pid}`]);
  const spans = since && !SPANS.some(([known]) => known === since) ? [...SPANS, [since, `last ${since}`]] : SPANS;
  form.replaceChildren(
    choice("Process", pid, [["", "all processes"], ...pids], (value) => set({ pid: value })),
    choice("Time", since, spans, (value) => set({ since: value })),
    op
      ? button(`only ${op} ✕`, () => set({ op: undefined }), {
          class: "chip",
          "aria-label": `Show all operations, not only ${op}`,
        })
      : "",
  );
  form.querySelectorAll("select").forEach((select, at) => {
    select.dataset.key = `filter-${at}`;
  });
}

async function knowProcesses() {
  try {
    const { rows } = await ask("processes", { limit: 500 });
    if (JSON.stringify(rows) === JSON.stringify(processes)) return;
    processes = rows;
    const route = read(location.hash);
    const view = VIEWS.find((one) => one.name === route.view);
    if (view) drawFilters(view, route);
  } catch {
    // The views say what is wrong.
  }
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("gpuwhy-theme", root.dataset.theme);
  } catch {
    // It is chosen for this page, then.
  }
  nameTheme();
  shown?.themed?.();
}

function nameTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  place("theme").textContent = dark ? "Light" : "Dark";
  place("theme").setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
}

function pressed(event) {
  const typing = event.target.closest?.("input, textarea, select, [role=application]");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "?" && !event.target.closest?.("input, textarea")) return askForHelp(place("help"), VIEWS);
  if (typing || place("help").open) return;
  const view = VIEWS[Number(event.key) - 1];
  if (view) location.hash = write(view.name, filtersOf(read(location.hash).params));
}

place("logout").hidden = location.protocol !== "https:";
place("theme").addEventListener("click", switchTheme);
place("keys").addEventListener("click", () => askForHelp(place("help"), VIEWS));
place("filters").addEventListener("submit", (event) => event.preventDefault());
closeOnClickBeside(place("help"));
nameTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  nameTheme();
  shown?.themed?.();
});
addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  show();
});
addEventListener("keydown", pressed);
show();
trace.begin(knowProcesses);
