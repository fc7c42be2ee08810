"""What help() and docs/python.md say: that it is all there, names what exists, and runs."""

import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import acl

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/python.md").read_text()
MODULES = ["acl", "acl.rt", "acl.util", "acl.sys"]


def functions(module):
    return {name: value for name, value in vars(importlib.import_module(module)).items() if inspect.isbuiltin(value)}


EVERY = {f"{module}.{name}": value for module in MODULES for name, value in functions(module).items()}
each_function = pytest.mark.parametrize("name", sorted(EVERY))


def words(name):
    """The docstring as one line."""
    return " ".join(EVERY[name].__doc__.split())


@each_function
def test_docstring_begins_with_a_sentence(name):
    first, _, rest = EVERY[name].__doc__.partition("\n\n")
    assert first.endswith(".") and first[0].isupper()
    assert rest, "nothing but a first line"
    assert max(map(len, EVERY[name].__doc__.splitlines())) <= 132


@each_function
def test_every_argument_is_named(name):
    # Named by the docstring itself, or by one that it refers to: "As malloc.", "as in malloc_with_cfg".
    module = name.rpartition(".")[0]
    text = words(name)
    while (more := [other for other in re.findall(r"\b[Aa]s (?:in )?(\w+)\b", text) if f"{module}.{other}" in EVERY]):
        text = re.sub(r"\b[Aa]s (?:in )?\w+\b", "", text) + " ".join(words(f"{module}.{other}") for other in more)
    arguments = inspect.signature(EVERY[name]).parameters
    assert [argument for argument in arguments if not re.search(rf"\b{argument}\b", text)] == []


@each_function
def test_docstring_says_what_is_returned(name):
    said = re.findall(r"\bReturns (\([\w, ]+\)|ret\b|a str\b|\w+:)", words(name))
    assert len(said) == 1, said
    # Between the module and the docstring there is nothing that could tell: what is returned is compared in test_stubs.py.
    assert said[0] != "ret" or "0" in words(name).partition("Returns ret")[2]


@pytest.mark.parametrize("name", [name for name in sorted(EVERY) if not name.startswith("acl.util.")])
def test_docstring_names_a_c_function_of_our_headers(name):
    headers = "".join(path.read_text() for path in (ROOT / "include/acl").glob("*.h"))
    (function,) = re.findall(r"\bC: (acl\w+)", words(name))
    assert re.search(rf"\b{function}\(", headers)


@each_function
def test_docstring_names_what_exists(name):
    for other in re.findall(r"\b(acl\.\w+\.\w+|acl\.(?:get_|init|final)\w*)", words(name)):
        assert other in EVERY, other
    rules = (ROOT / "docs/requirements.txt").read_text()
    for rule in re.findall(r"\b[RNX]\d+\b", words(name)):
        assert re.search(rf"^{rule} \|", rules, re.MULTILINE), rule


@pytest.mark.parametrize("module", MODULES)
def test_modules_have_docstrings(module):
    assert importlib.import_module(module).__doc__


@pytest.mark.parametrize(
    "name, told",
    [
        ("memcpy_async", ["page-locked", "NumPy", "blocks until the copy is done", "synchronise before", "107000", "N5"]),
        ("memcpy2d_async", ["page-locked", "NumPy", "blocks until the copy is done", "5242880", "R7", "R8"]),
        ("memcpy_async_with_condition", ["blocks until the copy is done (R23)", "multiple of 64 (R29)", "R24", "R25"]),
        ("memcpy_batch_async", ["blocks until they are (R44)", "R45", "dstLoc", "18446744073709551615"]),
        ("memcpy", ["Blocks until the bytes are copied"]),
        ("malloc", ["0 huge pages", "2 normal pages only", "207001"]),
        ("host_register_v2", ["0x10000000", "0x2"]),
        ("create_event_with_flag", ["0x1 ", "0x8 "]),
        ("synchronize_event_with_timeout", ["507047"]),
    ],
)
def test_help_is_useful(name, told):
    text = " ".join(pydoc.render_doc(EVERY[f"acl.rt.{name}"], renderer=pydoc.plaintext).split())
    assert [one for one in told if " ".join(one.split()) not in text] == []


def test_timeout_that_help_tells_is_the_one_returned(stream):
    """The numbers in docstrings have been wrong before."""
    event, ret = acl.rt.create_event_with_flag(0x1)
    assert (ret, acl.rt.reset_event(event, stream), acl.rt.stream_wait_event(stream, event)) == (0, 0, 0)
    behind, ret = acl.rt.create_event()
    assert (ret, acl.rt.record_event(behind, stream)) == (0, 0)
    assert f"{acl.rt.synchronize_event_with_timeout(behind, 1)} if" in words("acl.rt.synchronize_event_with_timeout")
    assert f"{acl.rt.synchronize_stream_with_timeout(stream, 1)} if" in words("acl.rt.synchronize_stream_with_timeout")
    assert f"{acl.rt.synchronize_device_with_timeout(1)} if" in words("acl.rt.synchronize_device_with_timeout")
    assert acl.rt.stream_abort(stream) == 0
    assert acl.rt.synchronize_stream(stream) == 107023
    acl.rt.destroy_event(event)
    acl.rt.destroy_event(behind)


BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_page_has_programs():
    assert len(BLOCKS) >= 5
    assert PAGE.count("```python") == len(BLOCKS)


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_program_of_the_page_runs(index, tmp_path):
    program = tmp_path / f"block_{index}.py"
    program.write_text(BLOCKS[index])
    # Newer Pythons warn of any fork in a process with threads; the page says what comes of it here.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"{BLOCKS[index]}\n{done.stdout}{done.stderr}"
    # "# prints: ..." behind a line is what comes out.
    printed = re.findall(r"# prints: (.*)$", BLOCKS[index], re.MULTILINE)
    assert not printed or done.stdout.splitlines() == printed


def test_table_of_the_page_has_every_function_and_no_other():
    rows = dict(re.findall(r"^\| `(?:.* = )?(acl\.[\w.]+)\([^`]*\)` \| `?(acl\w+|-)`? \|", PAGE, re.MULTILINE))
    assert sorted(rows) == sorted(EVERY)
    for name, function in rows.items():
        if function != "-":
            assert f"C: {function}" in words(name), name
        else:
            assert name.startswith("acl.util."), name


def test_table_of_the_page_has_the_arguments_and_what_is_returned():
    rows = re.findall(r"^\| `(?:(.*) = )?(acl\.[\w.]+)\(([^`]*)\)` \|", PAGE, re.MULTILINE)
    assert len(rows) == len(EVERY)
    for outputs, name, arguments in rows:
        parameters = inspect.signature(EVERY[name]).parameters
        assert arguments.replace("[", "").replace("]", "").split(", ") == (list(parameters) or [""]), name
        said = re.search(r"\bReturns (?:\(([\w, ]+)\)|(ret)|(\w+):|a str)", words(name))
        expected = next((group for group in said.groups() if group), None)
        assert expected is None or outputs == expected, name


def test_links_of_the_page_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
