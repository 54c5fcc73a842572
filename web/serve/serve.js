// The page of `evenkeel serve`: the past from /api/v1/history, then one event a sample. Whatever comes from the host is put in as text.

import { drawHeat, drawLines, drawSpark, onChart, timeText } from "./charts.js";

// More points than any server keeps.
const POINTS_MAX = 7200;

// What stands above a late tick in the chart.
const CAUSE_LETTERS = { stolen: "S", throttled: "T", preempted: "P", "page-fault": "F", interrupt: "I", lock: "K", "own-work": "W", "late-timer": "L", "vm-paused": "V", unknown: "?" };

const byId = (id) => document.getElementById(id);
const state = { points: [], model: null, server: null, heat: "missing", seconds: 300, stored: null };
const view = { range: { from: 0, to: 1 }, cursor: null, drag: null, fixed: null };

// A number of the model; null if it is unknown.
const known = (value) => (typeof value === "number" ? value : null);
const fixed = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const percent = (share) => (share === null || share === undefined ? "–" : `${(share * 100).toFixed(1)} %`);

export function durationText(us) {
  if (us === null || us === undefined) return "–";
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  if (us >= 1e3) return `${(us / 1e3).toFixed(us >= 1e4 ? 0 : 1)} ms`;
  return `${us.toFixed(0)} µs`;
}

const keyOf = (server) => `${server.name} ${server.pid ?? ""}`;
const ofServer = (point, key) => point.servers.find((server) => keyOf(server) === key);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function setRange() {
  const last = state.points.at(-1)?.at_ms ?? Date.now();
  if (view.fixed) {
    view.range = view.fixed;
  } else {
    const from = state.seconds > 0 ? last - state.seconds * 1000 : (state.points[0]?.at_ms ?? last - 60000);
    view.range = { from, to: Math.max(last, from + 1) };
  }
  byId("live").hidden = view.fixed === null;
}

// The sample at the cursor, or else the newest one of the range.
function pointShown() {
  const at = view.cursor ?? view.range.to;
  let best = null;
  for (const point of state.points) {
    if (point.at_ms < view.range.from || point.at_ms > view.range.to) continue;
    if (best === null || Math.abs(point.at_ms - at) < Math.abs(best.at_ms - at)) best = point;
  }
  return best;
}

function showServers() {
  const newest = state.points.at(-1);
  const servers = newest?.servers ?? [];
  byId("no-servers").hidden = servers.length > 0;
  if (state.server === null && servers.length > 0) state.server = keyOf(servers[0]);
  const body = byId("servers").tBodies[0];
  while (body.rows.length > servers.length) body.deleteRow(-1);
  servers.forEach((server, at) => {
    const row = body.rows[at] ?? newRow(body);
    const key = keyOf(server);
    row.dataset.key = key;
    row.setAttribute("aria-selected", String(key === state.server));
    const button = row.cells[0].firstChild;
    button.textContent = server.pid === null ? server.name : `${server.name} (${server.pid})`;
    button.setAttribute("aria-pressed", String(key === state.server));
    const texts = [fixed(server.ticks_per_s, 1), durationText(server.lateness_us_p50), durationText(server.lateness_us_p99),
      durationText(server.lateness_us_max), fixed(server.late, 0), fixed(server.missed_per_s, 1), percent(server.cpu)];
    texts.forEach((text, cell) => { row.cells[cell + 1].textContent = text; });
    const isBad = (server.missed_per_s ?? 0) > 0 || (server.late ?? 0) > 0;
    row.cells[5].classList.toggle("bad", isBad);
    drawSpark(row.cells[8].firstChild, state.points, (point) => ofServer(point, key)?.lateness_us_p99 ?? null, view);
  });
}

function newRow(body) {
  const row = body.insertRow();
  const button = element("button");
  button.type = "button";
  button.addEventListener("click", () => { state.server = row.dataset.key; draw(); });
  row.insertCell().append(button);
  for (let at = 0; at < 7; at += 1) row.insertCell().className = "n";
  row.insertCell().append(element("canvas"));
  return row;
}

