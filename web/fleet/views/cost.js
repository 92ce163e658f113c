// Cost: GPU-hours and dollars lost to stragglers and stalls, and what would be saved.

import { swatch } from "../../shared/bar.js";
import { choice, el, styled, words } from "../../shared/dom.js";
import { count, percent } from "../../shared/format.js";
import { panel } from "../../shared/panel.js";
import { colourOf } from "../../shared/palette.js";
import { table } from "../../shared/table.js";
import { causesInWords, seldom } from "../api.js";
import { capital, dollars, hours } from "../telling.js";

const SPANS = [
  ["15m", "last 15 minutes"],
  ["1h", "last hour"],
  ["6h", "last 6 hours"],
  ["1d", "last day"],
  ["7d", "last 7 days"],
];

const total = (context, load) =>
  panel({
    key: "cost",
    wide: true,
    load,
    waiting: "Adding it up…",
    draw: ({ cost }) => {
      const span = choice("Time", context.params.since ?? "1h", SPANS, (value) => context.set({ since: value }));
      span.querySelector("select").dataset.key = "span";
      if (!cost.gpu_hours) return [el("div", { class: "row" }, span), words("good", "No time was lost to stragglers or stalls.")];
      return [
        el("div", { class: "row" }, span),
        el(
          "ul",
          { class: "figures" },
          el("li", { class: "so-so" }, el("b", {}, hours(cost.gpu_hours)), "lost"),
          el("li", { class: "so-so" }, el("b", {}, dollars(cost.dollars)), cost.dollars === null ? "no rates: start the server with --rates" : "lost"),
          cost.unpriced_gpu_hours > 0 && cost.dollars !== null && el("li", {}, el("b", {}, hours(cost.unpriced_gpu_hours)), "of it have no rate"),
        ),
        el("p", { class: "verdict" }, `${capital(cost.message[0] ?? "")}.`),
        el("p", { class: "dim" }, cost.coverage.notes.map((note) => `${capital(note)}. `)),
      ];
    },
  });

const saved = (load) =>
  panel({
    key: "saved",
    wide: true,
    quiet: true,
    title: "What would be saved",
    load: async () => {
      const { cost } = await load();
      // What may as well be nothing is left out.
      const told = cost.counterfactuals.filter((one) => one.gpu_hours_low > 0).slice(0, 12);
      if (!told.length) throw Object.assign(new Error("Nothing."), { kind: "nothing" });
      return told;
    },
    draw: (all) =>
      el(
        "ul",
        { class: "sentences" },
        all.map((one) => el("li", {}, one.job && el("strong", {}, `${one.job}: `), `${one.message}; ${percent(100 * one.share)} of the time of ${count(one.gpus)} GPUs`)),
      ),
  });

const by = (load, key, title, shown) =>
  panel({
    key,
    title,
    load,
    draw: ({ cost, about }) => {
      const lines = cost[key].filter((line) => line.gpu_hours > 0);
      if (!lines.length) return words("empty", "Nothing.");
      const most = Math.max(...lines.map((line) => line.gpu_hours));
      return table({
        key,
        label: title,
        most: 20,
        rows: lines,
        columns: [
          { key: "name", title: shown, show: (line) => (key === "by_cause" ? cause(line, about) : line.name) },
          {
            key: "share",
            title: "",
            show: (line) =>
              el(
                "div",
                { class: "meter", "aria-hidden": "true" },
                styled(el("span", {}), { width: `${(100 * line.gpu_hours) / most}%`, "--colour": key === "by_cause" ? colourOf(line.name) : "var(--link)" }),
              ),
          },
          { key: "gpu_hours", title: "lost", number: true, show: (line) => hours(line.gpu_hours) },
          { key: "dollars", title: "dollars", number: true, show: (line) => dollars(line.dollars) },
        ],
      });
    },
  });

const cause = (line, about) =>
  el("span", {}, swatch(line.name), el("code", {}, line.name), about.get(line.name) && el("span", { class: "dim" }, ` ${about.get(line.name)}`));

export const cost = {
  name: "cost",
  title: "Cost",
  about: "GPU-hours and dollars lost: what all ranks waited for the one that came last, and time in which no GPU work was queued.",
  show(context) {
    const asking = seldom(30, async () => {
      const since = context.params.since ?? "1h";
      const [cost, about] = await Promise.all([context.ask("get_cost", { cluster_id: context.filters.cluster, since }), causesInWords()]);
      return { cost, about };
    });
    let running = null;
    const load = () => (running ??= asking().finally(() => (running = null)));
    const shown = [
      total(context, load),
      saved(load),
      by(load, "by_cause", "By cause", "cause"),
      by(load, "by_job", "By job", "cluster / job"),
      by(load, "by_rank", "By rank", "cluster / job rank"),
      by(load, "by_cluster", "By cluster", "cluster"),
    ];
    return {
      elements: shown.map((one) => one.section),
      refresh: () => Promise.all(shown.map((one) => one.refresh(context))),
    };
  },
};
