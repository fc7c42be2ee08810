// What the page says of an op or a call, as data: fields `{ label, parts }`, each part a text that may lead to
// an op, a call or a finding.

const ORIGINS = ["allocated", "registered", "mapped", "imported"];

const CAUSES = {
  stream: "the op before it",
  event: "an event",
  engine: "a busy worker or engine",
  together: "being sent with others",
  start: "time to begin",
};

function hex(number) {
  return `0x${number.toString(16)}`;
}

function counted(count, word) {
  return `${formatCount(count)} ${word}${count === 1 ? "" : "s"}`;
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// One line for an op: what it is.
function opTitle(trace, op) {
  const { ops } = trace;
  const route = ops.route[op] >= 0 ? ` ${trace.routes[ops.route[op]].text}` : "";
  const size = ops.bytes[op] > 0 ? `, ${formatBytes(ops.bytes[op])}` : "";
  return capital(trace.kinds[ops.kind[op]]) + route + size;
}

// The same in fewer words, for a table.
function opShort(trace, op) {
  const { ops, routes, kinds } = trace;
  const end = (device) => (device === null ? "host" : `device ${device}`);
  const route = routes[ops.route[op]];
  const way = route ? ` ${end(route.src)} → ${end(route.dst)}${route.pageable ? ", pageable" : ""}` : "";
  return capital(kinds[ops.kind[op]]) + way + (ops.bytes[op] > 0 ? `, ${formatBytes(ops.bytes[op])}` : "");
}

// Which op: its place.
function opName(trace, op) {
  const { ops } = trace;
  return `${streamName(trace, ops.stream[op])} op ${formatCount(ops.ticket[op])}`;
}

// A short text for inside its box.
function opLabel(trace, op, count) {
  const { ops } = trace;
  const kind = trace.kinds[ops.kind[op]];
  const size = ops.bytes[op] > 0 ? formatBytes(ops.bytes[op]) : kind;
  return count > 1 ? `${count} ops together` : size;
}

function callLabel(trace, call) {
  return trace.functions[trace.calls.function[call]];
}

function callerText(trace, call) {
  const caller = trace.calls.caller[call];
  return caller >= 0 ? trace.callers[caller] : "";
}

// The same without the folders of the file.
function shortCaller(trace, call) {
  return call >= 0 ? callerText(trace, call).replace(/^\S*\//, "") : "";
}

function callPart(trace, call) {
  const caller = callerText(trace, call);
  return { text: callLabel(trace, call) + (caller ? ` at ${caller}` : ""), call };
}

// The parts of an address: the program's address, the allocation it is in and the offset.
function addressParts(trace, op, end) {
  const { ops, blocks } = trace;
  const block = ops[`${end}Block`][op];
  const parts = [{ text: hex(addressOf(trace, op, end)), mono: true }];
  if (block < 0) return parts;
  const where = blocks.device[block] >= 0 ? `device ${blocks.device[block]}` : "page-locked host memory";
  const offset = formatCount(ops[end][op]);
  parts.push({ text: `= allocation ${hex(blocks.base[block])} + ${offset}`, mono: true });
  parts.push({ text: `(${formatBytes(blocks.len[block])}, ${where}, ${ORIGINS[blocks.origin[block]]} at ${formatMoment(blocks.known[block])})` });
  if (blocks.call[block] >= 0) parts.push({ text: "by" }, callPart(trace, blocks.call[block]));
  return parts;
}

// How many ops of its stream were in front of an op when it was submitted.
function queuePosition(trace, index, op) {
  const { ops } = trace;
  const all = index.streamOps[ops.stream[op]];
  let ahead = 0;
  for (let place = index.place[op] - 1; place >= 0; place -= 1) {
    const other = all[place];
    if (ops.end[other] >= 0 && ops.end[other] <= ops.submitted[op]) break;
    ahead += 1;
  }
  return ahead;
}

// The text of one cause of a wait, with what it leads to.
function causeParts(trace, part) {
  const leads = part.op >= 0 ? [{ text: opName(trace, part.op), op: part.op }] : [];
  const until = `until ${formatMoment(part.until)}`;
  switch (part.cause) {
    case "stream": return [{ text: "the op before it in its stream ran:" }, ...leads, { text: until }];
    case "event":
      if (part.op < 0) return [{ text: `something outside of this process, ${until}` }];
      return [{ text: "it waits for" }, ...leads, { text: until }];
    case "engine": return [{ text: "its worker or engine was busy with" }, ...leads, { text: until }];
    case "together": return [{ text: `held back to be sent with others, ${until}` }];
    default: return [{ text: "nothing held it: time to begin" }];
  }
}

function whyField(trace, index, op) {
  const wait = waitOf(trace, op);
  if (wait < 0) return [];
  const reasons = whyWaited(trace, index, op);
  const lines = reasons.map((part) => [{ text: formatNanos(part.nanos), strong: true }, ...causeParts(trace, part)]);
  const total = [{ text: reasons.length === 0 ? "not at all" : formatNanos(wait), strong: true }];
  return [{ label: "Waited", parts: total, lines }];
}

function doneBy(trace, op) {
  const { ops, streams } = trace;
  if (ops.worker[op] >= 0) return threadName(trace, ops.worker[op]);
  const { device } = streams[ops.stream[op]];
  return ["", `copy engine of device ${device}`, `kernel on device ${device}`][ops.engine[op]] || "";
}

function timeFields(trace, op) {
  const { ops } = trace;
  const fields = [];
  const add = (label, text) => fields.push({ label, parts: [{ text }] });
  if (ops.submitted[op] >= 0) add("Submitted", `at ${formatMoment(ops.submitted[op])}`);
  if (ops.begin[op] >= 0) add("Began", `at ${formatMoment(ops.begin[op])}`);
  if (ops.end[op] >= 0) {
    const rate = ops.bytes[op] > 0 ? formatRate(ops.bytes[op], ops.dur[op]) : "";
    add("Took", formatNanos(ops.dur[op]) + (rate ? `, ${rate}` : ""));
  }
  return fields;
}

function graphFields(trace, op) {
  const { ops, tasks, streams } = trace;
  if (ops.graph[op] === 0) return [];
  const parts = [{ text: `task ${ops.task[op]} of graph ${ops.graph[op]}` }];
  const { process } = streams[ops.stream[op]];
  for (let task = 0; task < tasks.count; task += 1) {
    const isIt = tasks.graph[task] === ops.graph[op] && tasks.task[task] === ops.task[op] && tasks.process[task] === process;
    if (isIt && tasks.call[task] >= 0) {
      parts.push({ text: "captured by" }, callPart(trace, tasks.call[task]));
      break;
    }
  }
  return [{ label: "Graph", parts }];
}

function stackFields(trace, call) {
  const stack = call >= 0 ? trace.calls.stack[call] : -1;
  if (stack < 0) return [];
  const lines = trace.stacks[stack].map((frame) => [{ text: frame > 0 ? trace.callers[frame - 1] : "?", mono: true }]);
  return [{ label: "Stack", parts: [], lines }];
}

function joinFields(trace, index, op) {
  const { joins, ops } = trace;
  const fields = [];
  const awaiting = [...index.awaitedBy(op)].slice(0, 8).map((wait) => {
    const other = trace.waits.op[wait];
    return [{ text: opName(trace, other), op: other }];
  });
  if (awaiting.length > 0) fields.push({ label: "Awaited by", parts: [], lines: awaiting });
  const joined = [...index.joinsOf(op)].slice(0, 8).map((join) => {
    const after = ops.end[op] >= 0 ? `, ${formatNanos(Math.max(0, joins.time[join] - ops.end[op]))} later` : "";
    const parts = [{ text: `${threadName(trace, joins.thread[join])} at ${formatMoment(joins.time[join])}${after}` }];
    return joins.call[join] >= 0 ? [...parts, { text: "in" }, callPart(trace, joins.call[join])] : parts;
  });
  if (joined.length > 0) fields.push({ label: "Host joins", parts: [], lines: joined });
  return fields;
}

// Everything about an op.
function describeOp(trace, index, op) {
  const { ops, calls } = trace;
  const fields = findingFields(trace, "op", op);
  const add = (label, ...parts) => fields.push({ label, parts });
  const call = ops.call[op];
  if (ops.bytes[op] > 0) add("Size", { text: `${formatBytes(ops.bytes[op])} (${formatCount(ops.bytes[op])} bytes)${ops.pieces[op] > 1 ? ` in ${formatCount(ops.pieces[op])} pieces` : ""}` });
  if (ops.height[op] > 0) add("Rectangle", { text: `${formatCount(ops.height[op])} rows of ${formatCount(ops.width[op])} bytes, pitch ${formatCount(ops.dstPitch[op])} to ${formatCount(ops.srcPitch[op])}` });
  if (ops.route[op] >= 0) add("Route", { text: trace.routes[ops.route[op]].text });
  if (ops.dst[op] >= 0) add("Destination", ...addressParts(trace, op, "dst"));
  if (ops.src[op] >= 0) add("Source", ...addressParts(trace, op, "src"));
  if (call >= 0) {
    add("Call", callPart(trace, call));
    add("Thread", { text: threadName(trace, calls.thread[call]) });
  }
  const ahead = ops.submitted[op] >= 0 ? queuePosition(trace, index, op) : 0;
  add("Queue", { text: `${opName(trace, op)}, ${ahead === 0 ? "no op" : counted(ahead, "op")} in front of it when it was submitted` });
  fields.push(...timeFields(trace, op), ...whyField(trace, index, op));
  if (doneBy(trace, op)) add("Done by", { text: doneBy(trace, op) });
  const together = ops.together[op] > 1 ? `; sent with others, ${ops.together[op]} ops as one: they share begin and end` : "";
  add("Outcome", { text: trace.states[ops.state[op]] + together });
  if (index.groupSize[index.first[op]] > 1) {
    const others = [...index.groupOf(op)].filter((other) => other !== op).slice(0, 12);
    fields.push({ label: "Sent with", parts: others.map((other) => ({ text: opName(trace, other), op: other })) });
  }
  fields.push(...graphFields(trace, op), ...joinFields(trace, index, op), ...stackFields(trace, call));
  return { title: opTitle(trace, op), place: opName(trace, op), fields };
}

// Everything about a call.
function describeCall(trace, index, call) {
  const { calls } = trace;
  const fields = findingFields(trace, "call", call);
  const add = (label, ...parts) => fields.push({ label, parts });
  if (callerText(trace, call)) add("Caller", { text: callerText(trace, call), mono: true });
  add("Thread", { text: threadName(trace, calls.thread[call]) });
  add("Began", { text: `at ${formatMoment(calls.begin[call])}` });
  add("Took", { text: formatNanos(calls.dur[call]) });
  if (calls.blocked[call] > 0) add("Blocked", { text: `${formatNanos(calls.blocked[call])} waiting for work` });
  add("Returned", { text: calls.code[call] === 0 ? "0, success" : String(calls.code[call]) });
  if (calls.refused[call]) add("Refused", { text: "its stream refused the work" });
  const ops = [...index.opsOf(call)];
  if (ops.length > 0) fields.push({ label: ops.length > 12 ? `First 12 of ${formatCount(ops.length)} ops` : "Ops", parts: [], lines: ops.slice(0, 12).map((op) => [{ text: `${opTitle(trace, op)}: ${opName(trace, op)}`, op }]) });
  fields.push(...stackFields(trace, call));
  return { title: callLabel(trace, call), place: threadName(trace, calls.thread[call]), fields };
}

// Everything about a capture.
function describeCapture(trace, id) {
  const capture = trace.captures[id];
  const end = capture.end > 0 ? capture.end - 1 : trace.span;
  const fields = [
    { label: "Stream", parts: [{ text: streamName(trace, capture.stream) }] },
    { label: "Began", parts: [{ text: `at ${formatMoment(capture.begin)}` }] },
    { label: "Took", parts: [{ text: formatNanos(end - capture.begin) }] },
    { label: "Recorded", parts: [{ text: counted(capture.tasks, "task") }] },
    { label: "Outcome", parts: [{ text: capture.isGraph ? `graph ${capture.graph}` : capture.end > 0 ? "no graph" : "never ended" }] },
  ];
  if (capture.call > 0) fields.push({ label: "Call", parts: [callPart(trace, capture.call - 1)] });
  return { title: `Capture of graph ${capture.graph}`, place: streamName(trace, capture.stream), fields };
}

// What a trace does not have, as sentences; empty if it has everything.
function leftOutText(trace) {
  const { ops, calls, others, facts } = trace.leftOut;
  const parts = [];
  if (ops > 0) parts.push(`${formatCount(ops)} later ops are not in this trace: it keeps the first ${formatCount(trace.ops.count)}.`);
  if (calls > 0) parts.push(`${formatCount(calls)} calls were left out.`);
  if (others > 0) parts.push(`${formatCount(others)} waits, joins, blocks, threads or streams were left out.`);
  if (facts > 0) parts.push(`${formatCount(facts)} facts were lost before they could be read.`);
  const killed = trace.processes.filter((process) => process.ended === 0);
  if (killed.length > 0) parts.push(`Process ${killed.map((process) => process.number).join(", ")} did not end in order; the trace is as far as it ran.`);
  return parts.join(" ");
}

// How many ops did not come to a good end, by what became of them.
function troubles(trace) {
  const { ops } = trace;
  const counts = [0, 0, 0, 0, 0];
  for (let op = 0; op < ops.count; op += 1) counts[ops.state[op]] += 1;
  const words = { [STATE.failed]: "failed", [STATE.dropped]: "dropped", [STATE.running]: "never finished", [STATE.queued]: "never began" };
  return Object.entries(words).filter(([state]) => counts[state] > 0).map(([state, word]) => `${formatCount(counts[state])} ${word}`);
}

// One line for the whole trace.
function summaryText(trace) {
  const { ops } = trace;
  let bytes = 0;
  for (let op = 0; op < ops.count; op += 1) if (ops.state[op] === STATE.done) bytes += ops.bytes[op];
  const backends = [...new Set(trace.processes.map((process) => process.backend))].filter(Boolean).join(", ");
  const moved = `${formatCount(ops.count)} ops on ${formatCount(trace.streams.length)} streams moved ${formatBytes(bytes)} in ${formatNanos(trace.span)}`;
  return [moved, backends ? `${backends} backend` : "", ...troubles(trace)].filter(Boolean).join(" · ");
}
