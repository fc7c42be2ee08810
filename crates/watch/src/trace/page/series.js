// Series: a number that changes at moments, such as the bytes in flight.

// The steps of a number: at `time[k]` it becomes `value[k]`. `changes` are pairs of time and difference, in
// any order.
function makeSeries(times, differences) {
  const order = new Uint32Array(times.length).map((_, at) => at);
  order.sort((one, other) => times[one] - times[other]);
  const time = new Float64Array(times.length);
  const value = new Float64Array(times.length);
  let size = 0;
  let sum = 0;
  for (const at of order) {
    sum += differences[at];
    if (size > 0 && time[size - 1] === times[at]) size -= 1;
    time[size] = times[at];
    value[size] = sum;
    size += 1;
  }
  const series = { size, time: time.slice(0, size), value: value.slice(0, size), peak: 0, levels: [] };
  for (let level = series.value; level.length > 1;) {
    const next = new Float64Array(Math.ceil(level.length / 2));
    for (let at = 0; at < next.length; at += 1) {
      next[at] = Math.max(level[2 * at], 2 * at + 1 < level.length ? level[2 * at + 1] : 0);
    }
    series.levels.push(next);
    level = next;
  }
  series.peak = rangeMax(series, 0, size);
  return series;
}

// The greatest value of the steps from `from` to below `to`, by a tree of maxima.
function rangeMax(series, from, to) {
  let most = 0;
  let level = series.value;
  for (let depth = 0; from < to; depth += 1) {
    if (from & 1) most = Math.max(most, level[from++]);
    if (to & 1) most = Math.max(most, level[--to]);
    from >>= 1;
    to >>= 1;
    level = series.levels[depth];
  }
  return most;
}

// The greatest value in each pixel of a width from the time `t0` on, `scale` being nanoseconds a pixel.
function seriesPixels(series, t0, scale, width) {
  const pixels = new Float64Array(width);
  let at = firstAbove(series.time, t0);
  for (let x = 0; x < width; x += 1) {
    const next = at < series.size ? gallopFrom(series.time, t0 + (x + 1) * scale, at) : at;
    pixels[x] = Math.max(at > 0 ? series.value[at - 1] : 0, rangeMax(series, at, next));
    at = next;
  }
  return pixels;
}

// The first index from `at` on whose time is at least `limit`.
function gallopFrom(times, limit, at) {
  return times[at] >= limit ? at : gallop(times, limit, at);
}

// The bytes in flight: from when an op was submitted until it has passed. `counts` says which ops.
function bytesInFlight(trace, counts) {
  const { ops } = trace;
  const times = [];
  const differences = [];
  for (let op = 0; op < ops.count; op += 1) {
    if (ops.bytes[op] === 0 || ops.submitted[op] < 0 || !counts(op)) continue;
    times.push(ops.submitted[op]);
    differences.push(ops.bytes[op]);
    if (ops.end[op] >= 0) {
      times.push(Math.max(ops.end[op], ops.submitted[op]));
      differences.push(-ops.bytes[op]);
    }
  }
  return makeSeries(times, differences);
}
