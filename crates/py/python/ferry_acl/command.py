"""Where the ferry command is, and the script of that name that an installed wheel has."""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Of a wheel, and of an installed tree, which this package is in as python/site-packages/ferry_acl.
PLACES = (os.path.join(HERE, "toolkit/bin/ferry"), os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "bin/ferry"))


def find():
    """The path of the command: the one that came with this package, else the one on the PATH; None if there is none."""
    for path in PLACES:
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("ferry")
    # The script of another environment would only look again.
    return found if found and _is_program(found) else None


def _is_program(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def main():
    """Becomes the command."""
    path = find()
    if path is None:
        sys.exit("ferry: this package was built without the command")
    os.execv(path, ["ferry", *sys.argv[1:]])


if __name__ == "__main__":
    main()
