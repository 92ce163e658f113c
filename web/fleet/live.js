// Keeps the page up to date: every two seconds while somebody looks, less often while the server fails, not at all otherwise.

import { el, say } from "../shared/dom.js";
import { age as inWords, count } from "../shared/format.js";

const SOONEST = 2000;
const LATEST = 30000;

/** `now` asks how the fleet stands, `refresh` draws the view anew, `told` gets what was found. */
export function keepUp({ element, age, now, refresh, told }) {
  let [timer, wait, heard, error] = [null, SOONEST, null, null];

  async function turn() {
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const found = await now();
      [heard, error, wait] = [{ ...found, at: Date.now() }, null, SOONEST];
      told(found);
      await refresh();
    } catch (failed) {
      if (failed.name !== "AbortError") [error, wait] = [failed, Math.min(wait * 1.6, LATEST)];
    }
    draw();
    clearTimeout(timer);
    timer = setTimeout(turn, wait);
  }

  function draw() {
    if (!heard) return say(element, error ? error.message : "Loading…");
    const { jobs, nodes, health } = heard;
    const ranks = jobs.reduce((sum, job) => sum + job.size, 0);
    const speaking = nodes.filter((node) => node.state === "speaks").length;
    const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
    element.replaceChildren(
      el("strong", {}, `${plural(jobs.length, "job")}, ${plural(ranks, "rank")}`),
      el("span", { class: "dim" }, ` on ${plural(speaking, "node")} that speak${speaking === 1 ? "s" : ""}, version ${health.version}`),
    );
    tick();
  }

  function tick() {
    if (!heard) return;
    const last = heard.nodes.reduce((least, node) => Math.min(least, node.age_ns), Infinity);
    const behind = (Date.now() - heard.at) * 1e6;
    const live = last < 60e9;
    const words = error
      ? `Not up to date: ${error.message}`
      : last === Infinity
        ? "No node has pushed yet"
        : live
          ? `Live · updated ${inWords(behind)} ago`
          : `Silent · last push ${inWords(last + behind)} ago`;
    age.className = `age ${error || (!live && last !== Infinity) ? "failed" : live ? "live" : ""}`;
    if (age.textContent !== words) say(age, words);
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) turn();
  });
  return {
    begin() {
      setInterval(tick, 1000);
      return turn();
    },
  };
}
