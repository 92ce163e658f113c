// Numbers, times and strings as people read them. Whole numbers that a double cannot hold (unix times, stack ids) come as strings of
// digits, see api.js.

// What cannot be seen, or turns what follows it around, is shown by its number.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu;
const LONGEST = 400;

export function visible(value, longest = LONGEST) {
  const text = String(value);
  const cut = text.length > longest ? text.slice(0, longest) : text;
  const shown = cut.replace(UNSEEN, (char) => {
    const code = char.codePointAt(0);
    if (code < 32) return String.fromCodePoint(0x2400 + code);
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
  return cut === text ? shown : `${shown}… (${count(text.length)} characters)`;
}

const digits = (value, most) => value.toLocaleString("en", { maximumFractionDigits: most });
/** Three digits, no more. */
const three = (value) => digits(value, Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);

export const count = (value) => (value === null || value === undefined ? "–" : digits(Number(value), 0));

export function short(value) {
  const size = Math.abs(value);
  for (const [unit, of] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e4],
  ]) {
    if (size >= of) return `${three(value / (unit === "k" ? 1e3 : of))}${unit}`;
  }
  return three(value);
}

export function duration(ns) {
  if (ns === null || ns === undefined) return "–";
  const size = Math.abs(ns);
  if (size >= 3600e9) return `${three(ns / 3600e9)} h`;
  if (size >= 120e9) return `${three(ns / 60e9)} min`;
  if (size >= 1e9) return `${three(ns / 1e9)} s`;
  if (size >= 1e6) return `${three(ns / 1e6)} ms`;
  if (size >= 1e3) return `${three(ns / 1e3)} µs`;
  return `${digits(ns, 0)} ns`;
}

export const ms = (value) => duration(value === null || value === undefined ? null : value * 1e6);
export const us = (value) => duration(value === null || value === undefined ? null : value * 1e3);

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let number = Number(value);
  while (Math.abs(number) >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${three(number)} ${units[unit]}`;
}

export function percent(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.1) return "<0.1%";
  return `${digits(value, value < 10 ? 1 : 0)}%`;
}

/** A value of a column or counter by its unit. */
export function measured(value, unit) {
  if (value === null || value === undefined) return "–";
  switch (unit) {
    case "%":
      return percent(value);
    case "bytes":
      return bytes(value);
    case "ns":
      return duration(value);
    case "us":
      return us(value);
    case "ms":
      return ms(value);
    case "mW":
      return `${three(value / 1000)} W`;
    case "KB/s":
    case "kB/s":
      return `${bytes(value * 1000)}/s`;
    case "bytes/s":
      return `${bytes(value)}/s`;
    case "calls/s":
      return `${short(value)} calls/s`;
    default:
      return unit ? `${short(value)} ${unit}` : short(value);
  }
}

export const big = (ns) => BigInt(ns);
/** Nanoseconds from one unix time to another, as a number. */
export const since = (ns, origin) => Number(BigInt(ns) - BigInt(origin));
const date = (ns) => new Date(Number(BigInt(ns) / 1000000n));

export const utc = (ns) => date(ns).toISOString().replace("T", " ").replace("Z", " UTC");

export function localTime(ns, withDate = false) {
  const time = date(ns);
  const clock = time.toLocaleTimeString(undefined, {
    hour12: false,
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
  });
  return withDate
    ? `${time.toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" })}, ${clock}`
    : clock;
}

export function age(ns) {
  const seconds = Math.max(0, ns / 1e9);
  if (seconds < 10) return `${digits(seconds, 1)} s`;
  if (seconds < 120) return `${digits(seconds, 0)} s`;
  if (seconds < 7200) return `${digits(seconds / 60, 0)} minutes`;
  if (seconds < 172800) return `${digits(seconds / 3600, 0)} hours`;
  return `${digits(seconds / 86400, 0)} days`;
}

/** `name[pid]`, as everywhere in gpuwhy. */
export const process = (comm, pid) => (pid === null || pid === undefined ? (comm ?? "") : `${comm ?? "process"}[${pid}]`);
