"""The stubs say what the module is: same names, same arguments, same shape of what is returned, same first line of help."""

import ast
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import acl

MODULES = ["acl", "acl.rt", "acl.util", "acl.sys"]
FOLDER = Path(acl.__file__).parent


def stub_file(module):
    return FOLDER / ("__init__.pyi" if module == "acl" else module.removeprefix("acl.") + ".pyi")


def stub_functions(module):
    tree = ast.parse(stub_file(module).read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def stub_names(module):
    """Functions, and modules that are imported under their own name. Types are for type checkers only."""
    tree = ast.parse(stub_file(module).read_text())
    imports = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    return set(stub_functions(module)) | {alias.name for alias in imports if alias.asname == alias.name}


def functions(module):
    return {name: value for name, value in vars(importlib.import_module(module)).items() if inspect.isbuiltin(value)}


EVERY = [(module, name) for module in MODULES for name in sorted(functions(module))]
each_function = pytest.mark.parametrize("module, name", EVERY, ids=[f"{module}.{name}" for module, name in EVERY])


def arguments(node):
    """Names, kinds and defaults of a stub's arguments, as inspect has them."""
    args = node.args
    assert not (args.vararg or args.kwarg or args.kwonlyargs), "the module has no such arguments"
    kinds = [(arg, inspect.Parameter.POSITIONAL_ONLY) for arg in args.posonlyargs]
    kinds += [(arg, inspect.Parameter.POSITIONAL_OR_KEYWORD) for arg in args.args]
    defaults = [inspect.Parameter.empty] * (len(kinds) - len(args.defaults))
    defaults += [ast.literal_eval(default) for default in args.defaults]
    assert all(arg.annotation is not None for arg, _ in kinds), "an argument without a type"
    return [(arg.arg, kind, default) for (arg, kind), default in zip(kinds, defaults)]


def returned(docstring):
    """What a docstring says is returned: names, the last of them ret, or one thing."""
    several = re.search(r"\bReturns \(([\w, ]+)\)", docstring)
    if several:
        return several.group(1).split(", ")
    return re.search(r"\bReturns (?:a )?(\w+)", docstring).group(1)


def test_package_is_marked_as_typed():
    assert (FOLDER / "py.typed").is_file()


@pytest.mark.parametrize("module", MODULES)
def test_stub_has_the_names_of_the_module(module):
    public = {name for name in vars(importlib.import_module(module)) if not name.startswith("_")}
    assert stub_names(module) == public


def test_package_lists_its_names_in_both():
    tree = ast.parse(stub_file("acl").read_text())
    listed = [ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)]
    assert listed == [acl.__all__]


@each_function
def test_arguments_are_the_same(module, name):
    signature = inspect.signature(functions(module)[name])
    expected = [(each.name, each.kind, each.default) for each in signature.parameters.values()]
    assert arguments(stub_functions(module)[name]) == expected


@each_function
def test_shape_of_what_is_returned_is_the_same(module, name):
    annotation = ast.unparse(stub_functions(module)[name].returns)
    said = returned(functions(module)[name].__doc__)
    if isinstance(said, str):
        types = {"ret": "int", "ptr": "int", "bytes_out": "bytes", "arr": "NDArray[Any]", "str": "str | None"}
        types |= dict.fromkeys(["task_id", "stream_id", "thread_id", "device_id", "error_code"], "int")
        types["output"] = {"float16_to_float": "float", "float_to_float16": "int"}.get(name)
        assert annotation == types[said]
        return
    items = re.fullmatch(r"tuple\[(.*)\]", annotation).group(1).split(", ")
    assert len(items) == len(said)
    assert said[-1] != "ret" or items[-1] == "int"


@each_function
def test_help_of_the_stub_is_the_first_line_of_the_module(module, name):
    first = functions(module)[name].__doc__.partition("\n\n")[0].replace("\n", " ")
    assert ast.get_docstring(stub_functions(module)[name]) == first


def mypy(*arguments):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    environment = {**os.environ, "MYPY_CACHE_DIR": os.devnull}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=110, check=False)


def test_stubtest_finds_no_difference(tmp_path):
    # The parts list their names in __all__, which a stub without imported names need not repeat; what begins with _ is ours.
    allowed = tmp_path / "allowed"
    allowed.write_text("acl\\.(rt|util|sys)\\.__all__\nacl\\.util\\._threads\n")
    done = mypy("mypy.stubtest", "--allowlist", str(allowed), "--ignore-unused-allowlist", "acl")
    assert done.returncode == 0, done.stdout + done.stderr


