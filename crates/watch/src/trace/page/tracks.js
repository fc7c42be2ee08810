// Tracks: boxes on one line, sorted by time, and what of them is visible at a scale.
//
// Boxes narrower than a cell of pixels are merged into one, found by galloping search, so that a frame costs
// what the screen has pixels, however many boxes there are.

// Boxes narrower than this many pixels are merged with what follows within as many.
const CELL = 2;

// The first index from `low` on whose value is above `limit` (at least `limit` if `orEqual`).
function firstAbove(values, limit, low = 0, high = values.length, orEqual = false) {
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (orEqual ? values[middle] >= limit : values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The same where the answer is expected near `from`: doubles its steps before it halves them.
function gallop(values, limit, from) {
  let step = 1;
  let low = from;
  while (low + step < values.length && values[low + step] < limit) {
    low += step;
    step *= 2;
  }
  return firstAbove(values, limit, low, Math.min(low + step + 1, values.length), true);
}

// A track of boxes that are sorted by begin and do not overlap: columns `begin`, `end`, `id` (the op or call),
// `count` (how many it stands for), `tint` (its class of colour).
function makeTrack(boxes) {
  const size = boxes.length;
  const track = {
    size,
    begin: new Float64Array(size),
    end: new Float64Array(size),
    id: new Uint32Array(size),
    count: new Uint32Array(size),
    tint: new Uint8Array(size),
    tints: [],
    sums: [],
    hits: null,
  };
  for (let at = 0; at < size; at += 1) {
    const box = boxes[at];
    track.begin[at] = box.begin;
    track.end[at] = box.end;
    track.id[at] = box.id;
    track.count[at] = box.count;
    track.tint[at] = box.tint;
  }
  for (const tint of new Set(track.tint)) {
    const sums = new Float64Array(size + 1);
    for (let at = 0; at < size; at += 1) {
      // A box without a length counts a little, so that marks have a colour of their own.
      sums[at + 1] = sums[at] + (track.tint[at] === tint ? track.end[at] - track.begin[at] + 1 : 0);
    }
    track.tints.push(tint);
    track.sums.push(sums);
  }
  return track;
}

// The class that has the most of the time of the boxes from `from` to below `to`.
function busiestTint(track, from, to) {
  let best = 0;
  let most = -1;
  for (let at = 0; at < track.tints.length; at += 1) {
    const sum = track.sums[at][to] - track.sums[at][from];
    if (sum > most) {
      most = sum;
      best = at;
    }
  }
  return track.tints[best];
}

// How long the boxes from `from` to below `to` are together.
function busyTime(track, from, to) {
  let busy = 0;
  for (const sums of track.sums) busy += sums[to] - sums[from];
  return busy;
}

// Calls `emit(x0, x1, tint, from, to, density)` for every box that is to be drawn between the times `t0` and
// `t1`, `scale` being nanoseconds a pixel: boxes `from` to below `to` are one on the screen, between the
// pixels `x0` and `x1`. `density` says which part of it is busy, from 0 to 1.
function visibleBoxes(track, t0, t1, scale, emit) {
  const { begin, end, size } = track;
  let at = firstAbove(end, t0, 0, size, true);
  while (at < size && begin[at] < t1) {
    if (end[at] - begin[at] >= CELL * scale) {
      emit((begin[at] - t0) / scale, (end[at] - t0) / scale, track.tint[at], at, at + 1, 1);
      at += 1;
      continue;
    }
    const limit = begin[at] + CELL * scale;
    let to = Math.max(gallop(begin, limit, at), at + 1);
    // Only the last one can be wide, since boxes do not overlap; it is drawn on its own.
    if (to - at > 1 && end[to - 1] - begin[to - 1] >= CELL * scale) to -= 1;
    const last = end[to - 1];
    const x0 = (begin[at] - t0) / scale;
    const density = Math.min(1, busyTime(track, at, to) / Math.max(last - begin[at], scale));
    emit(x0, Math.max(x0 + 1, (last - t0) / scale), busiestTint(track, at, to), at, to, density);
    at = to;
  }
}

// The box at a time, or the nearest one within `slack` nanoseconds; -1 if there is none.
function boxAt(track, time, slack) {
  const after = firstAbove(track.end, time, 0, track.size, true);
  let best = -1;
  let distance = slack;
  for (const at of [after, after - 1]) {
    if (at < 0 || at >= track.size) continue;
    const away = Math.max(track.begin[at] - time, time - track.end[at], 0);
    if (away <= distance) {
      distance = away - 1e-9;
      best = at;
    }
  }
  return best;
}

// Lays boxes out on as few tracks as they need, at most `most`; the last takes what does not fit, shortened to
// the free room. Boxes are sorted by begin.
function packTracks(boxes, most) {
  const tracks = [];
  const free = [];
  for (const box of boxes) {
    let lane = free.findIndex((end) => end <= box.begin);
    if (lane < 0 && tracks.length < most) {
      lane = tracks.length;
      tracks.push([]);
      free.push(0);
    }
    if (lane < 0) {
      lane = most - 1;
      tracks[lane].push({ ...box, begin: free[lane], end: Math.max(free[lane], box.end) });
    } else {
      tracks[lane].push(box);
    }
    free[lane] = Math.max(free[lane], box.end);
  }
  return tracks.map(makeTrack);
}
