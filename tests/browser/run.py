"""Opens the pages of traces and of reports in a headless Chromium as a person would, and asserts what is drawn.

usage: run.py SMALL LARGE REAL REPORT CHECK OUT: three folders with an index.html, the page of `ferry bench`, the folder
of `ferry check --report`, and a folder for screenshots. `cargo xtask test --only browser` makes the pages and runs this.
"""

import pathlib
import sys

from browser import Browser, find
from findings import findings
from report import report

WIDTHS = [(1280, 800), (2560, 1300)]
FRAME_LIMIT_MS = 50
FRAMES = 300

# Pans over the whole trace and zooms between all of it and a few microseconds, with a search on for a third of
# the way. Gives the milliseconds from frame to frame.
TRAVEL = """(async (frames) => {
  const { setView, trace, runSearch } = ferryTrace;
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  await frame();
  let last = performance.now();
  for (let k = 0; k < frames; k += 1) {
    const turn = (k / frames) * 2 * Math.PI;
    const width = trace.span * 0.5 ** (13 * (0.5 - 0.5 * Math.cos(2 * turn)));
    const middle = trace.span * (0.5 + 0.4 * Math.sin(3 * turn));
    setView(middle - width / 2, middle + width / 2);
    document.getElementById("scroller").scrollTop = 300 * (1 + Math.sin(turn));
    await frame();
    const now = performance.now();
    times.push(now - last);
    last = now;
    if (k === Math.floor(frames / 3)) { runSearch(">=1MiB"); await frame(); last = performance.now(); }
    if (k === Math.floor((2 * frames) / 3)) { runSearch(""); await frame(); last = performance.now(); }
  }
  return times;
})(%d)"""

# The middle of the box of an op on the screen, after the view was moved to it, with its time and row.
PLACE = """((op) => {
  const { trace, places, view, setView } = ferryTrace;
  const { begin, end } = trace.ops;
  setView(begin[op] - (end[op] - begin[op]) * 4, end[op] + (end[op] - begin[op]) * 4);
  const canvas = document.getElementById("canvas");
  const scroller = document.getElementById("scroller");
  const { below, row } = places.tops[places.op[op]];
  const y = row.top + below;
  scroller.scrollTop = Math.max(0, y - canvas.clientHeight / 2);
  const box = canvas.getBoundingClientRect();
  const gutter = box.width < 900 ? 150 : 196;
  const time = (begin[op] + end[op]) / 2;
  const x = gutter + ((time - view.t0) / (view.t1 - view.t0)) * (box.width - gutter);
  return { x: box.left + x, y: box.top + 26 + y - scroller.scrollTop, cx: x, cy: 26 + y - scroller.scrollTop, label: row.label };
})(%d)"""

PIXEL = """((x, y) => {
  const ratio = window.devicePixelRatio;
  const data = document.getElementById("canvas").getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data;
  return "#" + [...data].slice(0, 3).map((part) => part.toString(16).padStart(2, "0")).join("");
})(%f, %f)"""

STYLE = 'getComputedStyle(document.documentElement).getPropertyValue("--%s").trim()'


class Checks:
    def __init__(self):
        self.passed, self.failed = 0, 0

    def __call__(self, name, is_right, detail=""):
        self.passed += bool(is_right)
        self.failed += not is_right
        print(f"  {'ok  ' if is_right else 'FAIL'} {name}{'' if is_right else f': {detail}'}")


def quiet(check, page, where):
    check(f"{where}: the console is empty", page.console == [], page.console)
    others = [url for url in page.requests if not url.startswith("file:")]
    check(f"{where}: nothing is asked of a network", others == [] and len(page.requests) == 1, page.requests)


def overflow(check, page, where):
    sizes = page.run("[document.documentElement.scrollWidth, innerWidth, document.documentElement.scrollHeight, innerHeight]")
    check(f"{where}: nothing sticks out", sizes[0] <= sizes[1] and sizes[2] <= sizes[3], sizes)


