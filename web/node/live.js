// Keeps the page up to date: asks whether the trace has grown, often while it grows, ever less often while nothing happens, and not at all
// while nobody looks. Says how old the newest data is, by the server's clock.

import { ask } from "./api.js";
import { el, say, time } from "../shared/dom.js";
import { age as inWords, count, duration, since } from "../shared/format.js";

const SOONEST = 2000;
const LATEST = 60000;

export function watch({ element, age, changed, renewed }) {
  const state = { about: null, error: null, wait: SOONEST };
  let timer;
  let ahead = 0n;
  let waiting = [];

  const nowNs = () => BigInt(Date.now()) * 1000000n + ahead;
  const look = (about) => about && `${about.file} ${about.start_ns} ${about.end_ns} ${about.events} ${about.live}`;

  async function check() {
    clearTimeout(timer);
    if (document.hidden) return;
    const before = state.about;
    const failed = state.error;
    try {
      const [health, about] = await Promise.all([ask("health"), ask("trace")]);
      if (health.now_ns) ahead = BigInt(health.now_ns) - BigInt(Date.now()) * 1000000n;
      Object.assign(state, { about, error: null });
      const moved = look(before) !== look(about);
      state.wait = moved && about.live ? SOONEST : Math.min(state.wait * 1.6, LATEST);
      if (failed || (before && before.start_ns !== about.start_ns)) renewed();
      else if (before && moved) changed();
      for (const tell of waiting.splice(0)) tell(about);
    } catch (error) {
      state.error = error;
      state.wait = Math.min(state.wait * 1.6, LATEST);
    }
    draw();
    timer = setTimeout(check, state.wait);
  }

  function draw() {
    const { about, error } = state;
    if (!about) {
      say(element, error ? error.message : "Loading the trace…");
      return;
    }
    const name = about.file.split("/").pop();
    const length = about.start_ns === null ? "empty" : duration(since(about.end_ns, about.start_ns));
    const host = about.nodes.length > 1 ? `${about.nodes.length} nodes` : about.nodes[0];
    element.replaceChildren(
      el("strong", { title: about.file }, name),
      " ",
      el("span", { class: "dim" }, [
        host && `${host}, `,
        length,
        about.start_ns === null ? null : [" from ", time(about.start_ns, true)],
        `, ${count(about.events)} events`,
      ]),
    );
    tick();
  }

  function tick() {
    const { about, error } = state;
    if (!about || about.end_ns === null) return;
    const old = since(nowNs(), about.end_ns);
    const words = error
      ? `Not up to date: ${error.message}`
      : about.live
        ? `Live · newest data ${inWords(old)} old`
        : `Recorded · ended ${inWords(old)} ago`;
    age.className = `age ${error ? "failed" : about.live ? "live" : ""}`;
    if (age.textContent !== words) say(age, words);
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) check();
  });
  return {
    get about() {
      return state.about;
    },
    /** The trace's own facts, as soon as they are known. */
    known: () => (state.about ? Promise.resolve(state.about) : new Promise((tell) => waiting.push(tell))),
    begin(alongside) {
      check().then(alongside);
      setInterval(() => {
        tick();
      }, 1000);
      setInterval(() => {
        if (state.about?.live && !document.hidden) alongside();
      }, 15000);
    },
  };
}
