// Making elements. Every string becomes text or an attribute's value, never markup, with what cannot be seen in it made visible.

import { localTime, utc, visible } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "href") element.setAttribute(name, value);
    else element.setAttribute(name, value === true ? "" : visible(value, 2000));
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child, 2000)));
  }
}

/** What to do, in words: a command stands between backticks and becomes code, which can be copied as it is. */
export function advice(text) {
  const [first, last] = [text.indexOf("`"), text.lastIndexOf("`")];
  if (first === last) return [text];
  return [text.slice(0, first), el("code", {}, text.slice(first + 1, last)), text.slice(last + 1)];
}

/** Puts other words where some were. */
export const say = (element, text) => element.replaceChildren(visible(text, 2000));

export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

/** Puts numbers where style sheets cannot know them; the page's policy allows no style attributes. */
export function styled(element, styles) {
  for (const [name, value] of Object.entries(styles)) element.style.setProperty(name, value);
  return element;
}

/** A time of day in the reader's zone; hovering shows it in UTC. */
export const time = (ns, withDate = false) =>
  el("time", { datetime: utc(ns).replace(" UTC", "Z").replace(" ", "T"), title: utc(ns) }, localTime(ns, withDate));

export const button = (text, press, attributes = {}) =>
  el("button", { type: "button", onclick: press, ...attributes }, text);

export const choice = (label, value, options, choose) => {
  const select = el(
    "select",
    { "aria-label": label, onchange: () => choose(select.value) },
    options.map(([key, text]) => el("option", { value: key, selected: String(key) === String(value ?? "") }, text)),
  );
  return el("label", { class: "choice" }, el("span", {}, label), select);
};

/** What to read where there is nothing to draw. */
export const words = (kind, text, ...more) =>
  el("div", { class: `state ${kind}`, role: kind === "error" ? "alert" : null }, el("p", {}, text), more);

/** Draws anew and keeps what the reader was at: the focus, what was open, how far was scrolled. */
export function redraw(place, draw) {
  const focused = place.contains(document.activeElement) ? document.activeElement?.dataset.key : null;
  const keyed = (name) => [...place.querySelectorAll(`${name}[data-key]`)];
  const open = new Map(keyed("details").map((one) => [one.dataset.key, one.open]));
  const scrolled = new Map(
    [...place.querySelectorAll("[data-scroll]")].map((one) => [one.dataset.scroll, [one.scrollLeft, one.scrollTop]]),
  );
  place.replaceChildren();
  add(place, [draw()]);
  for (const one of keyed("details")) if (open.has(one.dataset.key)) one.open = open.get(one.dataset.key);
  for (const one of place.querySelectorAll("[data-scroll]")) {
    [one.scrollLeft, one.scrollTop] = scrolled.get(one.dataset.scroll) ?? [0, 0];
  }
  if (focused)
    keyed("*")
      .find((one) => one.dataset.key === focused)
      ?.focus({ preventScroll: true });
}
