// Moving in time by mouse, touch, wheel and keys. Knows nothing of what is drawn: it changes a window of time and says so.

const LEAST = 2000;

/** `whole` is all there is; `changed` is called after each change. */
export function movable(canvas, { view, whole, changed, press, key }) {
  const clamp = (from, to) => {
    const all = whole();
    const length = Math.min(Math.max(to - from, LEAST), (all.to - all.from) * 1.04 + LEAST);
    const least = all.from - length * 0.02;
    const begin = Math.min(Math.max(from, least), all.to + length * 0.02 - length);
    view.from = Math.max(begin, least);
    view.to = view.from + length;
    changed();
  };
  const move = {
    to: clamp,
    pan: (part) => clamp(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from)),
    zoom: (factor, centre = 0.5) => {
      const at = view.from + centre * (view.to - view.from);
      const length = Math.max((view.to - view.from) * factor, LEAST);
      clamp(at - centre * length, at - centre * length + length);
    },
    whole: () => clamp(whole().from, whole().to),
  };
  const place = (event) => (event.clientX - canvas.getBoundingClientRect().left) / canvas.clientWidth;

  canvas.addEventListener(
    "wheel",
    (event) => {
      // The page itself scrolls with the wheel alone.
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        move.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 300), place(event));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        move.pan((event.shiftKey ? event.deltaY || event.deltaX : event.deltaX) / canvas.clientWidth);
      }
    },
    { passive: false },
  );

  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    fingers.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const others = [...fingers.values()].filter((one) => one.pointerId !== event.pointerId);
    if (others.length === 1) {
      const [other] = others;
      const distance = (one) => Math.max(20, Math.abs(one.clientX - other.clientX));
      const middle = ((event.clientX + other.clientX) / 2 - canvas.getBoundingClientRect().left) / canvas.clientWidth;
      move.zoom(distance(before) / distance(event), middle);
    } else if (!others.length) {
      move.pan((before.clientX - event.clientX) / canvas.clientWidth);
    }
    moved += Math.abs(before.clientX - event.clientX) + Math.abs(before.clientY - event.clientY);
    fingers.set(event.pointerId, event);
  });
  const lift = (event) => {
    if (!fingers.delete(event.pointerId) || event.type === "pointercancel") return;
    if (moved < 5 && !fingers.size) press(event.offsetX, event.offsetY);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("dblclick", (event) => move.zoom(0.4, place(event)));

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      ArrowLeft: () => move.pan(-0.2),
      ArrowRight: () => move.pan(0.2),
      a: () => move.pan(-0.2),
      d: () => move.pan(0.2),
      "+": () => move.zoom(0.6),
      "=": () => move.zoom(0.6),
      w: () => move.zoom(0.6),
      "-": () => move.zoom(1 / 0.6),
      s: () => move.zoom(1 / 0.6),
      0: move.whole,
      Home: move.whole,
    }[event.key];
    if (act) act();
    else if (!key(event.key)) return;
    event.preventDefault();
  });
  return move;
}
