// Asking the server. The questions are those of /api/v1.

/** Unix times and ids in nanoseconds are beyond what a double holds: such numbers are kept as strings of their digits. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{17,}(?![\d.eE])/g;
export const parse = (text) => JSON.parse(text.replace(TOKENS, (token) => (token[0] === '"' ? token : `"${token}"`)));

export class AskError extends Error {
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

/** Answers are asked for with GET, so that numbers of any size travel as text; a statement may be long and is sent with POST. */
export async function ask(name, request = {}, signal = undefined) {
  const isSql = name === "sql";
  const given = Object.entries(request).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const path = `/api/v1/${name}`;
  let reply;
  try {
    reply = isSql
      ? await fetch(path, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(Object.fromEntries(given)),
          signal,
        })
      : await fetch(
          given.length ? `${path}?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : path,
          { signal },
        );
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AskError("The server does not answer. Is `gpuwhy dashboard` still running?", "gone");
  }
  // The session is over: the same address shows the login now.
  if (reply.status === 401) {
    location.reload();
    return new Promise(() => {});
  }
  let answer;
  try {
    answer = parse(await reply.text());
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AskError(`The server's answer (status ${reply.status}) cannot be read.`, "failed");
  }
  if (!reply.ok) throw new AskError(sentence(answer.error ?? `status ${reply.status}`), answer.kind ?? "failed");
  return answer;
}

const sentence = (text) => {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
};

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
