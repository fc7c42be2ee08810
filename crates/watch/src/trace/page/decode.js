// The data of the page as tables: see tables.rs and columns.rs for how they are packed.

const BASE64 = (() => {
  const table = new Uint8Array(128);
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (let at = 0; at < 64; at += 1) table[letters.charCodeAt(at)] = at;
  return table;
})();

// The bytes of base64 without padding that begins at letter `from`.
function decodeBase64(text, from) {
  const letters = text.length - from;
  const bytes = new Uint8Array(Math.floor((letters * 3) / 4));
  for (let at = from, out = 0; at < text.length; at += 4) {
    let bits = 0;
    for (let k = 0; k < 4; k += 1) bits = bits * 64 + (at + k < text.length ? BASE64[text.charCodeAt(at + k)] : 0);
    if (out < bytes.length) bytes[out++] = bits >>> 16;
    if (out < bytes.length) bytes[out++] = (bits >>> 8) & 255;
    if (out < bytes.length) bytes[out++] = bits & 255;
  }
  return bytes;
}

// One column: `count` numbers below 2^53.
function decodeColumn(text, count) {
  const bytes = decodeBase64(text, 1);
  const hasRuns = text[0] === "r";
  const values = new Float64Array(count);
  let at = 0;
  // The bits of a varint from the given one on.
  const varint = (from) => {
    let byte = bytes[at++];
    let value = (byte & 127) >> from;
    for (let factor = 128 >> from; byte & 128; factor *= 128) {
      byte = bytes[at++];
      value += (byte & 127) * factor;
    }
    return value;
  };
  let value = 0;
  for (let out = 0; out < count;) {
    // The lowest bit is the sign. It is taken off first: twice a difference may be too large to be exact.
    const isNegative = bytes[at] & 1;
    const size = varint(1);
    const difference = isNegative ? -size - 1 : size;
    const run = hasRuns ? varint(0) : 1;
    for (let k = 0; k < run && out < count; k += 1) {
      value += difference;
      values[out++] = value;
    }
  }
  return values;
}

function decodeTable(packed) {
  const table = { count: packed.count };
  for (const name of Object.keys(packed)) {
    if (name !== "count") table[name] = decodeColumn(packed[name], packed.count);
  }
  return table;
}

// All tables. Columns that may be absent have -1 for that; times are nanoseconds since the trace began.
function decodeTrace(packed) {
  const trace = { ...packed };
  for (const name of ["calls", "ops", "blocks", "waits", "joins", "tasks"]) trace[name] = decodeTable(packed[name]);
  const absent = {
    ops: ["submitted", "begin", "dur", "call", "worker", "route", "dstBlock", "dst", "srcBlock", "src"],
    calls: ["caller", "stack"],
    blocks: ["device", "call", "forgotten"],
    waits: ["stream", "awaited"],
    joins: ["op", "call"],
    tasks: ["call"],
  };
  for (const table of Object.keys(absent)) {
    for (const name of absent[table]) {
      const column = trace[table][name];
      for (let at = 0; at < column.length; at += 1) column[at] -= 1;
    }
  }
  const { ops, calls } = trace;
  ops.end = new Float64Array(ops.count);
  for (let op = 0; op < ops.count; op += 1) ops.end[op] = ops.dur[op] < 0 ? -1 : ops.begin[op] + ops.dur[op];
  calls.end = new Float64Array(calls.count);
  for (let call = 0; call < calls.count; call += 1) calls.end[call] = calls.begin[call] + calls.dur[call];
  return trace;
}
