// Marks of findings on the canvas, and the list of findings in the panel.

const MARK_SIZE = 6;

function markColour(palette, { severity }) {
  return severity === "error" ? palette.failed : palette.pageable;
}

// Where the middle of a mark's triangle is.
function markPoint(scene, { time, place }) {
  return [timeX(scene, time), placeY(scene, place) - TRACK_HEIGHT / 2 + MARK_SIZE];
}

function isMarkShown(scene, mark) {
  const [x] = markPoint(scene, mark);
  return scene.places.tops[mark.place].row.isShown && x > scene.gutter - MARK_SIZE && x < scene.width + MARK_SIZE;
}

// A triangle that stands on its tip.
function drawMark(scene, mark) {
  const { ctx, palette, selection, trace } = scene;
  const [x, y] = markPoint(scene, mark);
  const isSelected = selection && selection.finding === mark.finding;
  ctx.beginPath();
  ctx.moveTo(x - MARK_SIZE, y - MARK_SIZE + 1);
  ctx.lineTo(x + MARK_SIZE, y - MARK_SIZE + 1);
  ctx.lineTo(x, y + MARK_SIZE);
  ctx.closePath();
  ctx.lineWidth = isSelected ? 5 : 3;
  ctx.strokeStyle = isSelected ? palette.accent : palette.bg;
  ctx.stroke();
  ctx.fillStyle = markColour(palette, trace.findings[mark.finding]);
  ctx.fill();
}

// Outlines the work of the finding that is selected, with its arrows, and leads a line there from the access.
function drawSelectedFinding(scene) {
  const { ctx, palette, trace, marks, selection } = scene;
  const found = trace.findings[selection.finding];
  for (const { op, call } of [found.work || found.access]) {
    if (op !== null) drawSelection({ ...scene, selection: { op } });
    else if (call !== null) drawSelection({ ...scene, selection: { call } });
  }
  const own = marks.filter(({ finding }) => finding === selection.finding);
  const work = own.find(({ end }) => end === "work");
  ctx.strokeStyle = markColour(palette, found);
  ctx.lineWidth = 2;
  ctx.setLineDash([2, 3]);
  for (const mark of own.filter(({ end }) => work && end === "access")) {
    if (![mark, work].every(({ place }) => scene.places.tops[place].row.isShown)) continue;
    ctx.beginPath();
    ctx.moveTo(...markPoint(scene, mark));
    ctx.lineTo(...markPoint(scene, work));
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

function drawMarks(scene, drawn) {
  if (scene.selection && scene.selection.finding !== undefined) drawSelectedFinding(scene);
  for (const mark of scene.marks) {
    if (!isMarkShown(scene, mark)) continue;
    drawMark(scene, mark);
    drawn.marks += 1;
  }
}

// The finding whose mark is at a point. Where several are, the one behind `last`, so that clicks go through them.
function findingUnder(scene, x, y, last) {
  if (x < scene.gutter || y < AXIS_HEIGHT) return -1;
  const isNear = (mark) => {
    const [left, top] = markPoint(scene, mark);
    return isMarkShown(scene, mark) && Math.abs(x - left) <= MARK_SIZE + 1 && Math.abs(y - top) <= MARK_SIZE + 2;
  };
  const near = [...new Set(scene.marks.filter(isNear).map(({ finding }) => finding))];
  return near.length > 0 ? near[(near.indexOf(last) + 1) % near.length] : -1;
}

// What a tooltip says of a mark.
function findingTip(trace, finding) {
  const { id, title, place, count } = trace.findings[finding];
  return [id, capital(title), shortPlace(place), count > 1 ? `seen ${formatCount(count)} times` : ""].filter(Boolean);
}

const FINDING_HEADS = ["Severity", "Finding", "Access", "Collides with", "Count", "What"];