function showLateness(point) {
  const of = (name) => (at) => ofServer(at, state.server)?.[name] ?? null;
  const series = [
    { colour: "--max", value: of("lateness_us_max") },
    { colour: "--p99", value: of("lateness_us_p99") },
    { colour: "--p50", value: of("lateness_us_p50") },
  ];
  byId("lateness-of").textContent = state.server ?? "no server";
  const marks = (at) => (ofServer(at, state.server)?.late_ticks ? CAUSE_LETTERS[ofServer(at, state.server).late_ticks.cause] ?? "?" : null);
  drawLines(byId("lateness"), state.points, series, view, durationText, marks);
  const server = point && ofServer(point, state.server);
  byId("lateness-text").textContent = server
    ? `${timeText(point.at_ms)}: p50 ${durationText(server.lateness_us_p50)}, p99 ${durationText(server.lateness_us_p99)}, ` +
      `max ${durationText(server.lateness_us_max)}; ${lateText(server)}`
    : "";
}

// How many ticks were late or missed, and why.
function lateText({ late_ticks }) {
  if (!late_ticks) return "0 late";
  const { count, cause, evidence } = late_ticks;
  return `${count} late: ${cause.replace("-", " ")} (${evidence})`;
}

function showCpus(point) {
  drawHeat(byId("cpus"), state.points, state.heat, view);
  const most = point?.cpus.filter((cpu) => cpu[state.heat] !== null).sort((a, b) => b[state.heat] - a[state.heat])[0];
  byId("cpus-text").textContent = most
    ? `${timeText(point.at_ms)}: most on CPU ${most.cpu}: ${percent(most.busy)} busy, ${percent(most.missing)} missing`
    : "";
}

function showNetwork(point) {
  const series = [
    { colour: "--max", value: ({ drops }) => drops.udp_buffers },
    { colour: "--p99", value: ({ drops }) => drops.backlog },
    { colour: "--p50", value: ({ drops }) => drops.interfaces },
  ];
  drawLines(byId("network"), state.points, series, view, (value) => (value >= 1 || value === 0 ? String(Math.round(value)) : value.toFixed(1)));
  const each = (value) => (value === null ? "not known" : `${fixed(value, 1)}/s`);
  byId("network-text").textContent = point
    ? `${timeText(point.at_ms)}: full socket buffers ${each(point.drops.udp_buffers)}, full CPU queues ${each(point.drops.backlog)}, interfaces ${each(point.drops.interfaces)}`
    : "";
  const left = leftOut(state.model);
  byId("network-left-out").textContent = left.join("; ");
  byId("network-left-out").hidden = left.length === 0;
}

// What is not watched because there is too much of it.
function leftOut(model) {
  if (!model) return [];
  const some = (count, text) => (count > 0 ? [`${count} ${text}`] : []);
  const ofServer = ({ name, udp }) => some(udp.sockets_beyond, `more UDP sockets of ${name}, with fewer drops, are not watched`);
  return [
    ...some(model.host.interfaces_beyond, "more interfaces, with fewer drops and packets, are not watched"),
    ...some(model.host.disks_beyond, "less busy disks are not watched"),
    ...model.servers.flatMap(ofServer),
  ];
}

function showSettings(settings) {
  const text = byId("settings-text");
  const isKnown = settings && !("unknown" in settings);
  const drift = isKnown ? settings.drift : [];
  text.className = drift.length > 0 ? "bad" : "";
  if (!isKnown) text.textContent = settings?.why ?? "not known";
  else if (settings.why_unknown) text.textContent = `not known: ${settings.why_unknown}`;
  else if (drift.length > 0) text.textContent = `${drift.length + settings.drift_beyond} of the applied settings no longer hold.`;
  else text.textContent = settings.holds > 0 ? `All ${settings.holds} applied settings hold.` : "evenkeel has applied no settings here.";
  if (isKnown) {
    const findings = Object.entries(settings.findings).map(([level, count]) => `${count} ${level}`).join(", ");
    if (findings) text.textContent += ` The audit has: ${findings}. Run evenkeel audit for the reasons.`;
  }
  byId("drift").hidden = drift.length === 0;
  const rows = drift.map(({ knob, place, wanted, found, mend }) => {
    const row = element("tr");
    row.append(element("td", place && place !== knob ? `${knob} (${place})` : knob), element("td", wanted), element("td", found));
    const cell = element("td");
    cell.append(element("code", mend));
    row.append(cell);
    return row;
  });
  byId("drift").tBodies[0].replaceChildren(...rows);
}

