// When each rank came to each collective: ranks down, collectives across, the later the darker; a rank that did not come has a cross.

import { el } from "./dom.js";
import { duration } from "./format.js";

const CELL = 18;
const LEFT = 64;

/** `arrivals` are `{rank, seq, late_ns, op}`; `tell` is told which one is chosen, `absent` is said of those that are not there. */
export function matrix({ ranks, seqs, arrivals, label, tell, absent }) {
  const found = new Map(arrivals.map((one) => [`${one.rank} ${one.seq}`, one]));
  const worst = Math.max(1, ...arrivals.map((one) => Number(one.late_ns)));
  const canvas = el("canvas", {
    class: "matrix",
    role: "application",
    tabindex: "0",
    "aria-roledescription": "matrix",
    "aria-label": `${label} Arrow keys choose a cell.`,
    "data-key": "matrix",
  });
  const [width, height] = [LEFT + seqs.length * CELL + 2, ranks.length * CELL + 22];
  canvas.width = width * 2;
  canvas.height = height * 2;
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  let chosen = null;

  function draw() {
    const style = getComputedStyle(canvas);
    const ink = style.color;
    const pen = canvas.getContext("2d");
    pen.setTransform(2, 0, 0, 2, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = `12px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    ranks.forEach((rank, row) => {
      pen.fillStyle = ink;
      pen.textAlign = "right";
      pen.fillText(`rank ${rank}`, LEFT - 8, row * CELL + CELL / 2);
      seqs.forEach((seq, column) => {
        const [x, y] = [LEFT + column * CELL, row * CELL];
        const one = found.get(`${rank} ${seq}`);
        pen.fillStyle = one ? heat(Number(one.late_ns) / worst) : "transparent";
        pen.fillRect(x + 1, y + 1, CELL - 2, CELL - 2);
        pen.strokeStyle = ink;
        if (!one) {
          pen.lineWidth = 1.5;
          pen.beginPath();
          pen.moveTo(x + 5, y + 5);
          pen.lineTo(x + CELL - 5, y + CELL - 5);
          pen.moveTo(x + CELL - 5, y + 5);
          pen.lineTo(x + 5, y + CELL - 5);
          pen.stroke();
        }
        if (chosen && chosen[0] === row && chosen[1] === column) {
          pen.lineWidth = 2;
          pen.strokeRect(x + 1, y + 1, CELL - 2, CELL - 2);
        }
      });
    });
    pen.fillStyle = ink;
    pen.textAlign = "left";
    const widest = Math.max(0, ...seqs.map((seq) => pen.measureText(`#${seq}`).width));
    const every = Math.max(1, Math.ceil(seqs.length / 8), Math.ceil((widest + 6) / CELL));
    seqs.forEach((seq, column) => {
      if (column % every === 0 && LEFT + column * CELL + widest <= width) pen.fillText(`#${seq}`, LEFT + column * CELL, ranks.length * CELL + 12);
    });
  }

  function choose(row, column) {
    chosen = [Math.min(Math.max(row, 0), ranks.length - 1), Math.min(Math.max(column, 0), seqs.length - 1)];
    const [rank, seq] = [ranks[chosen[0]], seqs[chosen[1]]];
    const one = found.get(`${rank} ${seq}`);
    tell(
      one
        ? `Rank ${rank}, collective ${seq} (${one.op}): ${Number(one.late_ns) === 0 ? "the first to come" : `${duration(Number(one.late_ns))} after the first`}.`
        : absent
          ? `Rank ${rank}, collective ${seq}: it ${absent}.`
          : `Rank ${rank} did not come to collective ${seq}, or was not traced then.`,
    );
    draw();
  }

  canvas.addEventListener("click", (event) =>
    choose(Math.floor(event.offsetY / CELL), Math.floor((event.offsetX - LEFT) / CELL)),
  );
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    choose((chosen?.[0] ?? 0) + (chosen ? step[0] : 0), (chosen?.[1] ?? 0) + (chosen ? step[1] : 0));
    canvas.parentElement?.scrollTo({ left: chosen[1] * CELL - 100 });
  });
  return { canvas, draw };
}

/** From pale to dark in one hue, so that it is read without seeing colours. */
export const heat = (part) => `hsl(25 ${40 + 45 * part}% ${88 - 60 * Math.sqrt(Math.max(0, part))}%)`;
