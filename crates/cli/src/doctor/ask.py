"""What `ferry doctor` asks a Python, which imports nothing for it: where it is, where modules are, which versions packages have, and whether
pytest would find a plugin. Each answer is a line behind a mark: what starts with Python, such as a sitecustomize, may print as well.
"""
import importlib.metadata
import importlib.util
import sys

mark, modules, packages, plugin = sys.argv[1:5]


def say(text):
    print(mark + (text or ""))


def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


say(sys.executable)
for name in modules.split(","):
    found = importlib.util.find_spec(name)
    say(found and found.origin)
for name in packages.split(","):
    say(version(name))
points = (point for each in importlib.metadata.distributions() for point in each.entry_points)
say("seen" if any(point.group == "pytest11" and point.value == plugin for point in points) else "")
