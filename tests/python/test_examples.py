"""Every example runs, in an interpreter of its own, and ends with "ok"; and every founding document has one."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HERE = EXAMPLES / "python"
PROGRAMS = sorted(path.name for path in HERE.glob("*-*.py"))

# What C cannot show, or shows inside another example.
WITHOUT_TWIN = {"10-numpy-matrix", "11-callbacks"}
# What no document gives Python a face of.
IN_C_ONLY = {"12-graph"}


def last_line(text):
    return text.splitlines()[-1] if text else ""


@pytest.mark.parametrize("program", PROGRAMS)
def test_example_runs_and_says_ok(program):
    # From its own folder, as its README has it; warnings, of what is not closed or deprecated, are errors.
    done = subprocess.run(
        [sys.executable, "-W", "error", program], cwd=HERE, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert last_line(done.stdout).startswith("ok: "), done.stdout


def test_every_example_in_c_has_its_twin():
    in_c = {path.stem for path in (EXAMPLES / "c").glob("*-*.c")}
    in_python = {Path(program).stem for program in PROGRAMS}
    assert in_c - in_python == IN_C_ONLY, "C has examples that Python has not"
    assert in_python - in_c == WITHOUT_TWIN, "examples that are neither twins nor named here"


def test_twins_end_with_the_same_words():
    def end(path, mark):
        lines = [line for line in path.read_text().splitlines() if f'{mark}"ok: ' in line]
        assert len(lines) == 1, path
        words = lines[0].partition('"ok: ')[2].partition('"')[0].replace("\\n", "")
        # Numbers are put in by %d or by {NAME}.
        return [word for word in words.split() if not word.startswith(("%", "{"))]

    for name in sorted({Path(program).stem for program in PROGRAMS} - WITHOUT_TWIN):
        python = (HERE / f"{name}.py").read_text()
        mark = 'print(f' if 'print(f"ok: ' in python else "print("
        assert end(HERE / f"{name}.py", mark) == end(EXAMPLES / "c" / f"{name}.c", "printf("), name


def test_readme_names_every_example():
    text = (HERE / "README.md").read_text()
    assert [program for program in PROGRAMS if f"`{program}`" not in text] == []


def test_an_example_that_fails_says_where_and_why():
    program = "import acl; from check import check; check(acl.rt.set_device(-1))"
    done = subprocess.run([sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "returned 107001" in done.stderr and "aclrtSetDevice" in done.stderr, done.stderr
