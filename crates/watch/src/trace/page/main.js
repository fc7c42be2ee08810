// The page: what is shown, and what mouse and keys change about it.

const find = (id) => document.getElementById(id);
const trace = decodeTrace(JSON.parse(find("data").textContent));
const index = buildIndex(trace);
const rows = buildRows(trace, index);
const places = findPlaces(rows, trace, index);
const arrows = buildArrows(trace, places);
const marks = buildMarks(trace, places);
const allBytes = bytesInFlight(trace, () => true);
const canvas = find("canvas");
const overview = find("overview");
const scroller = find("scroller");
const tip = find("tip");
const SHORTEST = 20;

const view = { t0: 0, t1: Math.max(trace.span, 1), selection: null, found: null, hit: -1, range: null, drawn: null };
let palette = null;
let pending = false;

function gutterWidth() {
  return canvas.clientWidth < 900 ? 150 : 196;
}

function timeScale() {
  return (view.t1 - view.t0) / Math.max(canvas.clientWidth - gutterWidth(), 1);
}

function setView(t0, t1) {
  const most = Math.max(trace.span, 1) * 1.04;
  const span = Math.min(Math.max(t1 - t0, SHORTEST), most);
  const edge = Math.max(trace.span, 1) * 0.02;
  const middle = (t0 + t1) / 2;
  view.t0 = Math.min(Math.max(middle - span / 2, -edge), Math.max(trace.span + edge - span, -edge));
  view.t1 = view.t0 + span;
  redraw();
}

function fitAll() {
  setView(-trace.span * 0.01, trace.span * 1.01);
}

function zoom(factor, time = (view.t0 + view.t1) / 2) {
  const span = view.t1 - view.t0;
  const wanted = Math.min(Math.max(span * factor, SHORTEST), Math.max(trace.span, 1) * 1.04);
  const t0 = time - ((time - view.t0) * wanted) / span;
  setView(t0, t0 + wanted);
}

function pan(part) {
  const step = (view.t1 - view.t0) * part;
  setView(view.t0 + step, view.t1 + step);
}

function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    draw();
  });
}

// Fits a canvas to its place on the screen and gives its context, in units of the page.
function contextOf(element) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(element.clientWidth * ratio), Math.round(element.clientHeight * ratio)];
  if (element.width !== width || element.height !== height) Object.assign(element, { width, height });
  const ctx = element.getContext("2d", { alpha: false });
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}

// What is to be drawn, without the context to draw it with.
function scene() {
  return {
    width: canvas.clientWidth, height: canvas.clientHeight, gutter: gutterWidth(), palette, rows, places, marks, arrows, trace, index, threadPlaces: joinPlaces, t0: view.t0, scale: timeScale(), scroll: scroller.scrollTop,
    selection: view.selection, found: view.found, showWaits: isPressed("waits-on"), showJoins: isPressed("joins-on"),
  };
}

function draw() {
  if (!palette) palette = readPalette();
  view.drawn = drawScene({ ...scene(), ctx: contextOf(canvas) });
  if (view.range) {
    const ctx = canvas.getContext("2d");
    const [from, to] = view.range.slice().sort((a, b) => a - b);
    ctx.globalAlpha = 0.2;
    ctx.fillStyle = palette.accent;
    ctx.fillRect(from, 0, to - from, canvas.clientHeight);
    ctx.globalAlpha = 1;
  }
  drawOverview();
}

const joinPlaces = threadPlaces(places);

