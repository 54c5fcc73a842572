"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const [graph, detail, field, found, back] = ["graph", "detail", "find", "found", "back"].map(byId);
  const { parent, name, names, kinds } = data;
  const count = parent.length;
  const isPair = data.before !== null;
  // Frames narrower than this, in pixels, are drawn only after zooming in.
  const NARROWEST = 1.5;
  const FRAMES_MAX = 6000;

  // Nodes are in depth-first order: a parent comes before its children.
  const depth = new Uint16Array(count);
  const end = new Uint32Array(count).fill(0);
  for (let i = 1; i < count; i++) depth[i] = depth[parent[i]] + 1;
  for (let i = count - 1; i >= 0; i--) {
    end[i] = Math.max(end[i], i + 1);
    if (i > 0) end[parent[i]] = Math.max(end[parent[i]], end[i]);
  }
  const sums = (own) => {
    const total = Float64Array.from(own);
    for (let i = count - 1; i > 0; i--) total[parent[i]] += total[i];
    return total;
  };
  const after = sums(data.own);
  const before = isPair ? sums(data.before) : after;
  const whole = Math.max(after[0], before[0], 1);
  let most = 0;
  if (isPair) for (let i = 0; i < count; i++) most = Math.max(most, Math.abs(after[i] - before[i]));

  let width = after;
  let start = new Float64Array(count);
  const lay = () => {
    // A frame starts where its parent starts, after its earlier siblings.
    const next = new Float64Array(count);
    for (let i = 1; i < count; i++) {
      start[i] = start[parent[i]] + next[parent[i]];
      next[parent[i]] += width[i];
    }
  };
  lay();

  const say = (weight) => {
    const number = weight * data.factor;
    const digits = data.factor === 1 || Math.abs(number) >= 100 ? 0 : 2;
    return number.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
  };
  const percent = (share) => (share * 100).toFixed(2) + " %";
  const kindWords = ["program", "kernel", "inlined", "generated at run time", "no name"];
  const label = (i) => (i === 0 ? "all" : names[name[i]]);
  const describe = (i) => {
    const kind = i === 0 ? "" : " (" + kindWords[kinds[name[i]]] + ")";
    const own = say(data.own[i]) + " in the function itself";
    let text = label(i) + kind + ": " + say(after[i]) + " " + data.unit + ", " + percent(after[i] / (after[0] || 1)) + "; " + own;
    if (isPair) {
      const change = (after[i] - before[i]) / whole;
      text += "; before " + say(before[i]) + ", " + percent(before[i] / (before[0] || 1));
      text += "; change " + (change < 0 ? "−" : "+") + percent(Math.abs(change));
    }
    return text;
  };

  let zoomed = 0;
  let here = 0;
  let sought = null;
  let isIcicle = data.direction === "icicle";
  let shown = new Map();

  const frame = (i, left, share, row) => {
    const box = document.createElement("div");
    box.className = "frame " + (i === 0 ? "all" : "kind" + kinds[name[i]]);
    box.style.left = left * 100 + "%";
    box.style.width = share * 100 + "%";
    box.style.setProperty("--row", row);
    let mark = "";
    if (isPair && i > 0) {
      const change = after[i] - before[i];
      const size = most > 0 ? Math.sqrt(Math.abs(change) / most) : 0;
      box.classList.add(change > 0 ? "grew" : change < 0 ? "shrank" : "kept");
      box.style.setProperty("--much", (size * 100).toFixed(0) + "%");
      if (size > 0.1) mark = change > 0 ? "▲ " : "▼ ";
    } else if (i > 0) {
      box.style.background = data.colors[name[i]];
    }
    if (sought && i > 0 && sought[name[i]]) box.classList.add("match");
    if (zoomed !== i && end[i] > zoomed && i < zoomed) { box.classList.add("below"); box.style.background = ""; }
    box.textContent = mark + label(i);
    box.setAttribute("role", "treeitem");
    box.setAttribute("aria-level", String(depth[i] + 1));
    box.setAttribute("aria-label", describe(i));
    box.tabIndex = -1;
    box.dataset.node = i;
    return box;
  };

  const draw = () => {
    const pixels = Math.max(graph.clientWidth, 300);
    const all = width[zoomed] || 1;
    const boxes = document.createDocumentFragment();
    shown = new Map();
    let deepest = 0;
    const put = (i, left, share) => {
      const box = frame(i, left, share, depth[i]);
      shown.set(i, box);
      boxes.append(box);
      deepest = Math.max(deepest, depth[i]);
    };
    const path = [];
    for (let i = zoomed; i !== 0; i = parent[i]) path.push(parent[i]);
    path.reverse().forEach((i) => put(i, 0, 1));
    for (let i = zoomed; i < end[zoomed]; ) {
      const share = width[i] / all;
      if (i !== zoomed && (share * pixels < NARROWEST || shown.size >= FRAMES_MAX)) {
        i = end[i];
        continue;
      }
      put(i, (start[i] - start[zoomed]) / all, i === zoomed ? 1 : share);
      i++;
    }
    graph.className = isIcicle ? "icicle" : "flame";
    graph.style.setProperty("--rows", deepest + 1);
    byId("axis").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((part) => {
      const mark = document.createElement("span");
      mark.textContent = say(all * part) + (part === 1 ? " " + data.unit : "");
      return mark;
    }));
    graph.replaceChildren(boxes);
    back.disabled = zoomed === 0;
    if (!shown.has(here)) here = zoomed;
    shown.get(here).tabIndex = 0;
    showDetail(here);
    // Scroll so that the zoomed frame is visible.
    const box = byId("scroll");
    const room = box.clientHeight;
    const edge = depth[zoomed] * (graph.clientHeight / (deepest + 1));
    box.scrollTop = isIcicle ? Math.max(0, edge - room / 3) : box.scrollHeight - room - Math.max(0, edge - room / 3);
  };
  const showDetail = (i) => { detail.textContent = describe(i); };
  const stand = (i) => {
    if (!shown.has(i)) return;
    if (shown.has(here)) shown.get(here).tabIndex = -1;
    here = i;
    const box = shown.get(i);
    box.tabIndex = 0;
    box.focus({ preventScroll: false });
    showDetail(i);
  };
  const zoom = (i) => {
    const hadFocus = graph.contains(document.activeElement);
    zoomed = i;
    here = i;
    draw();
    remember();
    if (hadFocus) stand(i);
  };

  const search = () => {
    const text = field.value;
    sought = null;
    found.textContent = "";
    if (text !== "") {
      let test;
      try {
        const pattern = new RegExp(text, "i");
        test = (one) => pattern.test(one);
      } catch (_) {
        const low = text.toLowerCase();
        test = (one) => one.toLowerCase().includes(low);
      }
      sought = names.map(test);
      let sum = 0;
      let frames = 0;
      for (let i = 1; i < count; ) {
        if (sought[name[i]]) { sum += after[i]; frames++; i = end[i]; } else i++;
      }
      found.textContent = frames === 0 ? "no function matches" : percent(sum / (after[0] || 1)) + " in matching functions and what they call";
    }
    draw();
    remember();
  };
  const remember = () => {
    const parts = [];
    if (zoomed !== 0) parts.push("zoom=" + zoomed);
    if (field.value !== "") parts.push("find=" + encodeURIComponent(field.value));
    try { history.replaceState(null, "", parts.length ? "#" + parts.join("&") : location.pathname + location.search); } catch (_) { /* some browsers forbid this for local files */ }
  };
  const recall = () => {
    for (const part of location.hash.slice(1).split("&")) {
      const [key, value] = [part.split("=")[0], part.split("=").slice(1).join("=")];
      if (key === "zoom" && +value > 0 && +value < count) zoomed = Math.floor(+value);
      if (key === "find") try { field.value = decodeURIComponent(value); } catch (_) { field.value = value; }
    }
  };

  const near = (i, step) => {
    let best = -1;
    for (const other of shown.keys()) {
      if (depth[other] !== depth[i] || other === i) continue;
      if (step > 0 ? other > i && (best < 0 || other < best) : other < i && other > best) best = other;
    }
    return best;
  };
  const firstAbove = (i) => {
    let best = -1;
    for (const other of shown.keys()) if (other !== 0 && parent[other] === i && (best < 0 || width[other] > width[best])) best = other;
    return best;
  };
  const nodeOf = (event) => { const box = event.target.closest(".frame"); return box ? +box.dataset.node : -1; };
  graph.addEventListener("click", (event) => { const i = nodeOf(event); if (i >= 0) { graph.focus(); zoom(i); stand(i); } });
  graph.addEventListener("mouseover", (event) => { const i = nodeOf(event); if (i >= 0) showDetail(i); });
  graph.addEventListener("mouseleave", () => showDetail(here));
  graph.addEventListener("focusin", (event) => { const i = nodeOf(event); if (i >= 0 && i !== here) stand(i); });
  graph.addEventListener("keydown", (event) => {
    const outwards = isIcicle ? "ArrowUp" : "ArrowDown";
    const inwards = isIcicle ? "ArrowDown" : "ArrowUp";
    let to = -1;
    if (event.key === outwards) to = here === 0 ? -1 : parent[here];
    else if (event.key === inwards) to = firstAbove(here);
    else if (event.key === "ArrowLeft") to = near(here, -1);
    else if (event.key === "ArrowRight") to = near(here, 1);
    else if (event.key === "Enter" || event.key === " ") { zoom(here); event.preventDefault(); return; }
    else return;
    event.preventDefault();
    stand(to);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isWriting = event.target === field;
    if (event.key === "/" && !isWriting) { field.focus(); event.preventDefault(); }
    else if (event.key === "Escape") {
      if (field.value !== "") { field.value = ""; search(); } else if (zoomed !== 0) zoom(parent[zoomed]);
    } else if (event.key === "Backspace" && !isWriting && zoomed !== 0) { zoom(parent[zoomed]); event.preventDefault(); }
  });
  let waiting = 0;
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 120); });
  back.addEventListener("click", () => zoom(0));
  byId("turn").addEventListener("click", () => { isIcicle = !isIcicle; draw(); });
  const old = byId("old");
  if (old) old.addEventListener("change", () => { width = old.checked ? before : after; lay(); draw(); });
  for (const button of document.querySelectorAll("button.name")) {
    button.addEventListener("click", () => {
      field.value = "^" + button.textContent.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$";
      search();
      graph.scrollIntoView({ block: "nearest" });
    });
  }
  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 150); });
  addEventListener("hashchange", () => { recall(); search(); });
  recall();
  document.documentElement.classList.add("drawn");
  if (field.value !== "") search(); else draw();
})();