def drawn(check, page):
    told = page.run("ferryTrace.view.drawn")
    for what in ["rows", "boxes", "arrows", "texts", "ticks"]:
        check(f"{what} are drawn", told[what] > 0, told)
    for button in ["waits-on", "joins-on"]:
        page.run(f'document.getElementById("{button}").click()')
    page.frame()
    check("arrows are drawn only if they are wanted", page.run("ferryTrace.view.drawn.arrows") == 0)
    # The pixels of boxes below: arrows stay off.


def colours(check, page):
    """The longest op of each route has the colour of its route, in the row of its stream."""
    ops = page.run("""(() => {
      const { ops, routes, streams } = ferryTrace.trace;
      const found = {};
      for (let op = 0; op < ops.count; op += 1) {
        const route = routes[ops.route[op]];
        if (!route || route.pageable || ops.state[op] !== 2) continue;
        const name = (route.src === null ? "h" : "d") + "2" + (route.dst === null ? "h" : "d");
        if (!(name in found) || ops.dur[op] > ops.dur[found[name]]) found[name] = op;
      }
      return Object.entries(found).map(([name, op]) => [name, op, streams[ops.stream[op]].number]);
    })()""")
    check("there are copies of three routes", len(ops) == 3, ops)
    for name, op, stream in ops:
        place = page.run(PLACE % op)
        page.frame()
        # Beside the text, which stands at the left of the box.
        got = page.run(PIXEL % (place["cx"] + 20, place["cy"] - 6))
        check(f"a {name} copy has its colour", got == page.run(STYLE % name), (got, page.run(STYLE % name)))
        check(f"a {name} copy is in the row of its stream", place["label"].startswith(f"stream {stream}"), place)


def details(check, page):
    op = page.run("""(() => {
      const { ops } = ferryTrace.trace;
      let best = 0;
      for (let op = 0; op < ops.count; op += 1) if (ops.bytes[op] === 4194304 && ops.dstBlock[op] >= 0) best = op;
      return best;
    })()""")
    place = page.run(PLACE % op)
    page.frame()
    page.mouse("mouseMoved", place["x"], place["y"])
    page.frame()
    tip = page.run('[document.getElementById("tip").hidden, document.getElementById("tip").textContent]')
    check("a tooltip says what is under the pointer", not tip[0] and "4 MiB" in tip[1], tip)
    page.click(place["x"], place["y"])
    check("a click selects the op", page.run("ferryTrace.view.selection") == {"op": op}, page.run("ferryTrace.view.selection"))
    text = page.run('document.getElementById("details").innerText')
    for word in ["4 MiB (4,194,304 bytes)", "Destination", "allocation 0x", "Call", "aclrt", "Thread", "Queue", "Waited", "Outcome"]:
        check(f"the details have {word}", word in text, text)
    outline = page.run("ferryTrace.view.selection.op")
    page.key(".")
    check("the key . selects the next op of the stream", page.run("ferryTrace.view.selection.op") != outline)
    page.key("Escape")
    check("Escape selects nothing", page.run("ferryTrace.view.selection") is None)


def mouse(check, page):
    view = "[ferryTrace.view.t0, ferryTrace.view.t1]"
    page.key("0")
    whole = page.run(view)
    x, y = page.run("(({ left, top }) => [left + 700, top + 200])(document.getElementById('canvas').getBoundingClientRect())")
    under = "((x) => { const c = document.getElementById('canvas').clientWidth - 196; const { t0, t1 } = ferryTrace.view; return t0 + (x - 196) * (t1 - t0) / c; })"
    before = page.run(f"{under}(700)")
    for _ in range(10):
        page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    page.frame()
    near = page.run(view)
    check("the wheel zooms in", near[1] - near[0] < (whole[1] - whole[0]) / 4, near)
    after = page.run(f"{under}(700)")
    check("and keeps what is under the pointer", abs(after - before) < (near[1] - near[0]) / 500, (before, after))
    page.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    page.mouse("mouseMoved", x - 50, y, buttons=1)
    page.mouse("mouseMoved", x - 100, y, buttons=1)
    page.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
    page.frame()
    moved = page.run(f"{under}(600)")
    check("what is dragged follows the pointer", abs(moved - after) < (near[1] - near[0]) / 200, (after, moved))


