// Rows: what stands below what on the page, and on which track each op and call is.

// Classes of colour. The view has a colour for each, and the legend a word.
const TINTS = [
  { name: "h2d", words: "host to device" },
  { name: "d2h", words: "device to host" },
  { name: "d2d", words: "device to device" },
  { name: "h2h", words: "host to host" },
  { name: "fill", words: "fill" },
  { name: "reduce", words: "reduction" },
  { name: "function", words: "host function" },
  { name: "mark", words: "event, wait" },
  { name: "failed", words: "failed or unfinished" },
  { name: "call", words: "call" },
  { name: "blocked", words: "blocked call" },
  { name: "capture", words: "capture" },
];
const TINT = Object.fromEntries(TINTS.map(({ name }, index) => [name, index]));
const STATE = { queued: 0, running: 1, done: 2, failed: 3, dropped: 4 };
const MOST_TRACKS = 6;

function opTint(trace, op) {
  const { ops } = trace;
  if (ops.state[op] !== STATE.done) return TINT.failed;
  switch (trace.kinds[ops.kind[op]]) {
    case "fill": return TINT.fill;
    case "reduction": return TINT.reduce;
    case "host function": return TINT.function;
    case "unknown":
    case "wait":
    case "event record": return TINT.mark;
    default: return routeTint(trace.routes[ops.route[op]]);
  }
}

function routeTint(route) {
  if (!route) return TINT.mark;
  if (route.src === null) return route.dst === null ? TINT.h2h : TINT.h2d;
  return route.dst === null ? TINT.d2h : TINT.d2d;
}

function callTint(trace, call) {
  const { calls } = trace;
  if (calls.code[call] !== 0 || calls.refused[call]) return TINT.failed;
  return calls.blocked[call] > 0 ? TINT.blocked : TINT.call;
}

// Ops as boxes, sorted by begin. Ops that were sent as one share begin and end and are one box.
function opBoxes(trace, index, ids) {
  const { ops } = trace;
  const sorted = ids.filter((op) => ops.begin[op] >= 0 && index.first[op] === op);
  const end = (op) => (ops.end[op] >= 0 ? ops.end[op] : trace.span);
  sorted.sort((a, b) => ops.begin[a] - ops.begin[b] || end(a) - end(b) || ops.ticket[a] - ops.ticket[b]);
  return sorted.map((op) => ({
    begin: ops.begin[op], end: end(op), id: op, count: index.groupSize[op], tint: opTint(trace, op),
  }));
}

function callBoxes(trace, ids) {
  const { calls } = trace;
  const box = (call) => ({ begin: calls.begin[call], end: calls.end[call], id: call, count: 1, tint: callTint(trace, call) });
  return [...ids].sort((a, b) => calls.begin[a] - calls.begin[b] || calls.end[b] - calls.end[a]).map(box);
}

function callTracks(trace, ids) {
  return ids.length > 0 ? packTracks(callBoxes(trace, ids), MOST_TRACKS) : [makeTrack([])];
}

// Indices 0 to count - 1, in groups by a key.
function groupBy(count, key) {
  const groups = new Map();
  for (let at = 0; at < count; at += 1) {
    const group = key(at);
    if (group === null) continue;
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(at);
  }
  return groups;
}

function threadName(trace, thread) {
  const { name, number } = trace.threads[thread];
  return name ? `${name} (${number})` : `thread ${number}`;
}

function streamName(trace, stream) {
  const { number, purpose } = trace.streams[stream];
  return `stream ${number}${purpose ? ` (${purpose})` : ""}`;
}

function engineName(trace, key) {
  const [process, device, engine] = key.split(":");
  return { process: Number(process), label: `device ${device} ${engine === "1" ? "copy engine" : "kernels"}` };
}

// All rows, from the top: each has a type (`process`, `section`, `calls`, `ops`, `series`, `captures`), a label,
// and tracks or series.
function buildRows(trace, index) {
  const { ops, calls, threads, streams } = trace;
  const byThread = groupBy(calls.count, (call) => calls.thread[call]);
  // A thread that never called anything may have touched memory.
  for (const { access } of allFindings(trace)) {
    if (access.thread !== null && !byThread.has(access.thread)) byThread.set(access.thread, []);
  }
  const byStream = groupBy(ops.count, (op) => ops.stream[op]);
  const byWorker = groupBy(ops.count, (op) => (ops.worker[op] >= 0 && ops.begin[op] >= 0 ? ops.worker[op] : null));
  const byEngine = groupBy(ops.count, (op) => {
    const stream = streams[ops.stream[op]];
    return ops.engine[op] > 0 ? `${stream.process}:${stream.device}:${ops.engine[op]}` : null;
  });
  const rows = [];
  trace.processes.forEach((process, number) => {
    if (trace.processes.length > 1) rows.push({ type: "process", label: `Process ${process.number}`, note: process.command });
    const add = (title, members) => {
      if (members.length === 0) return;
      rows.push({ type: "section", label: title });
      rows.push(...members);
    };
    const keys = (groups, table) => [...groups.keys()].filter((key) => table[key].process === number).sort((a, b) => a - b);
    add("Calls of threads", keys(byThread, threads).map((thread) => ({
      type: "calls", label: threadName(trace, thread), thread, tracks: callTracks(trace, byThread.get(thread)),
    })));
    add("Work of streams", keys(byStream, streams).map((stream) => ({
      type: "ops", label: streamName(trace, stream), note: `device ${streams[stream].device}`, stream,
      tracks: packTracks(opBoxes(trace, index, byStream.get(stream)), MOST_TRACKS),
    })));
    const workers = keys(byWorker, threads).map((thread) => ({
      type: "ops", label: threadName(trace, thread), worker: thread, tracks: packTracks(opBoxes(trace, index, byWorker.get(thread)), MOST_TRACKS),
    }));
    const engines = [...byEngine.keys()].sort().filter((key) => engineName(trace, key).process === number).map((key) => ({
      type: "ops", label: engineName(trace, key).label, engine: key, tracks: packTracks(opBoxes(trace, index, byEngine.get(key)), MOST_TRACKS),
    }));
    add("Workers and copy engines", [...workers, ...engines]);
    add("Bytes in flight", byteRows(trace, number));
    add("Captures", captureRows(trace, number));
  });
  layOut(rows, () => true);
  return rows;
}

