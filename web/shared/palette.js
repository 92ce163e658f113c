// A colour for each class of cause, told apart by people who see colours differently (after Paul Tol), and never without its name
// beside it. The first word of a class is its family; classes of a family differ in shade.

const FAMILIES = {
  cpu: [351, 78, 64],
  lock: [321, 54, 43],
  python: [321, 54, 43],
  mem: [52, 58, 50],
  numa: [52, 58, 50],
  io: [130, 60, 34],
  copy: [130, 60, 34],
  net: [195, 76, 62],
  rdma: [195, 76, 62],
  gpu: [210, 45, 46],
  launch: [230, 45, 62],
  graph: [230, 45, 62],
  driver: [175, 70, 28],
  rank: [25, 80, 62],
  proc: [25, 45, 45],
};
/** What a thread does by itself is no loss: computing and sleeping are pale, and told apart. */
const PLAIN = { "cpu.self": "hsl(42 70% 74%)", "self.sleep": "hsl(285 28% 68%)", unknown: "hsl(0 0% 55%)" };
const SHADES = {
  "gpu.alloc": 16,
  "gpu.coldstart": -14,
  "gpu.throttle": 24,
  "gpu.error": -22,
  "gpu.memory": 8,
  "cpu.throttled": -16,
  "cpu.interrupt": 12,
  "mem.reclaim": -14,
  "mem.oom": -24,
  "io.file": 18,
  "net.tcp": -22,
  "rank.hang": -20,
  "python.gil": 16,
  "python.gc": 28,
};

export function colourOf(cause) {
  if (PLAIN[cause]) return PLAIN[cause];
  const [hue, saturation, light] = FAMILIES[String(cause).split(".")[0]] ?? [0, 0, 55];
  return `hsl(${hue} ${saturation}% ${light + (SHADES[cause] ?? 0)}%)`;
}

/** Drawn with stripes, too: not explained. */
export const isUnexplained = (cause) => cause === "unknown";

/** Parts of a call's time, where the cause is not known. */
export const PARTS = { "on CPU": "hsl(42 70% 74%)", runnable: "hsl(351 78% 64%)", blocked: "hsl(321 54% 43%)" };

/** Curves, in this order. */
export const CURVES = ["#4477aa", "#ee6677", "#228833", "#aa3377", "#b8a32c", "#3ba7c9", "#ee8866", "#777777"];

const NAMED = new Map();
/** A steady colour for an operation or another name. */
export function colourOfName(name) {
  if (!NAMED.has(name)) {
    let sum = 0;
    for (const char of String(name).slice(0, 64)) sum = (sum * 31 + char.codePointAt(0)) % 9973;
    NAMED.set(name, CURVES[sum % CURVES.length]);
  }
  return NAMED.get(name);
}
