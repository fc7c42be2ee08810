// Draws the rows on a canvas. It is given everything by the view and keeps nothing but colours.

const AXIS_HEIGHT = 26;
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const LABEL_FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const LEVELS = 5;
// Letters of the font are about this wide; texts are cut by it, since measuring each would cost more.
const LETTER = 5.9;
// Arrows nearer to each other than this many pixels are not all drawn.
const ARROW_ROOM = 12;

function parseColour(text) {
  const value = parseInt(text.trim().slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function mix(one, other, part) {
  return one.map((channel, at) => Math.round(channel * part + other[at] * (1 - part)));
}

// A colour as the pixels of an image have it: bytes red, green, blue, alpha, the first the lowest.
function pixel([red, green, blue]) {
  return (red | (green << 8) | (blue << 16) | (255 << 24)) >>> 0;
}

function css([red, green, blue]) {
  return `rgb(${red},${green},${blue})`;
}

// The colours of the style sheet: for each class one for every density, and behind them a faint one.
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => parseColour(style.getPropertyValue(`--${name}`));
  const palette = { tints: [], pixels: [], texts: [] };
  for (const name of ["bg", "panel", "fg", "muted", "line", "grid", "accent", "band", "arrow", "pinned", "pageable", "h2d", "failed"]) {
    palette[name] = css(colour(name));
  }
  const back = colour("bg");
  for (const { name } of TINTS) {
    const full = colour(name === "capture" ? "d2d" : name);
    const parts = Array.from({ length: LEVELS }, (_, level) => 0.4 + (0.6 * level) / (LEVELS - 1));
    const colours = [...parts, 0.16].map((part) => mix(full, back, part));
    palette.tints.push(colours.map(css));
    palette.pixels.push(colours.map(pixel));
    const bright = 0.299 * full[0] + 0.587 * full[1] + 0.114 * full[2];
    palette.texts.push(bright > 140 ? "#101418" : "#ffffff");
  }
  palette.soft = { h2d: css(mix(colour("h2d"), back, 0.55)), pinned: css(mix(colour("pinned"), back, 0.6)), pageable: css(mix(colour("pageable"), back, 0.7)) };
  return palette;
}

// Draws one frame. `scene` has `ctx`, `width`, `height`, `gutter`, `palette`, `rows`, `places`, `marks`, `trace`,
// `index`, `t0`, `scale` (nanoseconds a pixel), `scroll`, `found`, `selection`, `hover`, `showWaits` and `showJoins`.
// Gives back how many boxes, arrows, texts and marks were drawn.
function drawScene(scene) {
  const { ctx, width, height, palette } = scene;
  const drawn = { boxes: 0, arrows: 0, texts: 0, ticks: 0, rows: 0, marks: 0 };
  ctx.fillStyle = palette.bg;
  ctx.fillRect(0, 0, width, height);
  const visible = scene.rows.filter((row) => row.isShown && row.top + row.height > scene.scroll && row.top - scene.scroll < height - AXIS_HEIGHT);
  drawGrid(scene, drawn);
  ctx.save();
  ctx.beginPath();
  ctx.rect(scene.gutter, AXIS_HEIGHT, width - scene.gutter, height - AXIS_HEIGHT);
  ctx.clip();
  scene.strips = openStrips(scene, visible);
  for (const row of visible) drawRow(scene, row, drawn);
  closeStrips(scene);
  drawArrows(scene, drawn);
  drawSelection(scene);
  drawMarks(scene, drawn);
  ctx.restore();
  drawGutter(scene, visible, drawn);
  drawAxis(scene);
  return drawn;
}

function rowY(scene, row) {
  return AXIS_HEIGHT + row.top - scene.scroll;
}

// The middle of a place.
function placeY(scene, place) {
  const { row, below } = scene.places.tops[place];
  return rowY(scene, row) + below;
}

function timeX(scene, time) {
  return scene.gutter + (time - scene.t0) / scene.scale;
}

function sceneTicks(scene) {
  const span = (scene.width - scene.gutter) * scene.scale;
  return timeTicks(scene.t0, scene.t0 + span, Math.max(2, Math.floor((scene.width - scene.gutter) / 110)));
}

function drawGrid(scene, drawn) {
  const { ctx, palette, height } = scene;
  ctx.fillStyle = palette.grid;
  for (const { at } of sceneTicks(scene)) {
    ctx.fillRect(Math.round(timeX(scene, at)), AXIS_HEIGHT, 1, height - AXIS_HEIGHT);
    drawn.ticks += 1;
  }
}

function drawAxis(scene) {
  const { ctx, palette, width, gutter } = scene;
  ctx.fillStyle = palette.panel;
  ctx.fillRect(0, 0, width, AXIS_HEIGHT);
  ctx.fillStyle = palette.line;
  ctx.fillRect(0, AXIS_HEIGHT - 1, width, 1);
  ctx.font = FONT;
  ctx.textBaseline = "middle";
  for (const { at, text } of sceneTicks(scene)) {
    const x = Math.round(timeX(scene, at));
    if (x < gutter) continue;
    ctx.fillStyle = palette.line;
    ctx.fillRect(x, AXIS_HEIGHT - 7, 1, 6);
    ctx.fillStyle = palette.muted;
    ctx.fillText(text, x + 4, AXIS_HEIGHT / 2);
  }
  ctx.fillStyle = palette.muted;
  ctx.fillText(`${formatNanos((width - gutter) * scene.scale)} shown`, 12, AXIS_HEIGHT / 2);
}

function drawRow(scene, row, drawn) {
  const { ctx, palette } = scene;
  const y = rowY(scene, row);
  drawn.rows += 1;
  if (isHead(row)) {
    ctx.fillStyle = palette.band;
    ctx.fillRect(scene.gutter, y, scene.width, row.height);
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    ctx.fillStyle = palette.muted;
    if (row.note) ctx.fillText(row.note, scene.gutter + 8, y + row.height / 2);
    return;
  }
  ctx.fillStyle = palette.grid;
  ctx.fillRect(scene.gutter, y + row.height - 1, scene.width, 1);
  if (row.type === "series") drawSeries(scene, row, y);
  else row.tracks.forEach((track, lane) => drawTrack(scene, row, track, y + 2 + lane * TRACK_HEIGHT, drawn));
}

// Boxes that are too narrow to have a shape are pixels of an image that has one line for each track; a line
// is stretched to the height of its track. That costs the same however many there are.
const stripCanvas = document.createElement("canvas");

function openStrips(scene, visible) {
  const width = Math.max(1, Math.ceil(scene.width - scene.gutter));
  const lines = Math.max(1, visible.reduce((sum, row) => sum + (row.tracks ? row.tracks.length : 0), 0));
  Object.assign(stripCanvas, { width, height: lines });
  const ctx = stripCanvas.getContext("2d", { willReadFrequently: true });
  const image = ctx.createImageData(width, lines);
  return { ctx, image, width, pixels: new Uint32Array(image.data.buffer), used: [] };
}

function closeStrips({ ctx, gutter, strips }) {
  strips.ctx.putImageData(strips.image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  strips.used.forEach((y, line) => ctx.drawImage(stripCanvas, 0, line, strips.width, 1, gutter, y, strips.width, TRACK_HEIGHT - 2));
}

function drawTrack(scene, row, track, y, drawn) {
  const { ctx, palette, gutter, t0, scale, width, strips } = scene;
  const height = TRACK_HEIGHT - 2;
  const line = strips.used.push(y) - 1;
  const texts = [];
  visibleBoxes(track, t0, t0 + (width - gutter) * scale, scale, (x0, x1, tint, first, last, density) => {
    const isFound = !track.hits || track.hits[last] > track.hits[first];
    const shown = track.hits && isFound ? track.tint[firstHit(track, first, last)] : tint;
    const shade = isFound ? Math.min(LEVELS - 1, Math.floor(density * LEVELS)) : LEVELS;
    const left = Math.round(x0);
    const right = Math.max(Math.round(x1), left + 1);
    drawn.boxes += 1;
    if (x1 - x0 <= 4) {
      const to = line * strips.width + Math.min(right, strips.width);
      for (let at = line * strips.width + Math.max(left, 0); at < to; at += 1) strips.pixels[at] = palette.pixels[shown][shade];
      return;
    }
    // Boxes that can be told apart have a gap between them.
    const [from, to] = [Math.max(left, -2), Math.min(right - 1, width)];
    ctx.fillStyle = palette.tints[shown][shade];
    ctx.fillRect(gutter + from, y, to - from, height);
    if (isFound) drawPageable(scene, row, track, first, from, to, y + height - 3);
    if (to - from > 40) texts.push([Math.max(from, 0), to, tint, first]);
  });
  for (const [left, right, tint, at] of texts) drawText(scene, row, track, at, left, right, y + height / 2 + 0.5, tint, drawn);
}

function drawPageable(scene, row, track, at, left, right, y) {
  const { trace, ctx, palette, gutter } = scene;
  if (row.type !== "ops") return;
  const route = trace.routes[trace.ops.route[track.id[at]]];
  if (!route || !route.pageable || right - left < 3) return;
  ctx.fillStyle = palette.pageable;
  ctx.fillRect(gutter + left, y, right - left, 3);
}

function drawText(scene, row, track, at, left, right, y, tint, drawn) {
  const { ctx, trace, palette, gutter } = scene;
  const room = Math.floor((right - left - 8) / LETTER);
  const id = track.id[at];
  let text = "";
  if (row.type === "calls") text = callLabel(trace, id);
  else if (row.type === "captures") text = `graph ${trace.captures[id].graph}`;
  else text = opLabel(trace, id, track.count[at]);
  if (text.length > room) text = room > 5 ? `${text.slice(0, room - 1)}…` : "";
  if (!text) return;
  ctx.font = FONT;
  ctx.textBaseline = "middle";
  const isFaint = track.hits && track.hits[at + 1] === track.hits[at];
  ctx.fillStyle = isFaint ? palette.muted : palette.texts[tint];
  ctx.fillText(text, gutter + left + 4, y);
  drawn.texts += 1;
}

// One series grows upwards from the bottom; of two, the first grows up and the second down from a line between.
function drawSeries(scene, row, y) {
  const { ctx, palette, gutter, width } = scene;
  const room = row.height - 7;
  const peak = Math.max(...row.series.map(({ steps }) => steps.peak), 1);
  const columns = Math.ceil(width - gutter);
  const lower = row.series.length > 1 ? row.series[1].steps.peak : 0;
  const upper = row.series[0].steps.peak;
  const line = y + 3 + (lower > 0 ? Math.max(4, (room * upper) / Math.max(upper + lower, 1)) : room);
  const factor = lower > 0 ? room / Math.max(upper + lower, 1) : room / peak;
  row.series.forEach(({ steps, tint }, number) => {
    const pixels = seriesPixels(steps, scene.t0, scene.scale, columns);
    ctx.fillStyle = palette.soft[tint];
    ctx.beginPath();
    ctx.moveTo(gutter, line);
    let before = 0;
    for (let x = 0; x < columns; x += 1) {
      const level = line + (number === 0 ? -1 : 1) * pixels[x] * factor;
      if (x === 0 || pixels[x] !== before) {
        ctx.lineTo(gutter + x, line + (number === 0 ? -1 : 1) * before * factor);
        ctx.lineTo(gutter + x, level);
      }
      before = pixels[x];
    }
    ctx.lineTo(width, line + (number === 0 ? -1 : 1) * before * factor);
    ctx.lineTo(width, line);
    ctx.fill();
  });
  if (lower > 0) {
    ctx.fillStyle = palette.line;
    ctx.fillRect(gutter, Math.round(line), width - gutter, 1);
  }
}

function drawArrow(scene, x0, y0, x1, y1) {
  const { ctx } = scene;
  const bend = Math.min(40, Math.max(8, Math.abs(x1 - x0) / 2));
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - 6, y1 - 3);
  ctx.lineTo(x1 - 6, y1 + 3);
  ctx.fill();
}

// Calls `emit(k)` for the arrows of a list that is sorted by the time of their heads, with room between them.
function visibleArrows(heads, t0, t1, scale, emit) {
  let at = firstAbove(heads, t0, 0, heads.length, true);
  while (at < heads.length && heads[at] <= t1) {
    emit(at);
    at = Math.max(at + 1, gallopFrom(heads, heads[at] + ARROW_ROOM * scale, at));
  }
}

function drawArrows(scene, drawn) {
  const { ctx, palette, arrows, t0, scale, width, gutter } = scene;
  const t1 = t0 + (width - gutter) * scale;
  const isShown = (place) => scene.places.tops[place].row.isShown;
  const draw = (list, dash) => {
    ctx.strokeStyle = palette.arrow;
    ctx.fillStyle = palette.arrow;
    ctx.lineWidth = 1;
    const crowd = firstAbove(list.heads, t1) - firstAbove(list.heads, t0, 0, list.heads.length, true);
    ctx.globalAlpha = scene.found ? 0.15 : crowd > 60 ? 0.3 : 0.6;
    ctx.setLineDash(dash);
    visibleArrows(list.heads, t0, t1, scale, (at) => {
      if (!isShown(list.tailPlaces[at]) || !isShown(list.headPlaces[at])) return;
      const [y0, y1] = [placeY(scene, list.tailPlaces[at]), placeY(scene, list.headPlaces[at])];
      if (Math.max(y0, y1) < AXIS_HEIGHT || Math.min(y0, y1) > scene.height) return;
      drawArrow(scene, timeX(scene, list.tails[at]), y0, timeX(scene, list.heads[at]), y1);
      drawn.arrows += 1;
    });
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
  };
  if (scene.showWaits) draw(arrows.waits, []);
  if (scene.showJoins) draw(arrows.joins, [4, 3]);
}

// Outlines what is selected wherever it stands, and draws all its arrows.
function drawSelection(scene) {
  const { ctx, palette, selection, trace, index, places } = scene;
  if (!selection) return;
  ctx.strokeStyle = palette.accent;
  ctx.fillStyle = palette.accent;
  ctx.lineWidth = 2;
  for (const row of scene.rows) {
    if (!row.tracks || !row.isShown) continue;
    row.tracks.forEach((track, lane) => {
      const at = selectedBox(scene, row, track);
      if (at < 0) return;
      const [x0, x1] = [timeX(scene, track.begin[at]), timeX(scene, track.end[at])];
      ctx.strokeRect(x0 - 1, rowY(scene, row) + 1 + lane * TRACK_HEIGHT, Math.max(x1 - x0, 2) + 1, TRACK_HEIGHT);
    });
  }
  const y = (place) => placeY(scene, place);
  const { ops, calls, waits, joins } = trace;
  const opArrow = (op, time, place) => {
    if (place >= 0 && places.op[op] >= 0 && ops.begin[op] >= 0) drawArrow(scene, timeX(scene, time), y(place), timeX(scene, ops.begin[op]), y(places.op[op]));
  };
  ctx.lineWidth = 1.5;
  if (selection.call !== undefined) {
    for (const op of [...index.opsOf(selection.call)].slice(0, 200)) opArrow(op, calls.begin[selection.call], places.call[selection.call]);
  }
  if (selection.op === undefined) return;
  const { op } = selection;
  if (ops.call[op] >= 0) opArrow(op, calls.begin[ops.call[op]], places.call[ops.call[op]]);
  for (const wait of index.waitsOf(op)) if (waits.awaited[wait] >= 0) opArrow(op, ops.end[waits.awaited[wait]], places.op[waits.awaited[wait]]);
  for (const wait of index.awaitedBy(op)) if (ops.end[op] >= 0) opArrow(waits.op[wait], ops.end[op], places.op[op]);
  if (places.op[op] >= 0 && ops.end[op] >= 0) {
    for (const join of index.joinsOf(op)) {
      const place = scene.threadPlaces.get(joins.thread[join]);
      if (place !== undefined) drawArrow(scene, timeX(scene, ops.end[op]), y(places.op[op]), timeX(scene, joins.time[join]), y(place));
    }
  }
  if (places.op[op] >= 0 && ops.submitted[op] >= 0 && ops.begin[op] > ops.submitted[op]) {
    const line = y(places.op[op]) + TRACK_HEIGHT / 2 - 2;
    const x = timeX(scene, ops.submitted[op]);
    ctx.fillRect(x, line, timeX(scene, ops.begin[op]) - x, 2);
    ctx.fillRect(x - 1, line - 4, 2, 7);
  }
}

// The box of a track that is selected; -1 if none is.
function selectedBox(scene, row, track) {
  const { selection, trace, index } = scene;
  const find = (id, begin) => {
    for (let at = firstAbove(track.begin, begin, 0, track.size, true); at < track.size && track.begin[at] === begin; at += 1) {
      if (track.id[at] === id) return at;
    }
    return -1;
  };
  if (row.type === "ops" && selection.op !== undefined) return find(index.first[selection.op], trace.ops.begin[selection.op]);
  if (row.type === "calls" && selection.call !== undefined) return find(selection.call, trace.calls.begin[selection.call]);
  if (row.type === "captures" && selection.capture !== undefined) return find(selection.capture, trace.captures[selection.capture].begin);
  return -1;
}

function drawGutter(scene, visible, drawn) {
  const { ctx, palette, gutter, height } = scene;
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, AXIS_HEIGHT, gutter, height - AXIS_HEIGHT);
  ctx.clip();
  ctx.fillStyle = palette.panel;
  ctx.fillRect(0, AXIS_HEIGHT, gutter, height);
  ctx.textBaseline = "middle";
  const fit = (text, from) => {
    const room = Math.floor((gutter - from - 6) / 6.3);
    return text.length > room ? `${text.slice(0, room - 1)}…` : text;
  };
  for (const row of visible) {
    const y = rowY(scene, row);
    drawn.texts += 1;
    if (isHead(row)) {
      ctx.fillStyle = palette.band;
      ctx.fillRect(0, y, gutter, row.height);
      ctx.font = `600 ${LABEL_FONT}`;
      ctx.fillStyle = row.type === "process" ? palette.fg : palette.muted;
      ctx.fillText(fit(row.label, 12), 12, y + row.height / 2);
      continue;
    }
    ctx.fillStyle = palette.grid;
    ctx.fillRect(0, y + row.height - 1, gutter, 1);
    ctx.font = LABEL_FONT;
    ctx.fillStyle = palette.fg;
    const text = fit(row.label, 20);
    const hasNote = row.note || row.type === "series";
    const isTall = row.height >= 40;
    ctx.fillText(text, 20, isTall && hasNote ? y + row.height / 2 - 8 : y + Math.min(row.height / 2, 13));
    ctx.font = FONT;
    ctx.fillStyle = palette.muted;
    if (row.type === "series") {
      const peaks = row.series.map(({ words, steps }) => (row.series.length > 1 ? `${words} ${formatBytes(steps.peak)}` : `peak ${formatBytes(steps.peak)}`));
      peaks.forEach((peak, at) => ctx.fillText(peak, 20, y + row.height / 2 + (row.series.length > 1 ? 6 + at * 13 : 8)));
    } else if (row.note && !isTall) {
      const x = 26 + ctx.measureText(text).width * (12 / 11);
      if (x + row.note.length * LETTER < gutter - 4) ctx.fillText(row.note, gutter - 8 - row.note.length * LETTER, y + Math.min(row.height / 2, 13));
    } else if (row.note) {
      ctx.fillText(fit(row.note, 20), 20, y + row.height / 2 + 8);
    }
  }
  ctx.restore();
  ctx.fillStyle = palette.line;
  ctx.fillRect(gutter - 1, 0, 1, height);
}
