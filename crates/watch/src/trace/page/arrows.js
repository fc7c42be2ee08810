// Arrows between rows: waits between streams and host joins, sorted by the time of their heads.

// A list of arrows as columns: times and places (indices of `places.tops`) of tails and heads.
function makeArrows(all) {
  all.sort((one, other) => one.head - other.head);
  return {
    tails: Float64Array.from(all, (arrow) => arrow.tail),
    heads: Float64Array.from(all, (arrow) => arrow.head),
    tailPlaces: Int32Array.from(all, (arrow) => arrow.from),
    headPlaces: Int32Array.from(all, (arrow) => arrow.to),
  };
}

// The place of each thread's calls.
function threadPlaces(places) {
  const found = new Map();
  places.tops.forEach(({ row }, place) => {
    if (row.thread !== undefined && !found.has(row.thread)) found.set(row.thread, place);
  });
  return found;
}

// From the end of what was awaited to the begin of the op that waited, and from the end of an op to the thread
// that learnt of it.
function buildArrows(trace, places) {
  const { ops, waits, joins } = trace;
  const threads = threadPlaces(places);
  const between = [];
  for (let wait = 0; wait < waits.count; wait += 1) {
    const [from, to] = [waits.awaited[wait], waits.op[wait]];
    if (from < 0 || ops.end[from] < 0 || ops.begin[to] < 0 || places.op[from] < 0 || places.op[to] < 0) continue;
    if (places.op[from] === places.op[to]) continue;
    between.push({ tail: ops.end[from], head: ops.begin[to], from: places.op[from], to: places.op[to] });
  }
  const toThreads = [];
  for (let join = 0; join < joins.count; join += 1) {
    const op = joins.op[join];
    const to = threads.get(joins.thread[join]);
    if (op < 0 || ops.end[op] < 0 || places.op[op] < 0 || to === undefined) continue;
    toThreads.push({ tail: ops.end[op], head: joins.time[join], from: places.op[op], to });
  }
  return { waits: makeArrows(between), joins: makeArrows(toThreads) };
}
