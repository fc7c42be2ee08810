// The panel below the timeline: the tables of findings and of the longest waits, and the details of what is
// selected.

function element(tag, properties = {}, children = []) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// What a part of a text leads to; null if to nothing.
function targetOf(part) {
  const kind = ["op", "call", "finding"].find((name) => part[name] !== undefined);
  return kind ? { [kind]: part[kind] } : null;
}

// A text that may lead to an op, a call or a finding.
function partElement(part, select) {
  const tag = part.strong ? "strong" : part.mono ? "code" : "span";
  const target = targetOf(part);
  if (!target) return element(tag, { textContent: part.text });
  const link = element("a", { textContent: part.text, tabIndex: 0, role: "link" });
  const go = () => select(target);
  link.addEventListener("click", go);
  link.addEventListener("keydown", (event) => {
    if (event.key === "Enter") go();
  });
  return link;
}

function lineElements(parts, select) {
  return parts.flatMap((part, at) => (at > 0 ? [" ", partElement(part, select)] : [partElement(part, select)]));
}

function showDetails(box, description, select) {
  if (!description) {
    box.replaceChildren(element("h2", { textContent: "Nothing is selected" }), element("p", {
      className: "muted", textContent: "Click on an op, a call or a row of the table: this is where its size, addresses, allocation, call, thread and the reasons of its wait appear.",
    }));
    return;
  }
  const list = element("dl");
  for (const { label, parts, lines } of description.fields) {
    const value = element("dd", {}, lineElements(parts, select));
    if (lines) value.append(element("ul", {}, lines.map((line) => element("li", {}, lineElements(line, select)))));
    list.append(element("dt", { textContent: label }), value);
  }
  box.replaceChildren(
    element("h2", { textContent: description.title }),
    element("div", { className: "place", textContent: description.place }),
    list,
  );
  box.scrollTop = 0;
}

const TABLE_ROWS = 200;

// The main cause of a wait in a few words.
function causeText(trace, index, op, cause, by) {
  if (cause === "stream") {
    const ahead = queuePosition(trace, index, op);
    return `${CAUSES.stream}${ahead > 1 ? ` (${formatCount(ahead)} in front)` : ""}`;
  }
  return by >= 0 ? `${CAUSES[cause]}: ${opName(trace, by)}` : CAUSES[cause];
}

// The rows of the table for a choice: a cause, `any`, or `calls`.
function tableRows(trace, index, choice) {
  if (choice === "calls") {
    return longestBlocked(trace, TABLE_ROWS).map(({ call, nanos }) => ({
      selection: { call },
      cells: [formatNanos(nanos), callLabel(trace, call), threadName(trace, trace.calls.thread[call]), "work it waits for", shortCaller(trace, call)],
    }));
  }
  return longestWaits(trace, index, TABLE_ROWS, choice === "any" ? null : choice).map(({ op, nanos, cause, by }) => ({
    selection: { op },
    cells: [
      formatNanos(nanos), opShort(trace, op), opName(trace, op),
      causeText(trace, index, op, cause, by),
      shortCaller(trace, trace.ops.call[op]),
    ],
  }));
}

const WAIT_HEADS = ["Waited", "Op", "Where", "Because of", "Caller"];
const CALL_HEADS = ["Blocked", "Call", "Thread", "Because of", "Caller"];

// Fills a table; `number` is the column that has numbers.
function showTable(table, heads, rows, number, select) {
  const head = (text, at) => element("th", { textContent: text, scope: "col", className: at === number ? "number" : "" });
  table.tHead.replaceChildren(element("tr", {}, heads.map(head)));
  const cell = (text, at) => element("td", { textContent: text, title: text, className: at === number ? "number" : "" });
  const body = rows.map(({ selection, cells, tone = "" }) => {
    const row = element("tr", { tabIndex: 0, className: tone }, cells.map(cell));
    row.addEventListener("click", () => select(selection));
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") select(selection);
    });
    return row;
  });
  const none = element("tr", {}, [element("td", { textContent: "none", colSpan: heads.length, className: "muted" })]);
  table.tBodies[0].replaceChildren(...(body.length > 0 ? body : [none]));
}

// The kinds of work and calls that the trace has.
function showLegend(box, rows, hasFindings) {
  const entry = (name, words, shape = "") => {
    const swatch = element("i", { className: `swatch ${shape}`.trim() });
    swatch.style.background = `var(--${name === "capture" ? "d2d" : name})`;
    return element("span", {}, [swatch, words]);
  };
  const tracks = rows.flatMap((row) => (row.type === "captures" ? [] : row.tracks || []));
  const used = TINTS.filter((_, tint) => tracks.some((track) => track.tints.includes(tint)));
  const hasPageable = rows.some((row) => (row.series || []).some(({ tint, steps }) => tint === "pageable" && steps.size > 0));
  const pageable = hasPageable ? [entry("pageable", "below a box: pageable memory")] : [];
  const marks = hasFindings ? [entry("failed", "finding", "triangle")] : [];
  box.replaceChildren(...used.map(({ name, words }) => entry(name, words)), ...pageable, ...marks);
}

// What a tooltip says of a box that stands for one op or call, or of many that are too narrow to be told apart.
function tipText(trace, row, track, at, count) {
  const id = track.id[at];
  if (row.type === "captures") return [`Capture of graph ${trace.captures[id].graph}`];
  const took = formatNanos(track.end[at] - track.begin[at]);
  const many = count > 1 ? [`${formatCount(count)} here, too narrow to be told apart: zoom in`] : [];
  if (row.type === "calls") {
    const { blocked } = trace.calls;
    return [callLabel(trace, id), `${took}${blocked[id] > 0 ? `, blocked ${formatNanos(blocked[id])}` : ""}`, shortCaller(trace, id), ...many].filter(Boolean);
  }
  const wait = waitOf(trace, id);
  const together = track.count[at] > 1 ? `${track.count[at]} ops, sent as one` : "";
  return [opTitle(trace, id), opName(trace, id), `${took}${wait > 0 ? `, waited ${formatNanos(wait)}` : ""}`, together, ...many].filter(Boolean);
}
