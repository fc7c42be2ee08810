// A track of random boxes, drawn at many scales: `problems` says what is wrong.

let seed = 9;
const random = (below) => {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return seed % below;
};
const boxes = [];
for (let at = 0, time = 0; at < 3000; at += 1) {
  const begin = time + random(400);
  time = begin + (random(50) === 0 ? random(90000) : random(300));
  boxes.push({ begin, end: time, id: at, count: 1, tint: random(5) });
}
const track = makeTrack(boxes);
const width = 800;

function checkBox({ x0, x1, tint, from, to, density }, next, t0, scale) {
  if (from !== next || to <= from) return `box ${next} is lost: ${from} to ${to}`;
  if (Math.abs(t0 + x0 * scale - boxes[from].begin) > 0.01) return `box ${from} begins elsewhere`;
  if (x1 * scale + t0 < boxes[to - 1].end - 0.01) return `box ${to - 1} ends earlier`;
  const length = boxes[to - 1].end - boxes[from].begin;
  if (to - from > 1 && length > 2 * CELL * scale) return `box ${from} is merged too far`;
  if (!boxes.slice(from, to).some((box) => box.tint === tint)) return `box ${from} has a colour of none`;
  return density >= 0 && density <= 1 ? "" : `density ${density}`;
}

function check(t0, scale) {
  const drawn = [];
  const t1 = t0 + width * scale;
  const emit = (x0, x1, tint, from, to, density) => drawn.push({ x0, x1, tint, from, to, density });
  visibleBoxes(track, t0, t1, scale, emit);
  let next = boxes.findIndex(({ end }) => end >= t0);
  for (const each of drawn) {
    const problem = checkBox(each, next, t0, scale);
    if (problem) return `at ${t0}, ${scale}: ${problem}`;
    next = each.to;
  }
  if (next < boxes.length && boxes[next].begin < t1) return `box ${next} is lost at the end`;
  return drawn.length > width + 2 ? `${drawn.length} boxes are drawn` : "";
}

const last = boxes[boxes.length - 1].end;
const problems = [];
for (const scale of [0.1, 1, 7, 100, 1000, last / width]) {
  for (let k = 0; k < 40; k += 1) problems.push(check(random(last), scale));
  problems.push(check(0, scale), check(-50 * scale, scale));
}