def keys(check, page):
    view = "[ferryTrace.view.t0, ferryTrace.view.t1]"
    span = lambda: (lambda t: t[1] - t[0])(page.run(view))
    page.key("0")
    whole = span()
    for key, is_nearer in [("w", True), ("+", True), ("s", False), ("-", False)]:
        page.run("ferryTrace.zoom(0.3)")
        before = span()
        page.key(key)
        check(f"the key {key} zooms", (span() < before) == is_nearer, (before, span()))
    page.run("ferryTrace.zoom(0.1)")
    for key, is_later in [("d", True), ("ArrowRight", True), ("a", False), ("ArrowLeft", False)]:
        before = page.run(view)[0]
        page.key(key)
        check(f"the key {key} moves", (page.run(view)[0] > before) == is_later, before)
    page.key("0")
    check("the key 0 shows everything", span() == whole, (span(), whole))
    page.run("ferryTrace.setView(0, 3)")
    heights = [page.run('document.getElementById("tall").clientHeight')]
    for _ in range(2):
        page.key("r")
        heights.append(page.run('document.getElementById("tall").clientHeight'))
    check("the key R leaves rows with something in view, and shows all again", heights[1] < heights[0] == heights[2], heights)
    page.key("0")
    page.key("?")
    check("the key ? shows the keys", page.run('document.getElementById("help").hidden') is False)
    page.key("Escape")


def searching(check, page):
    page.key("/")
    check("the key / leads to the search", page.run("document.activeElement.id") == "search")
    for letter in "memset >=1MiB":
        page.key(letter)
    want = page.run("""(() => {
      const { ops, kinds } = ferryTrace.trace;
      let count = 0;
      for (let op = 0; op < ops.count; op += 1) count += kinds[ops.kind[op]] === "fill" && ops.bytes[op] >= 2 ** 20;
      return count;
    })()""")
    text = page.run('document.getElementById("hits").textContent')
    check("a search counts what it finds", want > 0 and text == f"{want} found", (want, text))
    page.key("Enter")
    picked = page.run("[ferryTrace.view.selection.op, ferryTrace.view.found.hits[0].op]")
    check("Enter leads to the first", picked[0] == picked[1], picked)
    page.key("Escape")
    check("Escape ends the search", page.run("ferryTrace.view.found") is None)


def table(check, page):
    page.key("0")
    rows = page.run('[...document.querySelectorAll("#table tbody tr")].slice(0, 3).map((row) => row.cells[0].textContent)')
    longest = page.run("""(() => {
      const { begin, submitted, count } = ferryTrace.trace.ops;
      let best = 0;
      for (let op = 0; op < count; op += 1) if (begin[op] - submitted[op] > begin[best] - submitted[best]) best = op;
      return best;
    })()""")
    check("the table has the longest waits", len(rows) == 3 and all("s" in text for text in rows), rows)
    page.run('document.querySelector("#table tbody tr").click()')
    page.frame()
    told = page.run("[ferryTrace.view.selection.op, ferryTrace.view.t0, ferryTrace.view.t1]")
    begin = page.run(f"ferryTrace.trace.ops.begin[{longest}]")
    check("a row of it leads to its op", told[0] == longest and told[1] <= begin <= told[2], (told, longest, begin))
    page.run('(() => { const c = document.getElementById("cause"); c.value = "event"; c.dispatchEvent(new Event("change")); })()')
    causes = page.run('[...document.querySelectorAll("#table tbody tr")].map((row) => row.cells[3].textContent)')
    check("it can be of one cause", causes and all(text.startswith("an event") for text in causes), causes[:3])
    page.key("Escape")