// The bytes in flight over the whole trace, and the part of it that is shown.
function drawOverview() {
  const ctx = contextOf(overview);
  const [width, height] = [overview.clientWidth, overview.clientHeight];
  ctx.fillStyle = palette.panel;
  ctx.fillRect(0, 0, width, height);
  const scale = Math.max(trace.span, 1) / width;
  const pixels = overviewPixels(scale, width);
  ctx.fillStyle = palette.soft.h2d;
  const peak = Math.max(allBytes.peak, 1);
  for (let x = 0; x < width; x += 1) {
    const tall = Math.round((pixels[x] / peak) * (height - 8));
    if (tall > 0) ctx.fillRect(x, height - tall, 1, tall);
  }
  for (const { finding, time, end } of marks) {
    ctx.fillStyle = markColour(palette, trace.findings[finding]);
    if (end === "access") ctx.fillRect(time / scale - 1, 0, 3, 8);
  }
  const [from, to] = [view.t0 / scale, Math.max(view.t1 / scale, view.t0 / scale + 2)];
  ctx.fillStyle = palette.bg;
  ctx.globalAlpha = 0.72;
  ctx.fillRect(0, 0, Math.max(from, 0), height);
  ctx.fillRect(to, 0, Math.max(width - to, 0), height);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = palette.accent;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(Math.max(from, 0) + 0.75, 0.75, Math.min(to, width) - Math.max(from, 0) - 1.5, height - 1.5);
}

let keptPixels = { width: 0, pixels: null };
function overviewPixels(scale, width) {
  if (keptPixels.width !== width) keptPixels = { width, pixels: seriesPixels(allBytes, 0, scale, width) };
  return keptPixels.pixels;
}

function isPressed(id) {
  return find(id).getAttribute("aria-pressed") === "true";
}

// The row, track and box at a point of the canvas.
function boxUnder(x, y) {
  if (x < gutterWidth() || y < AXIS_HEIGHT) return null;
  const at = y - AXIS_HEIGHT + scroller.scrollTop;
  const row = rows.find((each) => each.isShown && at >= each.top && at < each.top + each.height);
  if (!row || !row.tracks) return null;
  const track = row.tracks[Math.floor((at - row.top - 2) / TRACK_HEIGHT)];
  if (!track) return null;
  const scale = timeScale();
  const time = view.t0 + (x - gutterWidth()) * scale;
  const box = boxAt(track, time, 3 * scale);
  if (box < 0) return null;
  const isNarrow = track.end[box] - track.begin[box] < CELL * scale;
  const count = isNarrow ? firstAbove(track.begin, track.begin[box] + CELL * scale) - firstAbove(track.begin, track.begin[box], 0, track.size, true) : 1;
  return { row, track, box, count };
}

function selectionOf({ row, track, box }) {
  const id = track.id[box];
  return row.type === "calls" ? { call: id } : row.type === "captures" ? { capture: id } : { op: id };
}

// What a click at a point of the canvas selects.
function selectionAt(x, y) {
  const finding = findingUnder(scene(), x, y, view.selection ? view.selection.finding : undefined);
  if (finding >= 0) return { finding };
  const under = boxUnder(x, y);
  return under ? selectionOf(under) : null;
}

function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

// Selects an op, a call, a capture or a finding; `isJump` brings it into view.
function select(selection, isJump = true) {
  view.selection = selection;
  let description = null;
  if (selection && selection.op !== undefined) description = describeOp(trace, index, selection.op);
  else if (selection && selection.call !== undefined) description = describeCall(trace, index, selection.call);
  else if (selection && selection.finding !== undefined) description = describeFinding(trace, selection.finding);
  else if (selection) description = describeCapture(trace, selection.capture);
  showDetails(find("details"), description, select);
  for (const [table, entries] of [["table", tableEntries], ["findings-table", findingEntries]]) {
    const body = find(table).tBodies[0];
    entries.forEach((entry, at) => body.rows[at].setAttribute("aria-selected", String(isSame(entry.selection, selection))));
  }
  if (selection && isJump) jump(selection);
  redraw();
}

