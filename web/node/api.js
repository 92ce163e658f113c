// Asking the server. The questions are those of /api/v1.

import { asked, posted } from "../shared/ask.js";

const GONE = "The server does not answer. Is `gpuwhy dashboard` still running?";

/** Answers are asked for with GET, so that numbers of any size travel as text; a statement may be long and is sent with POST. */
export function ask(name, request = {}, signal = undefined) {
  const given = Object.entries(request).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const path = `/api/v1/${name}`;
  if (name === "sql") return asked(path, posted(Object.fromEntries(given), signal), GONE);
  const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)]));
  return asked(given.length ? `${path}?${query}` : path, { signal }, GONE);
}

/** The server's own words for things, from its description of itself: by class of cause, what it is. */
let classes;
export const causesInWords = () => {
  classes ??= ask("openapi.json")
    .then((document) => {
      const cause = document.components?.schemas?.Cause ?? {};
      return new Map((cause.oneOf ?? []).map((one) => [one.const, one.description]));
    })
    .catch(() => new Map());
  return classes;
};

/** Stacks as lists of frames, innermost first, by their ids. */
export async function framesOf(ids, signal) {
  const known = [...new Set(ids.filter((id) => id !== null && id !== undefined).map(String))]
    .filter((id) => /^-?\d+$/.test(id))
    .slice(0, 100);
  const frames = new Map();
  if (!known.length) return frames;
  const statement = `SELECT CAST(stack_id AS TEXT) AS id, kind, function, file, line, module FROM frames WHERE stack_id IN (${known.join(", ")}) ORDER BY stack_id, depth`;
  for (const row of (await ask("sql", { statement, limit: 10000 }, signal)).rows) {
    if (!frames.has(row.id)) frames.set(row.id, []);
    frames.get(row.id).push(row);
  }
  return frames;
}

export const inWords = (frame) => {
  const file = frame.file?.split("/").pop();
  return frame.kind === "python" && file
    ? `${file}:${frame.line ?? "?"} ${frame.function}`
    : (frame.function ?? frame.module ?? "?");
};

/** The innermost line of Python, else the innermost native function. */
export const siteOf = (frames) => {
  const frame = frames?.find((one) => one.kind === "python") ?? frames?.find((one) => one.function) ?? frames?.[0];
  return frame ? inWords(frame) : null;
};
