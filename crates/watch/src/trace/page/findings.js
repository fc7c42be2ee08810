// Findings of the checker: where their marks stand, and what the page says of them. A trace that nobody
// checked has none.

function allFindings(trace) {
  return trace.findings || [];
}

// When a finding went wrong. A call that leaks memory is seen to do so at the end: it counts when it was made.
function accessMoment(trace, { access }) {
  const { calls } = trace;
  if (access.call === null) return access.time;
  return Math.min(Math.max(access.time, calls.begin[access.call]), calls.end[access.call]);
}

// The marks of all findings, `{ finding, end, time, place }`, in the order of time: `end` is `access` or `work`,
// `place` an index of `places.tops`. The access has a mark in the row of its thread, and both ends have one
// on the box of their op; work without a box has it on its call.
function buildMarks(trace, places) {
  const { ops, calls } = trace;
  const threads = threadPlaces(places);
  const marks = [];
  const add = (finding, end, time, place) => {
    if (place !== undefined && place >= 0) marks.push({ finding, end, time, place });
  };
  allFindings(trace).forEach((found, finding) => {
    const { access, work } = found;
    const addOp = (end, op) => add(finding, end, ops.begin[op], places.op[op]);
    const hasBox = (op) => op !== null && places.op[op] >= 0;
    const inThread = access.call !== null ? places.call[access.call] : threads.get(access.thread);
    add(finding, "access", accessMoment(trace, found), inThread);
    if (hasBox(access.op)) addOp("access", access.op);
    if (!work || (work.op !== null && work.op === access.op)) return;
    if (hasBox(work.op)) addOp("work", work.op);
    else if (work.call !== null && work.call !== access.call) add(finding, "work", calls.begin[work.call], places.call[work.call]);
  });
  return marks.sort((one, other) => one.time - other.time);
}

// Gives each row the times of its marks, so that a row counts as busy where it has one.
function markRows(marks, places) {
  for (const { time, place } of marks) {
    const { row } = places.tops[place];
    row.marks = [...(row.marks || []), time];
  }
}

// So much is shown around a finding at least, in nanoseconds: an access alone has no length.
const LEAST_FINDING_SPAN = 100000;

// From the first to the last moment of a finding, its calls and its work; null if it has no mark.
function findingSpan(trace, marks, finding) {
  const { ops, calls } = trace;
  const own = marks.filter((mark) => mark.finding === finding);
  if (own.length === 0) return null;
  const times = own.map(({ time }) => time);
  const { access, work } = trace.findings[finding];
  for (const { op, call } of [access, work || access]) {
    if (call !== null) times.push(calls.begin[call], calls.end[call]);
    if (op !== null) times.push(...[ops.submitted[op], ops.end[op]].filter((time) => time >= 0));
  }
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const room = Math.max(0, LEAST_FINDING_SPAN - (to - from)) / 2;
  return [from - room, to + room];
}

// A position without the folders of its file.
function shortPlace(place) {
  return place === null ? "" : place.replace(/^.*\//, "");
}

function workName({ work }) {
  return work ? `${work.name} ${shortPlace(work.place)}`.trim() : "";
}

// The rows of the list: what is selected by each, and its cells.
function findingRows(trace) {
  return allFindings(trace).map((found, finding) => ({
    selection: { finding },
    tone: found.severity,
    cells: [found.severity, found.id, shortPlace(found.place), workName(found), formatCount(found.count), found.message],
  }));
}

// The findings of which one end is this op or this call (`kind`), as a field that leads to them.
function findingFields(trace, kind, id) {
  const isOf = ({ access, work }) => access[kind] === id || (work !== null && work[kind] === id);
  const lines = allFindings(trace).flatMap((found, finding) => (isOf(found) ? [[{ text: `${found.id}: ${found.title}`, finding }]] : []));
  return lines.length > 0 ? [{ label: "Findings", parts: [], lines }] : [];
}

function stackLines(stack) {
  return stack.map((frame) => [{ text: frame, mono: true }]);
}

// The call and the op of one end of a finding, which lead there on the timeline.
function spotParts(trace, { name, call, op }) {
  const ofOp = op !== null ? [{ text: opName(trace, op), op }] : [];
  if (call !== null) return [{ text: callLabel(trace, call), call }, ...ofOp];
  return name ? [{ text: name }, ...ofOp] : ofOp;
}

// Everything about a finding.
function describeFinding(trace, finding) {
  const found = trace.findings[finding];
  const { access, work } = found;
  const isAccess = (stack) => stack.length > 0 && stack.join() === access.stack.join();
  const fields = [{ label: "What", parts: [{ text: found.message }] }, { label: "To do", parts: [{ text: found.remedy }] }];
  const thread = access.thread !== null ? [{ text: `${threadName(trace, access.thread)} at ${formatMoment(accessMoment(trace, found))}` }] : [];
  fields.push({ label: "Access", parts: [...thread, ...spotParts(trace, access)], lines: stackLines(access.stack) });
  if (work) {
    fields.push({ label: "Work", parts: spotParts(trace, work), lines: isAccess(work.stack) ? [] : stackLines(work.stack) });
  }
  if (found.allocation && !isAccess(found.allocation)) fields.push({ label: "Allocated", parts: [], lines: stackLines(found.allocation) });
  if (found.bytes !== null) fields.push({ label: "Bytes", parts: [{ text: found.address, mono: true }, { text: found.bytes > 1 ? `and ${formatCount(found.bytes - 1)} behind` : "" }] });
  const seen = found.count > 1 ? `, seen ${formatCount(found.count)} times` : "";
  return { title: `${found.id}: ${found.title}`, place: `${found.severity} in process ${found.process}${seen}`, fields };
}
