// Why an op waited, and which waited longest.

// Who belongs to whom, by index: the ops of each stream in order, those that were sent as one, the waits and
// joins of each op, and what each worker or engine did in order.
function buildIndex(trace) {
  const { ops, streams } = trace;
  const byStream = streams.map(() => []);
  for (let op = 0; op < ops.count; op += 1) byStream[ops.stream[op]].push(op);
  const index = {
    streamOps: byStream.map((all) => Uint32Array.from(all).sort((a, b) => ops.ticket[a] - ops.ticket[b])),
    place: new Uint32Array(ops.count),
    first: new Uint32Array(ops.count),
    groupSize: new Uint32Array(ops.count).fill(1),
    waitsOf: chains(ops.count, trace.waits.count, (wait) => trace.waits.op[wait]),
    awaitedBy: chains(ops.count, trace.waits.count, (wait) => trace.waits.awaited[wait]),
    joinsOf: chains(ops.count, trace.joins.count, (join) => trace.joins.op[join]),
    opsOf: chains(trace.calls.count, ops.count, (op) => ops.call[op]),
    engines: new Map(),
    engineOf: (op) => engineKey(trace, op),
    groupOf: (op) => {
      const place = index.place[index.first[op]];
      return index.streamOps[ops.stream[op]].subarray(place, place + index.groupSize[index.first[op]]);
    },
  };
  for (const all of index.streamOps) {
    all.forEach((op, place) => {
      index.place[op] = place;
      const before = place > 0 ? all[place - 1] : -1;
      const isSame = before >= 0 && ops.together[op] > 1 && ops.begin[op] >= 0
        && ops.begin[before] === ops.begin[op] && ops.end[before] === ops.end[op];
      index.first[op] = isSame ? index.first[before] : op;
      if (isSame) index.groupSize[index.first[op]] += 1;
    });
  }
  indexEngines(trace, index);
  return index;
}

// Lists of small numbers by a key, as two arrays: those of key `k` are `items[start[k]]` up to `start[k + 1]`.
function chains(keys, count, keyOf) {
  const start = new Uint32Array(keys + 1);
  for (let at = 0; at < count; at += 1) if (keyOf(at) >= 0) start[keyOf(at) + 1] += 1;
  for (let key = 0; key < keys; key += 1) start[key + 1] += start[key];
  const items = new Uint32Array(start[keys]);
  const next = start.slice();
  for (let at = 0; at < count; at += 1) if (keyOf(at) >= 0) items[next[keyOf(at)]++] = at;
  return (key) => items.subarray(start[key], start[key + 1]);
}

// What did an op: a worker, or an engine of a device. Ops that never began were done by nothing.
function engineKey(trace, op) {
  const { ops, streams } = trace;
  if (ops.begin[op] < 0 || ops.end[op] < 0) return null;
  if (ops.worker[op] >= 0) return `worker ${ops.worker[op]}`;
  const { process, device } = streams[ops.stream[op]];
  return ops.engine[op] > 0 ? `engine ${process}:${device}:${ops.engine[op]}` : null;
}

function indexEngines(trace, index) {
  const { ops } = trace;
  for (let op = 0; op < ops.count; op += 1) {
    const key = engineKey(trace, op);
    if (key === null || index.first[op] !== op) continue;
    if (!index.engines.has(key)) index.engines.set(key, []);
    index.engines.get(key).push(op);
  }
  for (const [key, all] of index.engines) {
    all.sort((a, b) => ops.end[a] - ops.end[b]);
    index.engines.set(key, { ops: all, ends: Float64Array.from(all, (op) => ops.end[op]) });
  }
}

// How long an op waited from when it was submitted until it began; -1 if one of the two is not known.
function waitOf(trace, op) {
  const { begin, submitted } = trace.ops;
  return begin[op] >= 0 && submitted[op] >= 0 ? Math.max(0, begin[op] - submitted[op]) : -1;
}

