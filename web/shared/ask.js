// Asking the server, and what comes back: JSON, an error in a sentence, or the end of the session.

/** Unix times and ids in nanoseconds are beyond what a double holds: such numbers are kept as strings of their digits. */
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{17,}(?![\d.eE])/g;
export const parse = (text) => JSON.parse(text.replace(TOKENS, (token) => (token[0] === '"' ? token : `"${token}"`)));

export class AskError extends Error {
  constructor(message, kind) {
    super(message);
    this.kind = kind;
  }
}

/** `gone` is what is said where nobody answers. */
export async function asked(path, options, gone) {
  let reply;
  try {
    reply = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new AskError(gone, "gone");
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

/** What is sent with POST. */
export const posted = (body, signal) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
  signal,
});

const sentence = (text) => {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
};
