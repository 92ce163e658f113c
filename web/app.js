// The overview: findings, operations, coverage. Every string of the trace is set as text, never as markup.

const ask = async (name, request = {}) => {
  const reply = await fetch(`/api/v1/${name}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(request),
  });
  if (reply.status === 401) location.reload();
  const answer = await reply.json();
  if (!reply.ok) throw new Error(answer.error);
  return answer;
};

const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

const number = (value) =>
  typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : 0 }) : value;

const table = (columns, rows) => {
  const made = element("table");
  const head = made.createTHead().insertRow();
  for (const [title] of columns) head.append(element("th", title, { scope: "col" }));
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const [, of] of columns) {
      const value = of(row);
      line.append(element("td", number(value), typeof value === "number" ? { class: "number" } : {}));
    }
  }
  return made;
};

const show = async (id, make) => {
  const place = document.getElementById(id);
  try {
    place.replaceChildren(await make());
  } catch (error) {
    place.replaceChildren(element("p", error.message));
  }
};

const findings = async () => {
  const { findings } = await ask("explain");
  if (!findings.length) return element("p", "Nothing took time from the GPU.");
  return table(
    [
      ["severity", (f) => f.severity],
      ["what", (f) => f.title],
      ["causes", (f) => f.causes.map((cause) => `${Math.round(cause.share_pct)}% ${cause.class}`).join(", ")],
      ["where", (f) => f.where.python[0] ?? f.where.native[0] ?? ""],
      ["lost ms", (f) => f.impact.excess_ms],
    ],
    findings,
  );
};

const operations = async () => {
  const { rows } = await ask("operations", { limit: 50 });
  return table(
    [
      ["operation", (r) => r.op],
      ["calls", (r) => r.count],
      ["p50 µs", (r) => r.p50_us],
      ["p99 µs", (r) => r.p99_us],
      ["max µs", (r) => r.max_us],
      ["on CPU %", (r) => r.oncpu_pct],
      ["runnable %", (r) => r.runq_pct],
      ["blocked %", (r) => r.blocked_pct],
      ["errors", (r) => r.errors],
    ],
    rows,
  );
};

const coverage = async () => {
  const { coverage } = await ask("coverage");
  const list = element("ul");
  list.append(element("li", `${number(coverage.lost)} records lost`));
  list.append(element("li", `${number(coverage.sampled)} calls counted but not kept in full`));
  for (const what of [...coverage.degraded, ...coverage.unattached, ...(coverage.notes ?? [])]) {
    list.append(element("li", what));
  }
  return list;
};

const trace = async () => {
  const about = await ask("trace");
  const seconds = ((about.end_ns - about.start_ns) / 1e9).toFixed(1);
  const live = about.live ? ", being written" : "";
  return element("span", `${about.file}: ${seconds} s, ${number(about.events)} events${live}`);
};

const all = () =>
  Promise.all([show("trace", trace), show("findings", findings), show("operations", operations), show("coverage", coverage)]);

document.getElementById("logout").hidden = location.protocol !== "https:";
await all();