// The late ticks of each server by cause, since evenkeel started.
function showCauses(servers) {
  const rows = servers.filter(({ causes }) => Object.keys(causes).length > 0).map((server) => {
    const counts = Object.entries(server.causes).sort(([, a], [, b]) => b - a);
    return [keyOf(server), counts.map(([cause, count]) => `${count} ${cause.replace("-", " ")}`).join(", ")];
  });
  byId("no-causes").hidden = rows.length > 0;
  byId("causes").replaceChildren(...rows.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
}

function showHost({ host, credits, suspended_ns }) {
  const each = (value, digits, unit) => (known(value) === null ? (value?.why ?? "not known") : `${value.toFixed(digits)} ${unit}`);
  const share = (value) => (known(value) === null ? (value?.why ?? "not known") : percent(value));
  const rows = [
    ["stolen by the hypervisor", share(host.all?.steal ?? null)],
    ["a thread waited for a CPU", share(host.cpu_pressure?.some)],
    ["a thread waited for memory", share(host.memory_pressure?.some)],
    ["major page faults", each(host.major_faults_per_s, 1, "/s")],
    ["pages read from swap", each(host.swap_ins_per_s, 1, "/s")],
    ["UDP received", each(host.udp?.in_per_s, 0, "/s")],
    ["UDP sent", each(host.udp?.out_per_s, 0, "/s")],
    ["switches between threads", each(host.context_switches_per_s, 0, "/s")],
    ["clock source", typeof host.clock_source === "string" ? host.clock_source : (host.clock_source?.why ?? "not known")],
  ];
  if (suspended_ns > 1e7) rows.push(["suspended", `${(suspended_ns / 1e9).toFixed(1)} s`]);
  if (credits) {
    const left = credits.minutes_left;
    rows.push(["CPU credits (modelled)", `${credits.balance.toFixed(0)}; ${left === null ? "they last" : known(left) === null ? left.why : `${left.toFixed(0)} min left at this use`}`]);
  }
  byId("host").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
}

function showUnreadable(unreadable) {
  byId("unreadable").hidden = unreadable.length === 0;
  const items = unreadable.map(({ what, why, mend }) => {
    const item = element("li", `${what}: ${why}. `);
    if (mend) item.append(element("code", mend));
    return item;
  });
  byId("unreadable").querySelector("ul").replaceChildren(...items);
}

let isDrawing = false;

// At most once a frame, however many samples and movements there are.
function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    setRange();
    const point = pointShown();
    showServers();
    showLateness(point);
    showCpus(point);
    showNetwork(point);
  });
}

function add(points) {
  const last = state.points.at(-1)?.at_ms ?? 0;
  // The clock may be set back: then the past is no longer comparable.
  if (points.length > 0 && points.at(-1).at_ms < last) state.points = [];
  const newest = state.points.at(-1)?.at_ms ?? 0;
  state.points.push(...points.filter((point) => point.at_ms > newest));
  if (state.points.length > POINTS_MAX) state.points.splice(0, state.points.length - POINTS_MAX);
}