// The op before this one in its stream that was not sent as one with it; -1 if there is none.
function opBefore(trace, index, op) {
  const all = index.streamOps[trace.ops.stream[op]];
  const place = index.place[index.first[op]];
  return place > 0 ? all[place - 1] : -1;
}

// What held an op back, in the order of time: parts `{ cause, until, nanos, op }` that together are the whole
// wait. Causes: `stream` (the op before it in its stream), `event` (an op of another stream, or of another
// process if `op` is -1), `engine` (what did it was busy with `op`), `together` (it was held back to be sent
// with others), `start` (nothing but the time that beginning takes).
function whyWaited(trace, index, op) {
  const { ops, waits } = trace;
  if (waitOf(trace, op) < 0) return [];
  const begin = ops.begin[op];
  const parts = [];
  let at = ops.submitted[op];
  const hold = (cause, until, who) => {
    const end = Math.min(until, begin);
    if (end <= at) return;
    parts.push({ cause, until: end, nanos: end - at, op: who });
    at = end;
  };
  const holders = [];
  const before = opBefore(trace, index, op);
  if (before >= 0) holders.push({ cause: "stream", until: ops.end[before], op: before });
  let isOutside = false;
  for (const wait of index.waitsOf(op)) {
    const awaited = waits.awaited[wait];
    if (awaited >= 0) holders.push({ cause: "event", until: ops.end[awaited], op: awaited });
    else isOutside = isOutside || waits.stream[wait] < 0;
  }
  holders.sort((one, other) => one.until - other.until);
  for (const { cause, until, op: who } of holders) hold(cause, until, who);
  if (index.groupSize[index.first[op]] > 1) hold("together", lastSubmitted(trace, index, op), -1);
  const busy = busyBefore(trace, index, op, at);
  if (busy >= 0) hold("engine", ops.end[busy], busy);
  hold(isOutside ? "event" : "start", begin, -1);
  return parts;
}

// When the last op of those that were sent as one was submitted.
function lastSubmitted(trace, index, op) {
  return index.groupOf(op).reduce((last, each) => Math.max(last, trace.ops.submitted[each]), -1);
}

// The last op that the same worker or engine ended after `since` and before this one began; -1 if none.
function busyBefore(trace, index, op, since) {
  const { ops } = trace;
  const engine = index.engines.get(index.engineOf(op));
  if (!engine) return -1;
  for (let at = firstAbove(engine.ends, ops.begin[op]) - 1; at >= 0 && engine.ends[at] > since; at -= 1) {
    if (index.first[engine.ops[at]] !== index.first[op]) return engine.ops[at];
  }
  return -1;
}

// The cause that took the most of an op's wait.
function mainCause(parts) {
  return parts.reduce((most, part) => (part.nanos > most.nanos ? part : most), { cause: "start", nanos: -1, op: -1 });
}

// The ops that waited longest, at most `most`, as `{ op, nanos, cause, by }`; of one cause only if it is given.
function longestWaits(trace, index, most, cause = null) {
  const ids = [];
  for (let op = 0; op < trace.ops.count; op += 1) if (waitOf(trace, op) > 0) ids.push(op);
  const sorted = Uint32Array.from(ids).sort((a, b) => waitOf(trace, b) - waitOf(trace, a) || a - b);
  const found = [];
  for (const op of sorted) {
    if (found.length >= most) break;
    const main = mainCause(whyWaited(trace, index, op));
    if (cause === null || main.cause === cause) found.push({ op, nanos: waitOf(trace, op), cause: main.cause, by: main.op });
  }
  return found;
}

// The calls that were blocked longest, at most `most`.
function longestBlocked(trace, most) {
  const { blocked, count } = trace.calls;
  const ids = [];
  for (let call = 0; call < count; call += 1) if (blocked[call] > 0) ids.push(call);
  ids.sort((a, b) => blocked[b] - blocked[a] || a - b);
  return ids.slice(0, most).map((call) => ({ call, nanos: blocked[call] }));
}