// When something was, from its submission to its end; null if that is not known.
function spanOf({ op, call, capture, finding }) {
  const { ops, calls, captures } = trace;
  if (finding !== undefined) return findingSpan(trace, marks, finding);
  if (op !== undefined) {
    const begin = ops.begin[op] >= 0 ? ops.begin[op] : ops.submitted[op];
    return [ops.submitted[op] >= 0 ? ops.submitted[op] : begin, Math.max(ops.end[op], begin), begin];
  }
  if (call !== undefined) return [calls.begin[call], calls.end[call], calls.begin[call]];
  const { begin, end } = captures[capture];
  return [begin, end > 0 ? end - 1 : trace.span, begin];
}

// Where something stands; -1 if it has no place.
function placeOf({ op, call, finding }) {
  if (op !== undefined) return places.op[op];
  if (call !== undefined) return places.call[call];
  const mark = marks.find((each) => each.finding === finding);
  return mark ? mark.place : -1;
}

// Brings something into view: keeps the scale if it can be seen well at it.
function jump(selection) {
  const span = spanOf(selection);
  if (!span) return;
  const [from, to] = span;
  const shown = view.t1 - view.t0;
  if (to - from > shown * 0.9 || to - from < shown / 25) {
    const wide = Math.max((to - from) * 2.5, SHORTEST * 5);
    setView((from + to - wide) / 2, (from + to + wide) / 2);
  } else if (from < view.t0 || to > view.t1) {
    setView((from + to - shown) / 2, (from + to + shown) / 2);
  }
  const place = placeOf(selection);
  if (place < 0) return;
  const { row, below } = places.tops[place];
  if (!row.isShown) showAllRows();
  const y = row.top + below;
  const room = canvas.clientHeight - AXIS_HEIGHT;
  if (y < scroller.scrollTop + 10 || y > scroller.scrollTop + room - 10) scroller.scrollTop = y - room / 2;
}

// Shows the rows that are wanted.
function showRows(isWanted) {
  find("tall").style.height = `${layOut(rows, isWanted) + AXIS_HEIGHT}px`;
  redraw();
}

function showAllRows() {
  find("rows-on").setAttribute("aria-pressed", "false");
  showRows(() => true);
}

// Leaves only rows that have something in what is shown now; again to show all.
function toggleRows() {
  if (isPressed("rows-on")) {
    showAllRows();
    return;
  }
  find("rows-on").setAttribute("aria-pressed", "true");
  const { t0, t1 } = view;
  showRows((row) => hasBoxes(row, t0, t1));
}

function neighbour(step) {
  const { selection } = view;
  if (!selection || selection.op === undefined) return;
  const all = index.streamOps[trace.ops.stream[selection.op]];
  const next = all[index.place[selection.op] + step];
  if (next !== undefined) select({ op: next });
}

function runSearch(query) {
  view.found = search(trace, query);
  view.hit = -1;
  for (const row of rows) {
    for (const track of row.tracks || []) {
      track.hits = view.found && row.type !== "captures" ? countHits(track, view.found, index, row.type === "ops") : null;
    }
  }
  find("hits").textContent = view.found ? `${formatCount(view.found.hits.length)} found` : "";
  redraw();
}

function nextHit(step) {
  const { found } = view;
  if (!found || found.hits.length === 0) return;
  if (view.hit < 0) {
    const after = found.hits.findIndex((hit) => hit.time >= view.t0);
    view.hit = step > 0 ? Math.max(after, 0) : Math.max(after, 0) - 1;
  } else {
    view.hit += step;
  }
  view.hit = (view.hit + found.hits.length) % found.hits.length;
  const { op, call } = found.hits[view.hit];
  select(op !== undefined ? { op } : { call });
  find("hits").textContent = `${formatCount(view.hit + 1)} of ${formatCount(found.hits.length)}`;
}

let tableEntries = [];
function fillTable(choice) {
  tableEntries = tableRows(trace, index, choice);
  showTable(find("table"), choice === "calls" ? CALL_HEADS : WAIT_HEADS, tableEntries, 0, select);
}

