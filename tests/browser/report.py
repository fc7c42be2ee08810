"""What a person sees of the page of `ferry bench --report`: asserted by run.py, photographed by pictures.py."""

# Pairs of texts of one plot that lie over each other, and texts that stick out of their plot.
CLASHES = """[...document.querySelectorAll("svg")].flatMap((plot) => {
  const whole = plot.getBoundingClientRect();
  const boxes = [...plot.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const out = boxes.filter(([, b]) => b.left < whole.left - 1 || b.right > whole.right + 1 || b.top < whole.top - 3 || b.bottom > whole.bottom + 3);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4;
  const over = boxes.flatMap(([one, a], k) => boxes.slice(k + 1).filter(([, b]) => meet(a, b)).map(([two]) => [one, two]));
  return [...out.map(([text]) => [plot.getAttribute("aria-label"), text]), ...over];
})"""

FILL = "getComputedStyle(document.querySelector('svg .bar.c0')).fill"


def report(check, page, path, out, quiet):
    page.open(path, 1360, 900)
    quiet(check, page, "a report")
    counts = page.run("['svg', '.bar.c0', '.whisker', '.curve.c0', '.band', '.machine dd'].map((one) => document.querySelectorAll(one).length)")
    check("a report has bars, ranges, curves, bands and the machine", all(counts), counts)
    heights = page.run("[...document.querySelectorAll('svg')].map((plot) => plot.getBoundingClientRect().height)")
    check("its plots have a height", min(heights) > 40, heights)
    light = page.run(FILL)
    page.screenshot(out / "report-light.png")
    page.run('document.getElementById("theme").click()')
    check("its button changes the colours", page.run(FILL) != light, light)
    for width in [700, 1360, 2560]:
        page.open(path, width, 900, "dark")
        clashes = page.run(CLASHES)
        check(f"a report, {width} pixels: texts are apart and inside", clashes == [], clashes)
        sizes = page.run("[document.documentElement.scrollWidth, innerWidth]")
        check(f"a report, {width} pixels: nothing sticks out", sizes[0] <= sizes[1], sizes)
    page.open(path, 1360, 900, "dark")
    page.screenshot(out / "report-dark.png")
    page.run('document.querySelectorAll("details").forEach((one) => { one.open = true; })')
    rows = page.run("[...document.querySelectorAll('details')].map((one) => one.getBoundingClientRect().height)")
    check("its numbers unfold", min(rows) > 60, rows)
    quiet(check, page, "a report, after everything")
