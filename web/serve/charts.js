// Charts on canvas: lines over time, and a heat map of CPUs. A chart draws what it is given, and says which moment the reader points at.

const PAD = { left: 56, right: 8, top: 8, bottom: 20 };
// A gap in time longer than this many intervals breaks a line.
const BREAK_INTERVALS = 3;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Prepares a canvas for the screen's pixels. Returns null while it has no size.
function prepared(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  if (width < 2 || height < 2) return null;
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, sans-serif";
  return { context, width, height };
}

// Steps of 1, 2 or 5 times a power of ten that give at most `most` lines up to `top`.
export function gridSteps(top, most) {
  if (!(top > 0)) return { step: 1, top: 1 };
  const raw = top / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw);
  return { step, top: Math.ceil(top / step) * step };
}

export function timeText(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function scaleX(range, width) {
  const inner = width - PAD.left - PAD.right;
  return (at) => PAD.left + ((at - range.from) / Math.max(1, range.to - range.from)) * inner;
}

function axisX(context, range, width, height, x) {
  context.fillStyle = colour("--dim");
  context.textBaseline = "bottom";
  const marks = Math.max(2, Math.min(6, Math.floor(width / 140)));
  for (let at = 0; at <= marks; at += 1) {
    const ms = range.from + ((range.to - range.from) * at) / marks;
    context.textAlign = at === 0 ? "left" : at === marks ? "right" : "center";
    context.fillText(timeText(ms), x(ms), height);
  }
}

// Marks the moment that is read, and the range that is being chosen.
function overlay(context, view, height, x) {
  if (view.drag) {
    const [from, to] = [x(Math.min(...view.drag)), x(Math.max(...view.drag))];
    context.fillStyle = colour("--select");
    context.fillRect(from, PAD.top, to - from, height - PAD.top - PAD.bottom);
  }
  if (view.cursor !== null && view.cursor >= view.range.from && view.cursor <= view.range.to) {
    context.strokeStyle = colour("--ink");
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x(view.cursor), PAD.top);
    context.lineTo(x(view.cursor), height - PAD.bottom);
    context.stroke();
    context.setLineDash([]);
  }
}

// Lines over time. `series`: [{colour, value: point => number or null}]; `unit`: number => text; `mark`: point => a letter above it, or null.
export function drawLines(canvas, points, series, view, unit, mark) {
  const there = prepared(canvas);
  if (!there) return;
  const { context, width, height } = there;
  const x = scaleX(view.range, width);
  const shown = points.filter((point) => point.at_ms >= view.range.from && point.at_ms <= view.range.to);
  let most = 0;
  for (const point of shown) for (const { value } of series) most = Math.max(most, value(point) ?? 0);
  const { step, top } = gridSteps(most, 4);
  const y = (value) => height - PAD.bottom - (value / top) * (height - PAD.top - PAD.bottom);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let at = 0; at <= top + step / 2; at += step) {
    context.strokeStyle = colour("--line");
    context.beginPath();
    context.moveTo(PAD.left, y(at));
    context.lineTo(width - PAD.right, y(at));
    context.stroke();
    context.fillStyle = colour("--dim");
    context.fillText(unit(at), PAD.left - 6, y(at));
  }
  for (const { colour: name, value } of series) drawLine(context, shown, value, colour(name), x, y);
  drawMarks(context, shown, mark, x);
  axisX(context, view.range, width, height, x);
  overlay(context, view, height, x);
}

// Letters that would cover each other are left out; the text below the chart has them all.
function drawMarks(context, shown, mark, x) {
  context.fillStyle = colour("--ink");
  context.textAlign = "center";
  context.textBaseline = "top";
  let free = -Infinity;
  for (const point of mark ? shown : []) {
    const letter = mark(point);
    if (letter === null || x(point.at_ms) < free) continue;
    context.fillText(letter, x(point.at_ms), 0);
    free = x(point.at_ms) + 10;
  }
}

function drawLine(context, shown, value, stroke, x, y) {
  context.strokeStyle = stroke;
  context.fillStyle = stroke;
  context.lineWidth = 1.5;
  context.beginPath();
  let last = null;
  for (const point of shown) {
    const number = value(point);
    if (number === null || number === undefined) {
      last = null;
      continue;
    }
    const [px, py] = [x(point.at_ms), y(number)];
    const isBroken = last === null || point.at_ms - last > BREAK_INTERVALS * Math.max(point.elapsed_ms, 1);
    if (isBroken) {
      context.moveTo(px, py);
      // A point between two gaps has no line.
      context.fillRect(px - 1, py - 1, 2, 2);
    } else {
      context.lineTo(px, py);
    }
    last = point.at_ms;
  }
  context.stroke();
  context.lineWidth = 1;
}

