// A flame graph: callers below (or, as an icicle, above) what they call, as wide as their time. Frames are buttons, so that keys and
// screen readers reach them.

import { el, styled } from "../shared/dom.js";
import { percent } from "../shared/format.js";
import { inWords } from "./api.js";

const ROW = 22;
/** Of a frame narrower than this share of the picture nothing can be seen. */
const LEAST = 0.0015;
const HUES = { python: 210, native: 25, kernel: 130, op: 340, thread: 265, phase: 160, wait: 50, run: 95 };

/** A tree from the list of frames, whose parents come before them. */
export function tree(frames, total) {
  const root = { id: null, frame: null, value: total, children: [], parent: null, depth: 0 };
  const nodes = new Map([[null, root]]);
  for (const frame of frames) {
    const parent = nodes.get(frame.parent ?? null) ?? root;
    const node = { id: frame.id, frame, value: frame.value, children: [], parent, depth: parent.depth + 1 };
    parent.children.push(node);
    nodes.set(frame.id, node);
  }
  return { root, nodes };
}

export const nameOf = (node) => (node.frame ? inWords(node.frame) : "all");

/** Draws what is below `at`; `choose` is told which frame was pressed, `tell` which one is looked at. */
export function flame({ at, total, icicle, search, measure, choose, tell }) {
  const place = el("div", {
    class: "flame",
    role: "group",
    "aria-label": `${icicle ? "Icicle" : "Flame"} graph of ${nameOf(at)}`,
  });
  const above = [];
  for (let node = at.parent; node; node = node.parent) above.unshift(node);
  const boxes = [...above.map((node) => ({ node, left: 0, width: 1, row: node.depth, faint: true }))];
  const layout = (node, left, width) => {
    boxes.push({ node, left, width, row: node.depth });
    let from = left;
    for (const child of ordered(node.children)) {
      const share = node.value ? (width * child.value) / node.value : 0;
      if (share >= LEAST) layout(child, from, share);
      from += share;
    }
  };
  layout(at, 0, 1);
  const rows = Math.max(...boxes.map((box) => box.row)) + 1;
  const wanted = search.toLowerCase();
  let matched = 0;
  const buttons = new Map();
  for (const { node, left, width, row, faint } of boxes) {
    const name = nameOf(node);
    const hit = wanted && name.toLowerCase().includes(wanted);
    if (hit && !hitAbove(node, wanted)) matched += node.value;
    const label = `${name}, ${measure(node.value)}, ${percent((100 * node.value) / (total || 1))} of all`;
    const one = el(
      "button",
      {
        type: "button",
        class: `frame${faint ? " faint" : ""}${hit ? " hit" : wanted ? " other" : ""}`,
        title: label,
        "aria-label": label,
        tabindex: node === at ? "0" : "-1",
        "data-key": `frame-${node.id}`,
        onclick: () => choose(node),
        onfocus: () => tell(node),
        onpointerenter: () => tell(node),
      },
      width > 0.02 ? name : "",
    );
    styled(one, {
      left: `${left * 100}%`,
      width: `${width * 100}%`,
      top: `${(icicle ? row : rows - 1 - row) * ROW}px`,
      "--colour": colour(node),
    });
    buttons.set(node, one);
    place.append(one);
  }
  styled(place, { height: `${rows * ROW}px` });
  place.addEventListener("keydown", (event) => move(event, buttons, icicle, choose, at));
  return { place, matched };
}

/** Phases in the order of time, everything else by its time. */
const PHASES = ["start", "loop", "end"];
const ordered = (nodes) => {
  const phase = (node) => (node.frame?.kind === "phase" ? PHASES.indexOf(node.frame.function) : 0);
  return [...nodes].sort((a, b) => phase(a) - phase(b) || b.value - a.value);
};

const hitAbove = (node, wanted) => {
  for (let above = node.parent; above?.frame; above = above.parent)
    if (nameOf(above).toLowerCase().includes(wanted)) return true;
  return false;
};

function move(event, buttons, icicle, choose, at) {
  const node = [...buttons].find(([, button]) => button === event.target)?.[0];
  if (!node) return;
  const beside = ordered(node.parent?.children.filter((one) => buttons.has(one)) ?? []);
  const heaviest = node.children.filter((one) => buttons.has(one)).sort((a, b) => b.value - a.value)[0];
  const [up, down] = icicle ? [node.parent, heaviest] : [heaviest, node.parent];
  const next = {
    ArrowUp: up,
    ArrowDown: down,
    ArrowLeft: beside[beside.indexOf(node) - 1],
    ArrowRight: beside[beside.indexOf(node) + 1],
  };
  if (event.key === "Escape" && at.parent) {
    let root = at;
    while (root.parent) root = root.parent;
    choose(root);
  } else if (event.key in next) {
    event.preventDefault();
    const button = buttons.get(next[event.key]);
    if (button) {
      event.target.tabIndex = -1;
      button.tabIndex = 0;
      button.focus();
    }
  }
}

/** By kind; neighbours differ a little. */
function colour(node) {
  if (!node.frame) return "hsl(210 10% 72%)";
  let sum = 0;
  for (const char of nameOf(node).slice(0, 40)) sum = (sum * 31 + char.codePointAt(0)) % 97;
  return `hsl(${HUES[node.frame.kind] ?? 0} 55% ${70 + (sum % 5) * 3}%)`;
}
