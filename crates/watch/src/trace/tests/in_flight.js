// The bytes in flight in each of some pixels, beside a sum over all ops: `wrong` has those that differ.

const steps = bytesInFlight(trace, () => true);
const { ops } = trace;
const bytesAt = (time) => {
  let sum = 0;
  for (let op = 0; op < ops.count; op += 1) {
    if (ops.submitted[op] <= time && ops.end[op] > time) sum += ops.bytes[op];
  }
  return sum;
};
const width = 50;
const scale = trace.span / width;
const pixels = seriesPixels(steps, 0, scale, width);
const wrong = [];
for (let x = 0; x < width; x += 1) {
  const inside = Array.from(steps.time).filter((time) => time > x * scale && time < (x + 1) * scale);
  const most = Math.max(bytesAt(x * scale), ...inside.map(bytesAt));
  if (pixels[x] !== most) wrong.push([x, pixels[x], most]);
}
