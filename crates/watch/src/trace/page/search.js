// Search: words that an op or a call must all match.
//
// `>=4MiB`, `<1k`, `=4096`, `4MiB` compare the size; `0x7f00` finds ops whose bytes or whose allocation have
// that address; every other word is looked for in the names of the function, the caller (file and line), the
// thread, the stream, the kind of work, the route and the outcome. "Two words" in quotes are one.

const SIZE_UNITS = { "": 1, b: 1, k: 2 ** 10, kb: 1e3, kib: 2 ** 10, m: 2 ** 20, mb: 1e6, mib: 2 ** 20, g: 2 ** 30, gb: 1e9, gib: 2 ** 30 };

// The terms of a query: `{ type: "size", compare, bytes }`, `{ type: "address", address }` or `{ type: "text", text }`.
function parseQuery(query) {
  const words = query.match(/"[^"]*"?|\S+/g) || [];
  return words.map((word) => {
    const size = /^(>=|<=|>|<|=)?(\d+(?:\.\d+)?)(b|k|kb|kib|m|mb|mib|g|gb|gib)?$/i.exec(word);
    // A bare number may be a line or a stream: only one that says so is a size.
    if (size && (size[1] || size[3])) {
      return { type: "size", compare: size[1] || "=", bytes: Number(size[2]) * SIZE_UNITS[(size[3] || "").toLowerCase()] };
    }
    if (/^0x[0-9a-f]+$/i.test(word)) return { type: "address", address: Number(word) };
    return { type: "text", text: word.replace(/"/g, "").toLowerCase() };
  }).filter((term) => term.type !== "text" || term.text);
}

function compareSize(compare, bytes, limit) {
  switch (compare) {
    case ">": return bytes > limit;
    case ">=": return bytes >= limit;
    case "<": return bytes < limit;
    case "<=": return bytes <= limit;
    default: return bytes === Math.round(limit);
  }
}

// Which names of each table have a text in them.
function matchingNames(trace, text) {
  const has = (name) => name.toLowerCase().includes(text);
  return {
    functions: trace.functions.map(has),
    callers: trace.callers.map(has),
    threads: trace.threads.map((_, thread) => has(threadName(trace, thread))),
    streams: trace.streams.map((_, stream) => has(streamName(trace, stream))),
    kinds: trace.kinds.map(has),
    routes: trace.routes.map((route) => has(route.text)),
    states: trace.states.map(has),
  };
}

function callMatches(trace, names, call) {
  const { calls } = trace;
  return call >= 0 && (names.functions[calls.function[call]] || names.callers[calls.caller[call]] || names.threads[calls.thread[call]]);
}

// The first byte at one end of an op; -1 if it has none.
function addressOf(trace, op, end) {
  const { ops, blocks } = trace;
  if (ops[end][op] < 0) return -1;
  const block = ops[`${end}Block`][op];
  return ops[end][op] + (block >= 0 ? blocks.base[block] : 0);
}

function hasAddress(trace, op, address) {
  const { ops, blocks } = trace;
  return ["dst", "src"].some((end) => {
    const first = addressOf(trace, op, end);
    const block = ops[`${end}Block`][op];
    const isInside = (from, len) => address >= from && address < from + Math.max(len, 1);
    return first >= 0 && (isInside(first, ops.bytes[op]) || (block >= 0 && isInside(blocks.base[block], blocks.len[block])));
  });
}

function opTest(trace, term) {
  const { ops } = trace;
  if (term.type === "size") return (op) => ops.bytes[op] > 0 && compareSize(term.compare, ops.bytes[op], term.bytes);
  if (term.type === "address") return (op) => hasAddress(trace, op, term.address);
  const names = matchingNames(trace, term.text);
  return (op) => names.streams[ops.stream[op]] || names.kinds[ops.kind[op]] || names.states[ops.state[op]]
    || (ops.route[op] >= 0 && names.routes[ops.route[op]]) || (ops.worker[op] >= 0 && names.threads[ops.worker[op]])
    || callMatches(trace, names, ops.call[op]);
}

// What matches all words: `{ ops, calls }`, bytes of 0 and 1, and `hits`: both in the order of time, as
// `{ op }` or `{ call }`. A call is a hit of its own if none of its ops is one.
function search(trace, query) {
  const terms = parseQuery(query);
  if (terms.length === 0) return null;
  const { ops, calls } = trace;
  const tests = terms.map((term) => opTest(trace, term));
  const found = { ops: new Uint8Array(ops.count), calls: new Uint8Array(calls.count), hits: [] };
  for (let op = 0; op < ops.count; op += 1) {
    if (!tests.every((test) => test(op))) continue;
    found.ops[op] = 1;
    if (ops.call[op] >= 0) found.calls[ops.call[op]] = 1;
    found.hits.push({ op, time: ops.begin[op] >= 0 ? ops.begin[op] : ops.submitted[op] });
  }
  if (terms.every((term) => term.type === "text")) {
    const names = terms.map((term) => matchingNames(trace, term.text));
    for (let call = 0; call < calls.count; call += 1) {
      if (found.calls[call] || !names.every((each) => callMatches(trace, each, call))) continue;
      found.calls[call] = 1;
      found.hits.push({ call, time: calls.begin[call] });
    }
  }
  found.hits.sort((one, other) => one.time - other.time);
  return found;
}

// The first of the boxes from `from` to below `to` that is found; there is one.
function firstHit(track, from, to) {
  return firstAbove(track.hits, track.hits[from], from, to + 1) - 1;
}

// How many of the boxes before each one are found: `hits[to] - hits[from]` of a merged box are.
function countHits(track, found, index, isOps) {
  const hits = new Uint32Array(track.size + 1);
  for (let at = 0; at < track.size; at += 1) {
    const id = track.id[at];
    let is = isOps ? found.ops[id] : found.calls[id];
    if (isOps && track.count[at] > 1 && !is) is = index.groupOf(id).some((op) => found.ops[op]) ? 1 : 0;
    hits[at + 1] = hits[at] + is;
  }
  return hits;
}
