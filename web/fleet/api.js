// Asking the fleet: its tools, as every program asks them.

import { asked, posted } from "../shared/ask.js";

const GONE = "The server does not answer. Is `gpuwhy-fleet serve` still running?";
const OTHERS = { health: "/api/v1/health", openapi: "/api/v1/openapi.json" };

export function ask(name, request = {}, signal = undefined) {
  if (OTHERS[name]) return asked(OTHERS[name], { signal }, GONE);
  const given = Object.entries(request).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const path = name === "sql" ? "/api/v1/sql" : `/api/v1/tools/fleet.cluster.${name}`;
  return asked(path, posted(Object.fromEntries(given), signal), GONE);
}

/** The same answer for some seconds, and for ten times as long as it took: for questions that read much. */
export function seldom(seconds, load) {
  let [until, answer] = [-Infinity, null];
  return async (...given) => {
    if (performance.now() < until) return answer;
    const began = performance.now();
    answer = await load(...given);
    until = performance.now() + Math.max(seconds * 1000, 10 * (performance.now() - began));
    return answer;
  };
}

/** By class of cause, what it is, in the server's own words. */
let classes;
export const causesInWords = () => {
  classes ??= ask("openapi")
    .then(({ components }) => new Map((components?.schemas?.Cause?.oneOf ?? []).map((one) => [one.const, one.description])))
    .catch(() => new Map());
  return classes;
};