// The list of findings, and the buttons that lead from it to the table of waits and back.
const findingEntries = findingRows(trace);
function fillFindings() {
  const hasFindings = trace.findings !== undefined;
  const show = (isFindings) => {
    find("findings").hidden = !isFindings;
    find("waits").hidden = isFindings;
  };
  find("to-findings").hidden = !hasFindings;
  find("to-findings").addEventListener("click", () => show(true));
  find("to-waits").addEventListener("click", () => show(false));
  showTable(find("findings-table"), FINDING_HEADS, findingEntries, 4, select);
  show(hasFindings);
}

function showTip(x, y) {
  const finding = findingUnder(scene(), x, y);
  const under = boxUnder(x, y);
  const isSomething = finding >= 0 || under !== null;
  canvas.style.cursor = isSomething ? "pointer" : "default";
  if (!isSomething) {
    tip.hidden = true;
    return;
  }
  const lines = finding >= 0 ? findingTip(trace, finding) : tipText(trace, under.row, under.track, under.box, under.count);
  tip.replaceChildren(...lines.map((text, at) => element(at === 0 ? "strong" : "div", { textContent: text, className: at > 1 ? "muted" : "" })));
  tip.hidden = false;
  tip.style.left = `${Math.min(x + 14, canvas.clientWidth - tip.offsetWidth - 4)}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > canvas.clientHeight ? y - tip.offsetHeight - 10 : y + 18}px`;
}

// Mouse: drag moves in both directions, shift and drag chooses a range, a click selects.
let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  drag = { x: event.offsetX, y: event.offsetY, t0: view.t0, t1: view.t1, top: scroller.scrollTop, isRange: event.shiftKey, moved: false };
  canvas.setPointerCapture(event.pointerId);
  tip.hidden = true;
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) {
    showTip(event.offsetX, event.offsetY);
    return;
  }
  const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
  if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
  drag.moved = true;
  if (drag.isRange) {
    view.range = [drag.x, event.offsetX];
    redraw();
    return;
  }
  canvas.classList.add("dragging");
  const step = -dx * timeScale();
  scroller.scrollTop = drag.top - dy;
  setView(drag.t0 + step, drag.t1 + step);
});
canvas.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const { moved, isRange, x } = drag;
  drag = null;
  canvas.classList.remove("dragging");
  if (moved && isRange) {
    const scale = timeScale();
    const [from, to] = [x, event.offsetX].sort((a, b) => a - b).map((at) => view.t0 + (at - gutterWidth()) * scale);
    view.range = null;
    setView(from, to);
  } else if (!moved) {
    select(selectionAt(event.offsetX, event.offsetY), false);
  }
});
canvas.addEventListener("pointerleave", () => {
  tip.hidden = true;
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : 1;
  if (event.offsetX < gutterWidth()) scroller.scrollTop += event.deltaY * unit;
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(((event.deltaX || event.deltaY) * unit) / canvas.clientWidth);
  else zoom(1.0016 ** (event.deltaY * unit), view.t0 + (event.offsetX - gutterWidth()) * timeScale());
  tip.hidden = true;
}, { passive: false });

function moveOverview(event) {
  const middle = (event.offsetX / overview.clientWidth) * trace.span;
  const half = (view.t1 - view.t0) / 2;
  setView(middle - half, middle + half);
}
overview.addEventListener("pointerdown", (event) => {
  overview.setPointerCapture(event.pointerId);
  moveOverview(event);
});
overview.addEventListener("pointermove", (event) => {
  if (event.buttons & 1) moveOverview(event);
});