function setStatus(text, className) {
  const status = byId("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = className;
}

async function fill() {
  const response = await fetch("api/v1/history");
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  const { points } = await response.json();
  // Samples may have arrived while this was on its way.
  const last = points.at(-1)?.at_ms ?? 0;
  state.points = [...points, ...state.points.filter((point) => point.at_ms > last)];
  draw();
}

function show(model) {
  state.model = model;
  showSettings(model.settings);
  showHost(model);
  showCauses(model.servers);
  showUnreadable(model.unreadable);
  draw();
}

function connect() {
  const events = new EventSource("api/v1/events");
  events.addEventListener("open", () => { fill().catch((error) => setStatus(error.message, "bad")); });
  events.addEventListener("sample", (event) => {
    const { point, model } = JSON.parse(event.data);
    add([point]);
    setStatus(`live, ${timeText(point.at_ms)}`, "good");
    show(model);
  });
  events.addEventListener("error", () => setStatus("no connection; trying again", "bad"));
}

// The stored past: the points of the chosen time, and the model of its end. Only the newest request counts.
let asked = 0;
async function load(from, to) {
  asked += 1;
  const own = asked;
  const get = async (path) => {
    const response = await fetch(path);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return response.json();
  };
  const [first, last] = state.stored;
  const [begin, end] = [Math.max(first, Math.round(from)), Math.min(last, Math.round(to))];
  const [{ points, is_thinned }, model] = await Promise.all([
    get(`api/v1/history?from_ms=${begin}&to_ms=${end}`), get(`api/v1/model?at_ms=${end}`)]);
  if (own !== asked) return;
  state.points = points;
  view.fixed = { from: begin, to: Math.max(end, begin + 1) };
  byId("at").value = new Date(end).toISOString().slice(0, 19);
  setStatus(`stored, ${new Date(end).toISOString().slice(0, 19).replace("T", " ")} UTC${is_thinned ? "; some samples are left out" : ""}`, "good");
  show(model);
}

// The chosen length of time up to a moment.
function loadUntil(to) {
  const [first, last] = state.stored;
  const end = Math.min(last, Math.max(first, to));
  const from = state.seconds > 0 ? end - state.seconds * 1000 : first;
  return load(from, end).catch((error) => setStatus(error.message, "bad"));
}

async function begin() {
  const response = await fetch("api/v1/replay");
  const answer = response.ok ? await response.json() : { is_stored: false };
  if (!answer.is_stored) {
    connect();
    return;
  }
  state.stored = answer.range_ms;
  byId("moment").hidden = false;
  byId("live").textContent = "Back to the end";
  // What was loaded last, whether or not it is drawn yet.
  const move = (by) => view.fixed && loadUntil(view.fixed.to + by * (view.fixed.to - view.fixed.from));
  byId("earlier").addEventListener("click", () => move(-1));
  byId("later").addEventListener("click", () => move(1));
  byId("at").addEventListener("change", () => {
    const at = Date.parse(`${byId("at").value}Z`);
    if (!Number.isNaN(at)) loadUntil(at + 999);
  });
  await loadUntil(state.stored[1]);
}

function choose(range) {
  if (state.stored) {
    if (range === null) loadUntil(state.stored[1]);
    else load(range[0], range[1]).catch((error) => setStatus(error.message, "bad"));
    return;
  }
  view.fixed = range === null ? null : { from: range[0], to: range[1] };
  if (range === null) view.cursor = null;
  draw();
}

for (const button of byId("range").querySelectorAll("button[data-seconds]")) {
  button.addEventListener("click", () => {
    state.seconds = Number(button.dataset.seconds);
    for (const other of byId("range").querySelectorAll("button[data-seconds]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    if (state.stored) loadUntil(view.fixed?.to ?? state.stored[1]);
    else choose(null);
  });
}
byId("live").addEventListener("click", () => choose(null));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") choose(null); });
for (const radio of document.querySelectorAll("input[name=heat]")) {
  radio.addEventListener("change", () => { state.heat = radio.value; draw(); });
}
for (const id of ["lateness", "cpus", "network"]) {
  onChart(byId(id), view, (range) => { if (range === null) draw(); else choose(range); });
}
window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
begin().catch((error) => setStatus(error.message, "bad"));
