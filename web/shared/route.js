// Addresses: `#view?key=value&key=value`. All that a view shows follows from its address, so that a link shows the same again.

export function read(hash) {
  const [view, query] = hash.replace(/^#/, "").split("?", 2);
  return { view: view || "overview", params: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

export function write(view, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return query ? `#${view}?${query}` : `#${view}`;
}