const KEYS = {
  w: () => zoom(0.8), "+": () => zoom(0.8), "=": () => zoom(0.8), s: () => zoom(1.25), "-": () => zoom(1.25),
  a: () => pan(-0.12), ArrowLeft: () => pan(-0.12), d: () => pan(0.12), ArrowRight: () => pan(0.12),
  ArrowUp: () => { scroller.scrollTop -= 40; }, ArrowDown: () => { scroller.scrollTop += 40; },
  PageUp: () => { scroller.scrollTop -= canvas.clientHeight; }, PageDown: () => { scroller.scrollTop += canvas.clientHeight; },
  0: fitAll, Home: fitAll, r: toggleRows, n: () => nextHit(1), N: () => nextHit(-1), ",": () => neighbour(-1), ".": () => neighbour(1),
  "/": () => find("search").focus(), "?": () => toggleHelp(), f: () => {
    const span = view.selection && spanOf(view.selection);
    if (!span) return;
    const [from, to] = span;
    const wide = Math.max((to - from) * 1.6, SHORTEST);
    setView((from + to - wide) / 2, (from + to + wide) / 2);
  },
  Escape: () => {
    find("help").hidden = true;
    find("search").value = "";
    runSearch("");
    select(null);
  },
};

function toggleHelp() {
  const help = find("help");
  help.hidden = !help.hidden;
  find("keys").setAttribute("aria-expanded", String(!help.hidden));
}

document.addEventListener("keydown", (event) => {
  const isText = ["INPUT", "SELECT"].includes(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey || (isText && event.key !== "Escape")) return;
  const isScroll = ["PageUp", "PageDown", "ArrowUp", "ArrowDown", "Home"].includes(event.key);
  if (isScroll && event.target.closest && event.target.closest(".panels")) return;
  const act = KEYS[event.key] || (event.key.length === 1 ? KEYS[event.key.toLowerCase()] : null);
  if (!act) return;
  event.preventDefault();
  act();
});

find("search").addEventListener("input", (event) => runSearch(event.target.value));
find("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
});
find("next").addEventListener("click", () => nextHit(1));
find("previous").addEventListener("click", () => nextHit(-1));
find("fit").addEventListener("click", fitAll);
find("rows-on").addEventListener("click", toggleRows);
find("keys").addEventListener("click", toggleHelp);
for (const id of ["waits-on", "joins-on"]) {
  find(id).addEventListener("click", () => {
    find(id).setAttribute("aria-pressed", String(!isPressed(id)));
    redraw();
  });
}
scroller.addEventListener("scroll", redraw);

// The height of the panel: drag, or the keys up and down on the line above it.
function resizePanel(height) {
  find("panels").style.height = `${Math.min(Math.max(height, 60), window.innerHeight - 260)}px`;
}
find("splitter").addEventListener("pointerdown", (event) => event.target.setPointerCapture(event.pointerId));
find("splitter").addEventListener("pointermove", (event) => {
  if (event.buttons & 1) resizePanel(window.innerHeight - event.clientY);
});
find("splitter").addEventListener("keydown", (event) => {
  const step = { ArrowUp: 24, ArrowDown: -24 }[event.key];
  if (!step) return;
  event.stopPropagation();
  event.preventDefault();
  resizePanel(find("panels").clientHeight + step);
});

find("summary").textContent = summaryText(trace);
find("summary").title = find("summary").textContent;
find("command").title = find("command").textContent;
find("command").textContent = find("command").textContent.replace(/^\S*\//, "");
find("note").textContent = leftOutText(trace);
find("note").hidden = !find("note").textContent;
showRows(() => true);
markRows(marks, places);
showLegend(find("legend"), rows, marks.length > 0);
const causes = [["any", "anything"], ...Object.entries(CAUSES), ["calls", "blocked calls"]];
find("cause").replaceChildren(...causes.map(([value, text]) => element("option", { value, textContent: text })));
find("cause").addEventListener("change", (event) => fillTable(event.target.value));
fillTable("any");
fillFindings();
showDetails(find("details"), null, select);
fitAll();
document.addEventListener("themechange", () => {
  palette = null;
  redraw();
});
new ResizeObserver(redraw).observe(find("timeline"));

// For scripts that drive the page.
window.ferryTrace = { trace, index, rows, places, marks, view, setView, zoom, pan, fitAll, select, runSearch, nextHit, draw, boxUnder };