def themes(check, page, path):
    light = page.run(STYLE % "bg")
    pixel = PIXEL % (900, 32)
    page.run('document.getElementById("scroller").scrollTop = 0')
    page.frame()
    page.run('document.getElementById("theme").click()')
    page.frame()
    dark = page.run(STYLE % "bg")
    check("the button changes the colours", light != dark, (light, dark))
    shown = page.run(pixel)
    check("and what is drawn", shown == page.run(STYLE % "band"), shown)
    page.open(path, 1280, 800, "dark")
    check("the system's choice is the first", page.run(STYLE % "bg") == dark)


def tour(check, page, path, out):
    """The trace of a real program: everything of it can be selected, and nothing of it upsets the page."""
    page.open(path, 1440, 900)
    counts = page.run("(({ ops, calls, captures, processes, waits, joins }) => [ops.count, calls.count, captures.length, processes.length, waits.count, joins.count])(ferryTrace.trace)")
    check("a real trace has ops, calls, captures, processes, waits and joins", all(counts), counts)
    times = page.run("""(({ ops, span }) => {
      let wrong = 0;
      for (let op = 0; op < ops.count; op += 1) wrong += !(ops.submitted[op] <= ops.end[op] && ops.end[op] <= span && ops.begin[op] <= ops.end[op]);
      return [wrong, span];
    })(ferryTrace.trace)""")
    check("its times hang together", times[0] == 0 and times[1] < 600e9, times)
    page.run("""(() => {
      const { trace, select } = ferryTrace;
      for (let op = 0; op < trace.ops.count; op += 3) select({ op });
      for (let call = 0; call < trace.calls.count; call += 7) select({ call });
      trace.captures.forEach((_, capture) => select({ capture }));
    })()""")
    page.run("ferryTrace.fitAll()")
    page.frame()
    page.screenshot(out / "real.png")
    quiet(check, page, "a real trace")


def frames(check, page, path, out):
    for width, height in WIDTHS:
        page.open(path, width, height)
        quiet(check, page, f"200,000 ops, {width} pixels")
        count = page.run("ferryTrace.trace.ops.count")
        check(f"{width} pixels: all ops are there", count == 200_000, count)
        times = sorted(page.run(TRAVEL % FRAMES))
        most = times[int(len(times) * 0.95)]
        print(f"    frames at {width} pixels: median {times[len(times) // 2]:.1f} ms, 95 % under {most:.1f} ms, longest {times[-1]:.1f} ms")
        check(f"{width} pixels: 95 % of frames under {FRAME_LIMIT_MS} ms", most < FRAME_LIMIT_MS, times[-20:])
        overflow(check, page, f"{width} pixels")
        page.run("ferryTrace.fitAll()")
        page.frame()
        page.screenshot(out / f"large-{width}.png")


def main():
    small, large, real, bench, checked, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    check, page = Checks(), Browser(find())
    path = small / "index.html"
    page.open(path, 1280, 800)
    page.screenshot(out / "small-light.png")
    quiet(check, page, "a small trace")
    for test in [drawn, colours, details, mouse, keys, searching, table]:
        test(check, page)
    themes(check, page, path)
    page.run("ferryTrace.select({ op: 100 })")
    page.frame()
    page.screenshot(out / "small-dark.png")
    for width in [900, 1280, 2560]:
        page.open(path, width, 800)
        overflow(check, page, f"{width} pixels")
    page.screenshot(out / "small-2560.png")
    quiet(check, page, "after everything")
    report(check, page, bench, out, quiet)
    findings(check, page, checked / "index.html", out, quiet)
    tour(check, page, real / "index.html", out)
    frames(check, page, large / "index.html", out)
    page.close()
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