GOOD = """
from __future__ import annotations

import array
from typing import TYPE_CHECKING, Any

import acl
import acl.rt

if TYPE_CHECKING:
    from acl.rt import BatchAttr

ret: int = acl.init()
ret = acl.init("acl.json")
stream, ret = acl.rt.create_stream()
pointer: int
pointer, ret = acl.rt.malloc_with_cfg(64, 0, {})
pointer, ret = acl.rt.malloc_with_cfg(64, 0, {"attrs": [{"attr": 1, "value": {"moduleId": 33}}], "numAttrs": 1})
handle, ret = acl.rt.malloc_physical(
    2 << 20, {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}}, 0
)
free, total, ret = acl.rt.get_mem_info(1)
info, ret = acl.rt.get_device_utilization_rate(0)
busy: int = info["cubeUtilization"]
attrs: list["BatchAttr"] = [{"dstLoc": {"id": 0, "type": 1}, "srcLoc": {"id": 0, "type": 0}}]
sizes = array.array("Q", [64])
fail_index, ret = acl.rt.memcpy_batch_async([pointer], sizes, (1,), memoryview(sizes), 1, attrs, [0], 1, stream)
ms: float = acl.rt.event_elapsed_time(1, 2)[0]
message: str | None = acl.get_recent_err_msg()
name: str | None = acl.get_soc_name()
where: int = acl.util.bytes_to_ptr(bytearray(4))
back: bytes = acl.util.ptr_to_bytes(where, 4)


def callback(words: list[str]) -> None: ...


thread, ret = acl.util.start_thread(callback, ["one"])
ret = acl.rt.launch_callback(callback, ["one"], 0, stream)
"""

WITH_NUMPY = """
import numpy
import acl

sizes = numpy.full(4, 64, dtype=numpy.uint64)
addresses = 4096 + numpy.arange(4, dtype=numpy.uint64) * 64
acl.rt.memcpy_batch_async(addresses, sizes, addresses, sizes, len(sizes), [], [0], 1, 0)
acl.rt.memcpy(addresses[0], sizes[0], addresses[1], sizes[1], 4)
where: int = acl.util.bytes_to_ptr(sizes)
where = acl.util.numpy_to_ptr(sizes)
where, whole = acl.util.numpy_contiguous_to_ptr(sizes)
whole.astype(numpy.int32)
array = acl.util.ptr_to_numpy(where, (2, 2), 8)
array.sum()
"""

# Each line is a mistake, and what mypy calls it.
MISTAKES = [
    ("acl.rt.set_device('0')", "arg-type"),
    ("acl.rt.set_device(device_id=0)", "call-arg"),
    ("acl.rt.memcpy(1, 2, 3, 4)", "call-arg"),
    ("code: int = acl.rt.create_stream()", "assignment"),
    ("one, two, three = acl.rt.create_stream()", "misc"),
    ("acl.rt.memcpy_async(1.5, 2, 3, 4, 1, 0)", "arg-type"),
    ("acl.rt.malloc_with_cfg(1, 0, None)", "arg-type"),
    ("acl.rt.malloc_with_cfg(1, 0, {'attr': 1})", "typeddict-unknown-key"),
    ("acl.rt.malloc_physical(1, {'handleType': 0}, 0)", "typeddict-item"),
    ("acl.rt.ipc_mem_set_import_pid('key', 1)", "arg-type"),
    ("acl.rt.notify_batch_reset(1)", "arg-type"),
    ("acl.util.bytes_to_ptr('text')", "arg-type"),
    ("acl.rt.no_such_function()", "attr-defined"),
    ("acl.get_recent_err_msg().split()", "union-attr"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy finds, in one run: for each program, lines and the names of their mistakes."""
    pytest.importorskip("numpy")
    folder = tmp_path_factory.mktemp("programs")
    wrong = "import acl\n" + "".join(line + "\n" for line, _ in MISTAKES)
    programs = {"good.py": GOOD, "with_numpy.py": WITH_NUMPY, "wrong.py": wrong}
    for name, text in programs.items():
        (folder / name).write_text(text)
    done = mypy("mypy", "--strict", *(str(folder / name) for name in programs))
    assert done.returncode == 1 and "(checked 3 source files)" in done.stdout, done.stdout + done.stderr
    errors = re.findall(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    return {name: {int(line): code for file, line, code in errors if file == name} for name in programs}


def test_typed_program_passes(found):
    assert found["good.py"] == {}


def test_typed_program_with_numpy_passes(found):
    assert found["with_numpy.py"] == {}


def test_mistakes_are_found(found):
    assert found["wrong.py"] == {index + 2: code for index, (_, code) in enumerate(MISTAKES)}
