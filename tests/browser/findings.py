"""What a person sees of the page of `ferry check --report`: marks on the timeline that lead to findings and back."""

# The middle of a mark on the screen, and on the canvas.
MARK = """((end) => {
  const { marks, places, view } = ferryTrace;
  const { time, place } = marks.find((mark) => mark.end === end);
  const { row, below } = places.tops[place];
  const canvas = document.getElementById("canvas");
  const box = canvas.getBoundingClientRect();
  const gutter = box.width < 900 ? 150 : 196;
  const x = gutter + ((time - view.t0) / (view.t1 - view.t0)) * (box.width - gutter);
  const y = 26 + row.top + below - 19 / 2 + 4 - document.getElementById("scroller").scrollTop;
  return { x: box.left + x, y: box.top + y, cx: x, cy: y, label: row.label };
})("%s")"""

PIXEL = """((x, y) => {
  const data = document.getElementById("canvas").getContext("2d").getImageData(x, y, 1, 1).data;
  return "#" + [...data].slice(0, 3).map((part) => part.toString(16).padStart(2, "0")).join("");
})(%f, %f)"""

ERROR = 'getComputedStyle(document.documentElement).getPropertyValue("--failed").trim()'
SELECTED = "ferryTrace.view.selection"
DETAILS = 'document.getElementById("details").innerText'


def marks(check, page, theme):
    told = page.run("ferryTrace.view.drawn.marks")
    check(f"{theme}: marks are drawn", told >= 2, told)
    for end, row in [("access", "thread"), ("work", "stream")]:
        mark = page.run(MARK % end)
        got = page.run(PIXEL % (mark["cx"], mark["cy"]))
        check(f"{theme}: the mark of the {end} has the colour of errors", got == page.run(ERROR), (got, mark))
        check(f"{theme}: the mark of the {end} is in a row of its {row}", (row == "stream") == mark["label"].startswith("stream"), mark)


def clicks(check, page):
    for end in ["access", "work"]:
        mark = page.run(MARK % end)
        page.mouse("mouseMoved", mark["x"], mark["y"])
        page.frame()
        tip = page.run('document.getElementById("tip").innerText')
        check(f"a tooltip says what the mark of the {end} is", "FERRY-HOST-WRITE" in tip, tip)
        page.click(mark["x"], mark["y"])
        check(f"a click on the mark of the {end} selects the finding", page.run(SELECTED) == {"finding": 0}, page.run(SELECTED))
        text = page.run(DETAILS)
        for word in ["FERRY-HOST-WRITE", "producer_thread.c:", "aclrtMemcpyAsync", "Allocated", "Synchronise"]:
            check(f"its details have {word}", word in text, text)
        page.key("Escape")


def links(check, page):
    page.run('document.querySelector("#findings-table tbody tr").click()')
    page.frame()
    told = page.run("[ferryTrace.view.selection, ferryTrace.view.t0, ferryTrace.view.t1, ferryTrace.marks.map(({ time }) => time)]")
    check("a row of the list selects its finding", told[0] == {"finding": 0}, told)
    check("and moves the view to its marks", all(told[1] <= time <= told[2] for time in told[3]), told)
    work = page.run("ferryTrace.trace.findings[0].work.op")
    page.run("[...document.querySelectorAll('#details a')].find((link) => link.textContent.includes(' op ')).click()")
    check("a finding leads to its op", page.run(SELECTED) == {"op": work}, page.run(SELECTED))
    page.run("[...document.querySelectorAll('#details a')].find((link) => link.textContent.startsWith('FERRY-')).click()")
    check("and the op to its finding", page.run(SELECTED) == {"finding": 0}, page.run(SELECTED))
    page.run('document.getElementById("to-waits").click()')
    shown = '["findings", "waits"].map((id) => document.getElementById(id).clientHeight > 0)'
    check("a button leads to the longest waits", page.run(shown) == [False, True], page.run(shown))
    page.run('document.getElementById("to-findings").click()')
    check("and back", page.run(shown) == [True, False], page.run(shown))
    page.key("Escape")
    check("Escape selects nothing", page.run(SELECTED) is None)


def findings(check, page, path, out, quiet):
    for theme in ["light", "dark"]:
        page.open(path, 1280, 800, theme)
        quiet(check, page, f"a report of findings, {theme}")
        marks(check, page, theme)
        page.run("ferryTrace.select({ finding: 0 })")
        page.frame()
        page.screenshot(out / f"check-{theme}.png")
        page.key("Escape")
    # Opened again: a browser complains about pixels that were read.
    page.open(path, 1280, 800)
    clicks(check, page)
    links(check, page)
    sizes = page.run("[document.documentElement.scrollWidth, innerWidth, document.documentElement.scrollHeight, innerHeight]")
    check("a report of findings: nothing sticks out", sizes[0] <= sizes[1] and sizes[2] <= sizes[3], sizes)
    quiet(check, page, "a report of findings, after everything")
