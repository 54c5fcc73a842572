"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const [box, detail, status, legend] = ["lanes", "detail", "view", "legend"].map(byId);
  const reasons = data.reasons;
  const whole = Math.max(data.length, 1);
  // Intervals narrower than this, in pixels, are combined with their neighbours. The height of such a bar is the share of time that they
  // cover.
  const NARROW = 2;
  const NEAREST_NS = 1000;
  const EDGES = ["", "it began before the recording", "it continued after the recording", "records were lost in it, so it may be several intervals"];

  const make = (kind, parent, text) => {
    const made = document.createElement(kind);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  };
  const summed = (steps) => { let sum = 0; return Float64Array.from(steps, (step) => (sum += step)); };
  const say = (ns) => {
    const [unit, by] = ns >= 1e9 ? ["s", 1e9] : ns >= 1e6 ? ["ms", 1e6] : ns >= 1e3 ? ["us", 1e3] : ["ns", 1];
    const number = ns / by;
    return number.toFixed(by === 1 || number >= 100 ? 0 : number >= 10 ? 1 : 2) + " " + unit;
  };
  const at = (ns) => (ns / 1e6).toLocaleString("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 }) + " ms";
  const who = (tid) => (tid === 0 ? "nobody (idle)" : (data.threads[tid] ?? "thread") + " (" + tid + ")");

  const lanes = data.lanes.map((lane) => {
    const start = summed(lane.at);
    const end = Float64Array.from(lane.length, (length, i) => start[i] + length);
    // The latest end of all pieces so far. Pieces may overlap, so the last piece may end before an earlier one.
    let most = 0;
    const furthest = Float64Array.from(end, (one) => (most = Math.max(most, one)));
    const several = new Map(lane.several.map(([i, count, off]) => [i, { count, off }]));
    const row = make("div", box);
    row.className = "lane";
    const label = make("span", row, lane.name + " (" + lane.tid + ")");
    label.className = "label";
    label.title = lane.name + " (thread " + lane.tid + " of process " + lane.pid + "), " + say(lane.ran) + " on a CPU";
    return { ...lane, start, end, furthest, several, edges: new Map(lane.edges), row, label, canvas: make("canvas", row) };
  });
  const ticks = data.ticks && (() => {
    const due = summed(data.ticks.due);
    const done = Float64Array.from(due, (at, i) => at + data.ticks.length[i]);
    const sorted = [...data.ticks.length].sort((a, b) => b - a);
    const slowest = sorted[Math.max(0, Math.ceil(sorted.length / 100) - 1)] ?? Infinity;
    const lane = lanes.findIndex((lane) => lane.tid === data.ticks.tid);
    return { due, done, late: data.ticks.late, length: data.ticks.length, isSlow: (i) => data.ticks.length[i] >= slowest, lane };
  })();

  let [from, to] = [0, whole];
  let here = { lane: 0, piece: -1 };
  const hidden = new Set();
  const used = new Set(lanes.flatMap((lane) => [...new Set(lane.reason)]));
  let colours = [];
  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    colours = reasons.map((_, i) => colour("--r" + i));
    Object.assign(colours, { ran: colour("--ran"), ink: colour("--ink"), dim: colour("--dim"), line: colour("--line"), tick: colour("--tick"), slow: colour("--slow"), link: colour("--link") });
  };
  const sized = (canvas) => {
    const [width, height, dense] = [Math.max(canvas.clientWidth, 50), Math.max(canvas.clientHeight, 16), window.devicePixelRatio || 1];
    const [w, h] = [Math.round(width * dense), Math.round(height * dense)];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    const ink = canvas.getContext("2d");
    ink.setTransform(dense, 0, 0, dense, 0, 0);
    ink.clearRect(0, 0, width, height);
    return [ink, width, height];
  };
  // Index of the first element of a sorted list that is greater than `value`.
  const after = (list, value) => {
    let [low, high] = [0, list.length];
    while (low < high) { const mid = (low + high) >> 1; if (list[mid] > value) high = mid; else low = mid + 1; }
    return low;
  };

  const drawLane = (lane, number) => {
    const [ink, width, height] = sized(lane.canvas);
    const scale = width / (to - from);
    const x = (ns) => (ns - from) * scale;
    const [ran0, ran1] = [Math.max(x(lane.known[0]), 0), Math.min(x(lane.known[1]), width)];
    ink.fillStyle = colours.ran;
    if (ran1 > ran0) ink.fillRect(ran0, 2, ran1 - ran0, height - 4);
    const columns = new Map();
    const drawn = { alone: 0, together: 0 };
    for (let i = after(lane.furthest, from); i < lane.start.length && lane.start[i] < to; i++) {
      if (lane.end[i] < from || hidden.has(lane.reason[i])) continue;
      const several = lane.several.get(i);
      const [x0, x1] = [x(lane.start[i]), x(lane.end[i])];
      if (!several && x1 - x0 >= NARROW) {
        drawn.alone++;
        ink.fillStyle = colours[lane.reason[i]];
        ink.fillRect(Math.max(x0, -1), 2, Math.min(x1, width + 1) - Math.max(x0, -1), height - 4);
        continue;
      }
      drawn.together += several ? several.count : 1;
      const off = (several ? several.off : lane.length[i]) * scale;
      for (let c = Math.max(Math.floor(x0), 0); c <= Math.min(Math.floor(x1), width - 1); c++) {
        let column = columns.get(c);
        if (!column) columns.set(c, column = new Float64Array(reasons.length));
        const part = x1 > x0 ? (Math.min(x1, c + 1) - Math.max(x0, c)) / (x1 - x0) : 1;
        column[lane.reason[i]] += Math.max(part * off, 1e-9);
      }
    }
    for (const [c, column] of columns) {
      let y = height - 2;
      for (let r = 0; r < reasons.length; r++) {
        if (column[r] === 0) continue;
        // At least three pixels high, so that short intervals stay visible.
        const high = Math.min(Math.max(column[r] * (height - 4), 3), y - 2);
        ink.fillStyle = colours[r];
        ink.fillRect(c, y - high, 1, high);
        y -= high;
      }
    }
    if (ticks && ticks.lane === number) drawTicks(ink, x, height);
    if (here.lane === number && here.piece >= 0) {
      const [x0, x1] = [x(lane.start[here.piece]), x(lane.end[here.piece])];
      ink.strokeStyle = colours.ink;
      ink.lineWidth = 2;
      ink.strokeRect(Math.max(x0, -3) - 1, 1, Math.max(Math.min(x1, width + 3) - Math.max(x0, -3), 2) + 2, height - 2);
    }
    return drawn;
  };
  const drawTicks = (ink, x, height) => {
    let last = -Infinity;
    for (let i = after(ticks.done, from); i < ticks.due.length && ticks.due[i] < to; i++) {
      const [x0, x1] = [x(ticks.due[i]), x(ticks.done[i])];
      const slow = ticks.isSlow(i);
      if (!slow && x0 - last < 8) continue;
      last = x0;
      ink.fillStyle = slow ? colours.slow : colours.tick;
      ink.fillRect(x0, 0, 1.5, slow ? height : height * 0.25);
      ink.fillRect(x0, 0, Math.max(x1 - x0, slow ? 4 : 1.5), slow ? 3 : 2);
    }
  };
  const drawAxis = () => {
    const [ink, width, height] = sized(byId("axis").querySelector("canvas"));
    const least = ((to - from) * 90) / width;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least);
    const [unit, by] = step >= 1e9 ? ["s", 1e9] : step >= 1e6 ? ["ms", 1e6] : step >= 1e3 ? ["us", 1e3] : ["ns", 1];
    ink.fillStyle = ink.strokeStyle = colours.dim;
    ink.font = "11px system-ui, sans-serif";
    for (let ns = Math.ceil(from / step) * step; ns <= to; ns += step) {
      const x = ((ns - from) * width) / (to - from);
      ink.fillRect(x, height - 6, 1, 6);
      ink.fillText((ns / by).toLocaleString("en", { maximumFractionDigits: 3 }) + " " + unit, x + 3, height - 9);
    }
  };
  const draw = () => {
    drawAxis();
    const sum = { alone: 0, together: 0 };
    let isPart = false;
    lanes.forEach((lane, number) => {
      const place = lane.row.getBoundingClientRect();
      lane.row.classList.toggle("here", number === here.lane);
      if (place.bottom < -200 || place.top > innerHeight + 200) { isPart = true; return; }
      const drawn = drawLane(lane, number);
      sum.alone += drawn.alone;
      sum.together += drawn.together;
    });
    const count = (number) => number.toLocaleString("en");
    let text = at(from) + " to " + at(to) + " (" + say(to - from) + "): " + count(sum.alone) + " intervals";
    if (sum.together > 0) text += ", and " + count(sum.together) + " narrower than " + NARROW + " pixels, drawn together (height: their share of the time)";
    status.textContent = text + (isPart ? ", in the visible lanes" : "");
  };
  let asked = 0;
  const later = () => { if (!asked) asked = requestAnimationFrame(() => { asked = 0; draw(); }); };

  const show = (a, b) => {
    const length = Math.min(Math.max(b - a, NEAREST_NS), whole);
    from = Math.min(Math.max(a, 0), whole - length);
    to = from + length;
    remember();
    later();
  };
  const zoom = (by, around) => show(around - (around - from) * by, around + (to - around) * by);
  const middle = () => {
    const { lane, piece } = here;
    const at = piece >= 0 && lanes[lane] ? (lanes[lane].start[piece] + lanes[lane].end[piece]) / 2 : (from + to) / 2;
    return at >= from && at <= to ? at : (from + to) / 2;
  };
  const showDetail = (number, i) => {
    const lane = lanes[number];
    if (!lane || i < 0) { detail.textContent = ""; return; }
    const several = lane.several.get(i);
    const parts = [lane.name + " (" + lane.tid + "): "];
    if (several) parts.push(several.count.toLocaleString("en") + " intervals, " + say(several.off) + " in total, mostly " + reasons[lane.reason[i]] + ", within " + say(lane.length[i]));
    else parts.push(reasons[lane.reason[i]] + ", " + say(lane.length[i]));
    parts.push(" from " + at(lane.start[i]));
    const stack = data.stacks[lane.stack[i]];
    if (stack && stack[0] >= 0) parts.push(", in " + data.texts[stack[0]]);
    if (!several) parts.push("; CPU " + lane.cpu[i]);
    if (lane.by[i] >= 0) parts.push(" taken by " + who(lane.by[i]));
    if (lane.woken_by[i] >= 0) parts.push("; woken by " + who(lane.woken_by[i]) + (lane.woken[i] >= 0 ? ", " + say(lane.woken[i]) + " before it had a CPU" : ""));
    if (lane.edges.has(i)) parts.push("; " + EDGES[lane.edges.get(i)]);
    detail.textContent = parts.join("") + ".";
    if (stack && stack.length > 1) make("span", detail, stack.slice(1).map((text) => data.texts[text]).join(" ← ")).className = "stack";
  };
  const stand = (lane, piece, isToBeSeen) => {
    here = { lane, piece };
    showDetail(lane, piece);
    const row = lanes[lane]?.row;
    if (isToBeSeen && row) {
      row.scrollIntoView({ block: "nearest" });
      const [start, end] = [lanes[lane].start[piece], lanes[lane].end[piece]];
      if (start < from || end > to) {
        const length = Math.max(to - from, (end - start) * 1.2);
        show((start + end - length) / 2, (start + end + length) / 2);
      }
    }
    remember();
    later();
  };
  const closer = (lane, piece) => {
    const [start, end] = [lanes[lane].start[piece], lanes[lane].end[piece]];
    const length = Math.max(end - start, NEAREST_NS / 3);
    show((start + end) / 2 - length * 1.5, (start + end) / 2 + length * 1.5);
  };
  // The piece at this time, or else the nearest piece within that distance.
  const pieceAt = (lane, ns, within) => {
    let [best, off] = [-1, Infinity];
    for (let i = after(lane.furthest, ns - within - 1); i < lane.start.length && lane.start[i] <= ns + within; i++) {
      if (hidden.has(lane.reason[i])) continue;
      const away = Math.max(lane.start[i] - ns, ns - lane.end[i], 0);
      if (away < off || (away === off && lane.length[i] < lane.length[best])) [best, off] = [i, away];
    }
    return best;
  };
  const next = (lane, i, step) => {
    do i += step; while (i >= 0 && i < lane.start.length && hidden.has(lane.reason[i]));
    return i >= 0 && i < lane.start.length ? i : -1;
  };

  const remember = () => {
    const parts = ["from=" + Math.round(from), "to=" + Math.round(to)];
    if (here.piece >= 0) parts.push("lane=" + here.lane, "piece=" + here.piece);
    try { history.replaceState(null, "", "#" + parts.join("&")); } catch (_) { /* some browsers forbid this for local files */ }
  };
  const recall = () => {
    const given = new Map(location.hash.slice(1).split("&").map((part) => part.split("=")));
    const number = (name) => (/^\d{1,16}$/.test(given.get(name) ?? "") ? Number(given.get(name)) : -1);
    const [lane, piece] = [number("lane"), number("piece")];
    if (number("to") > number("from") && number("from") >= 0) show(number("from"), number("to"));
    if (lane >= 0 && lane < lanes.length && piece >= 0 && piece < lanes[lane].start.length) stand(lane, piece, false);
  };

  const numberOf = (event) => { const row = event.target.closest?.(".lane"); return row ? lanes.findIndex((lane) => lane.row === row) : -1; };
  const nsOf = (event, canvas) => {
    const place = canvas.getBoundingClientRect();
    return from + ((event.clientX - place.left) / Math.max(place.width, 1)) * (to - from);
  };
  const pixel = () => (to - from) / Math.max(lanes[0]?.canvas.clientWidth ?? 1, 1);
  const fingers = new Map();
  let pulled = null;
  box.addEventListener("pointerdown", (event) => {
    const number = numberOf(event);
    if (number < 0 || event.button > 0) return;
    fingers.set(event.pointerId, event.clientX);
    const xs = [...fingers.values()];
    pulled = { x: event.clientX, from, to, moved: fingers.size > 1, apart: xs.length === 2 ? Math.abs(xs[0] - xs[1]) : 0 };
    event.target.setPointerCapture?.(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    const number = numberOf(event);
    if (!pulled || !fingers.has(event.pointerId)) {
      if (number >= 0) showDetail(number, pieceAt(lanes[number], nsOf(event, lanes[number].canvas), 3 * pixel()));
      return;
    }
    fingers.set(event.pointerId, event.clientX);
    const xs = [...fingers.values()];
    const each = (pulled.to - pulled.from) / Math.max(lanes[0].canvas.clientWidth, 1);
    if (xs.length === 2 && pulled.apart > 0) {
      const by = pulled.apart / Math.max(Math.abs(xs[0] - xs[1]), 8);
      const mid = (pulled.from + pulled.to) / 2;
      show(mid - (mid - pulled.from) * by, mid + (pulled.to - mid) * by);
    } else if (pulled.moved || Math.abs(event.clientX - pulled.x) > 4) {
      pulled.moved = true;
      const by = (pulled.x - event.clientX) * each;
      show(pulled.from + by, pulled.to + by);
    }
  });
  const release = (event) => {
    const number = numberOf(event);
    if (fingers.delete(event.pointerId) && pulled && !pulled.moved && number >= 0) stand(number, pieceAt(lanes[number], nsOf(event, lanes[number].canvas), 3 * pixel()), false);
    if (fingers.size === 0) pulled = null;
  };
  box.addEventListener("pointerup", release);
  box.addEventListener("pointercancel", (event) => { fingers.delete(event.pointerId); pulled = null; });
  box.addEventListener("pointerleave", () => showDetail(here.lane, here.piece));
  box.addEventListener("dblclick", () => { if (here.piece >= 0) closer(here.lane, here.piece); });
  byId("timeline").addEventListener("wheel", (event) => {
    const canvas = lanes[Math.max(numberOf(event), 0)]?.canvas;
    if (!canvas) return;
    if (event.ctrlKey || event.metaKey) zoom(Math.min(Math.max(Math.exp(event.deltaY / 300), 0.3), 3), nsOf(event, canvas));
    else if (event.deltaX !== 0 || event.shiftKey) { const by = (event.deltaX || event.deltaY) * pixel(); show(from + by, to + by); }
    else return;
    event.preventDefault();
  }, { passive: false });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || lanes.length === 0) return;
    const lane = lanes[here.lane];
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const updown = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (sideways && event.shiftKey) { const by = (sideways * (to - from)) / 4; show(from + by, to + by); }
    else if (sideways) {
      const first = Math.min(after(lane.furthest, from), lane.start.length - 1);
      const to = here.piece >= 0 ? next(lane, here.piece, sideways) : next(lane, first - sideways, sideways);
      if (to >= 0) stand(here.lane, to, true);
    } else if (updown) {
      const to = here.lane + updown;
      if (to >= 0 && to < lanes.length) stand(to, pieceAt(lanes[to], middle(), whole), true);
    } else if (event.key === "Home" || event.key === "End") {
      const to = event.key === "Home" ? next(lane, -1, 1) : next(lane, lane.start.length, -1);
      if (to >= 0) stand(here.lane, to, true);
    } else if (event.key === "Enter" && here.piece >= 0) closer(here.lane, here.piece);
    else if (event.key === "s" && ticks) slow();
    else return;
    event.preventDefault();
  });
  const slow = () => {
    const mid = (from + to) / 2;
    for (let i = after(ticks.due, mid), turn = 0; turn <= ticks.due.length; i++, turn++) {
      if (i >= ticks.due.length) i = 0;
      if (!ticks.isSlow(i)) continue;
      // Centre the tick, because the next search starts at the middle of the view.
      const room = Math.max(ticks.length[i] * 2, NEAREST_NS);
      show(ticks.due[i] - room, ticks.due[i] + room);
      here = { lane: ticks.lane, piece: -1 };
      detail.textContent = "The tick due at " + at(ticks.due[i]) + " took " + say(ticks.length[i]) + ". It began " + say(ticks.late[i]) + " late.";
      lanes[ticks.lane]?.row.scrollIntoView({ block: "nearest" });
      return;
    }
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "=") zoom(0.5, middle());
    else if (event.key === "-" || event.key === "−") zoom(2, middle());
    else if (event.key === "Escape" || event.key === "0") show(0, whole);
  });
  byId("in").addEventListener("click", () => zoom(0.5, middle()));
  byId("out").addEventListener("click", () => zoom(2, middle()));
  byId("all").addEventListener("click", () => show(0, whole));
  for (const button of document.querySelectorAll("button[data-lane]")) {
    button.addEventListener("click", () => {
      const number = +button.dataset.lane;
      const [start, length] = [+button.dataset.at, +button.dataset.for];
      const piece = pieceAt(lanes[number], start + length / 2, 0);
      show(start - length, start + 2 * length);
      stand(number, piece, true);
      box.focus({ preventScroll: true });
    });
  }
  const key = (text, colour, reason) => {
    const label = make("label", legend);
    if (reason >= 0) {
      const check = make("input", label);
      check.type = "checkbox";
      check.checked = true;
      check.addEventListener("change", () => { check.checked ? hidden.delete(reason) : hidden.add(reason); later(); });
    }
    const sample = make("span", label);
    sample.className = "box";
    sample.style.background = "var(" + colour + ")";
    label.append(text);
  };
  key("on a CPU", "--ran", -1);
  reasons.forEach((reason, i) => { if (used.has(i)) key(reason, "--r" + i, i); });
  if (ticks) { key("a tick, due to done", "--tick", -1); key("slowest 1 % of ticks", "--slow", -1); }
  if (lanes.length === 0) make("p", box, "No thread was recorded.");
  addEventListener("resize", later);
  addEventListener("scroll", later, { passive: true });
  addEventListener("hashchange", () => recall());
  matchMedia("(prefers-color-scheme: dark)").addEventListener?.("change", () => { paint(); later(); });
  document.documentElement.classList.add("drawn");
  paint();
  recall();
  draw();
})();