// A row a CPU, a column a sample; the darker, the more.
export function drawHeat(canvas, points, key, view) {
  const there = prepared(canvas);
  if (!there) return;
  const { context, width, height } = there;
  const x = scaleX(view.range, width);
  const shown = points.filter((point) => point.at_ms >= view.range.from && point.at_ms <= view.range.to);
  const cpus = [...new Set(shown.flatMap((point) => point.cpus.map(({ cpu }) => cpu)))].sort((a, b) => a - b);
  const row = (height - PAD.top - PAD.bottom) / Math.max(1, cpus.length);
  const rows = new Map(cpus.map((cpu, at) => [cpu, PAD.top + at * row]));
  const ink = colour(key === "missing" ? "--max" : "--p50");
  context.strokeStyle = colour("--line");
  context.strokeRect(PAD.left, PAD.top, width - PAD.left - PAD.right, height - PAD.top - PAD.bottom);
  for (const point of shown) {
    const [from, to] = [Math.max(PAD.left, x(point.at_ms - point.elapsed_ms)), x(point.at_ms)];
    for (const cpu of point.cpus) {
      const share = cpu[key];
      if (share === null || share <= 0) continue;
      context.globalAlpha = Math.min(1, 0.15 + 0.85 * share);
      context.fillStyle = ink;
      context.fillRect(from, rows.get(cpu.cpu), Math.max(1, to - from), Math.max(1, row - 1));
    }
  }
  context.globalAlpha = 1;
  context.fillStyle = colour("--dim");
  context.textAlign = "right";
  context.textBaseline = "middle";
  const every = Math.ceil(14 / row);
  cpus.forEach((cpu, at) => {
    if (at % every === 0) context.fillText(`CPU ${cpu}`, PAD.left - 6, PAD.top + at * row + row / 2);
  });
  axisX(context, view.range, width, height, x);
  overlay(context, view, height, x);
}

// A small line without axes.
export function drawSpark(canvas, points, value, view) {
  const there = prepared(canvas);
  if (!there) return;
  const { context, width, height } = there;
  const shown = points.filter((point) => point.at_ms >= view.range.from && point.at_ms <= view.range.to);
  const top = Math.max(1e-9, ...shown.map((point) => value(point) ?? 0));
  const x = (at) => ((at - view.range.from) / Math.max(1, view.range.to - view.range.from)) * (width - 2) + 1;
  drawLine(context, shown, value, colour("--p99"), x, (number) => height - 2 - (number / top) * (height - 4));
}

// Reports moments and ranges that the reader chooses in a chart, by pointer and by keyboard.
export function onChart(canvas, view, changed) {
  const at = (event) => {
    const { left, width } = canvas.getBoundingClientRect();
    const share = (event.clientX - left - PAD.left) / Math.max(1, width - PAD.left - PAD.right);
    return view.range.from + Math.min(1, Math.max(0, share)) * (view.range.to - view.range.from);
  };
  let from = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = at(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    view.cursor = at(event);
    view.drag = from === null ? null : [from, view.cursor];
    changed(null);
  });
  canvas.addEventListener("pointerleave", () => {
    if (from === null && document.activeElement !== canvas) view.cursor = null;
    changed(null);
  });
  const end = (event) => {
    const chosen = from === null ? null : [from, at(event)].sort((a, b) => a - b);
    from = null;
    view.drag = null;
    // Less is a click.
    const isRange = chosen !== null && chosen[1] - chosen[0] > (view.range.to - view.range.from) / 100;
    changed(isRange ? chosen : null);
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", () => {
    from = null;
    view.drag = null;
    changed(null);
  });
  let anchor = null;
  canvas.addEventListener("keydown", (event) => {
    const step = (view.range.to - view.range.from) / 60;
    const moves = { ArrowLeft: -step, ArrowRight: step, Home: -Infinity, End: Infinity };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const start = view.cursor ?? view.range.to;
    if (event.shiftKey && anchor === null) anchor = start;
    if (!event.shiftKey) anchor = null;
    view.cursor = Math.min(view.range.to, Math.max(view.range.from, start + moves[event.key]));
    view.drag = anchor === null ? null : [anchor, view.cursor];
    changed(null);
  });
  canvas.addEventListener("keyup", (event) => {
    if (event.key !== "Shift" || anchor === null) return;
    const chosen = [anchor, view.cursor].sort((a, b) => a - b);
    anchor = null;
    view.drag = null;
    changed(chosen[1] > chosen[0] ? chosen : null);
  });
}
