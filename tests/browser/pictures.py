"""Photographs the pages of a trace and of a report for the documents, in light and dark.

usage: pictures.py TRACE REPORT OUT: two pages, and the folder that gets trace-light.webp and so on. `cargo xtask
pictures` makes the pages and runs this.
"""

import base64
import pathlib
import sys

from browser import Browser, find

WIDTH, SCALE, QUALITY = 1280, 1.5, 82
MOST_BYTES = 150_000

# The streams' part of the run, with an op selected that waited for an event of the other stream.
SHOW_TRACE = """(() => {
  const { trace, select, setView } = ferryTrace;
  const { ops } = trace;
  let first = Infinity, last = 0, chosen = 0;
  for (let op = 0; op < ops.count; op += 1) {
    first = Math.min(first, ops.submitted[op]);
    last = Math.max(last, ops.end[op]);
    if (ops.bytes[op] > 0 && ops.begin[op] - ops.submitted[op] > ops.begin[chosen] - ops.submitted[chosen]) chosen = op;
  }
  setView(first - (last - first) * 0.03, last + (last - first) * 0.06);
  select({ op: chosen });
})()"""

# Where the library lies on this machine is nothing for a document.
SHOW_REPORT = """document.querySelectorAll(".machine dd").forEach((value) => {
  if (value.textContent.startsWith("/")) value.textContent = value.textContent.split("/").pop();
})"""


def take(page, path, height, theme, prepare):
    page.open(path, WIDTH, height, theme)
    page.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=height, deviceScaleFactor=SCALE, mobile=False)
    page.run(prepare)
    page.frame()
    return base64.b64decode(page.call("Page.captureScreenshot", format="webp", quality=QUALITY)["data"])


def main():
    trace, report, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    page, too_large = Browser(find()), []
    for name, path, height, prepare in [("trace", trace, 720, SHOW_TRACE), ("report", report, 850, SHOW_REPORT)]:
        for theme in ["light", "dark"]:
            picture = take(page, path, height, theme, prepare)
            target = out / f"{name}-{theme}.webp"
            target.write_bytes(picture)
            print(f"{target}: {len(picture):,} bytes")
            too_large += [target.name] * (len(picture) > MOST_BYTES)
    page.close()
    if too_large:
        print(f"over {MOST_BYTES:,} bytes: {', '.join(too_large)}")
    return 1 if too_large else 0


if __name__ == "__main__":
    sys.exit(main())