// Puts rows below each other and gives their height together; those that are not wanted have no height, nor
// have sections that are left without a row.
function layOut(rows, isWanted) {
  let top = 0;
  rows.forEach((row, at) => {
    row.isShown = isHead(row) ? membersOf(rows, at).some(isWanted) : isWanted(row);
    row.top = top;
    row.height = row.isShown ? rowHeight(row) : 0;
    top += row.height;
  });
  return top;
}

function isHead(row) {
  return row.type === "section" || row.type === "process";
}

// The rows that stand under a section or a process.
function membersOf(rows, head) {
  const isEnd = (row) => (rows[head].type === "section" ? isHead(row) : row.type === "process");
  const members = [];
  for (let at = head + 1; at < rows.length && !isEnd(rows[at]); at += 1) if (!isHead(rows[at])) members.push(rows[at]);
  return members;
}

// Whether a row has something between two moments.
function hasBoxes(row, t0, t1) {
  if (!row.tracks || (row.marks || []).some((time) => time >= t0 && time <= t1)) return true;
  return row.tracks.some((track) => {
    const at = firstAbove(track.end, t0, 0, track.size, true);
    return at < track.size && track.begin[at] <= t1;
  });
}

const TRACK_HEIGHT = 19;

function rowHeight(row) {
  if (isHead(row)) return 26;
  if (row.type === "series") return row.series.length > 1 ? 64 : 48;
  return row.tracks.length * TRACK_HEIGHT + 5;
}

function byteRows(trace, process) {
  const { ops, streams, routes } = trace;
  const isHere = (op) => streams[ops.stream[op]].process === process;
  const route = (op) => routes[ops.route[op]];
  const touchesHost = (op) => route(op) && (route(op).src === null || route(op).dst === null);
  const all = { type: "series", label: "all work", series: [{ tint: "h2d", words: "in flight", steps: bytesInFlight(trace, isHere) }] };
  const pinned = bytesInFlight(trace, (op) => isHere(op) && touchesHost(op) && !route(op).pageable);
  const pageable = bytesInFlight(trace, (op) => isHere(op) && touchesHost(op) && route(op).pageable);
  const split = {
    type: "series", label: "host memory", note: "page-locked above, pageable below",
    series: [{ tint: "pinned", words: "page-locked", steps: pinned }, { tint: "pageable", words: "pageable", steps: pageable }],
  };
  if (all.series[0].steps.size === 0) return [];
  return pinned.size + pageable.size > 0 ? [all, split] : [all];
}

function captureRows(trace, process) {
  const boxes = trace.captures.map((capture, id) => ({
    begin: capture.begin, end: capture.end > 0 ? capture.end - 1 : trace.span, id, count: 1, tint: TINT.capture, capture,
  })).filter((box) => box.capture.process === process).sort((a, b) => a.begin - b.begin);
  return boxes.length === 0 ? [] : [{ type: "captures", label: "captures", tracks: packTracks(boxes, MOST_TRACKS) }];
}

// Where ops and calls are: `op` and `call` map to an index of `tops`, or -1; each of these is a row, a track and
// the place of its middle below the top of the row. An op is where its stream is.
function findPlaces(rows, trace, index) {
  const places = { op: new Int32Array(trace.ops.count).fill(-1), call: new Int32Array(trace.calls.count).fill(-1) };
  const tops = [];
  for (const row of rows) {
    if (row.type !== "calls" && row.stream === undefined) continue;
    const into = row.type === "calls" ? places.call : places.op;
    row.tracks.forEach((track, lane) => {
      const below = lane * TRACK_HEIGHT + TRACK_HEIGHT / 2 + 2;
      for (let at = 0; at < track.size; at += 1) into[track.id[at]] = tops.length;
      tops.push({ row, track, below });
    });
  }
  for (let op = 0; op < trace.ops.count; op += 1) places.op[op] = places.op[index.first[op]];
  return { ...places, tops };
}
