// Node.js setInterval with 2 ms of work. Its timers count whole milliseconds: 1000 / 60 becomes 16 ms. It prints its own count at SIGTERM.
// usage: node interval.js HZ WORK_US
const [hz, workUs] = process.argv.slice(2).map(Number);
let sink = 1;
function rounds(n) {
  let x = sink;
  for (let i = 0; i < n; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0;
  sink = x;
}
let best = Infinity;
for (let i = 0; i < 40; i++) {
  const start = process.hrtime.bigint();
  rounds(200000);
  best = Math.min(best, Number(process.hrtime.bigint() - start) / 1000);
}
const work = Math.round((200000 / best) * workUs * (Number(process.env.ZOO_WORK_PERCENT || 100) / 100));
let ticks = 0;
const start = process.hrtime.bigint();
setInterval(() => {
  rounds(work);
  ticks++;
}, 1000 / hz);
for (const name of ["SIGTERM", "SIGINT"]) {
  process.on(name, () => {
    const seconds = Number(process.hrtime.bigint() - start) / 1e9;
    console.error(`zoo: ${ticks} ticks in ${seconds.toFixed(3)} s, ${(ticks / seconds).toFixed(3)} Hz`);
    process.exit(0);
  });
}
