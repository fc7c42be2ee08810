"""Programs in Python that are traced: the calls name lines of the program, and nothing else changes."""

import json
import pathlib

import kit

PROGRAM = """
import acl, kit
def up(count):
    for _ in range(count):
        kit.ok(acl.rt.memcpy_async(device, 64, host, 64, 1, stream))  # line 5
kit.ok(acl.init())
kit.ok(acl.rt.set_device(0))
stream = kit.ok(acl.rt.create_stream())
device, host = kit.ok(acl.rt.malloc(64, 0)), kit.ok(acl.rt.malloc_host(64))
up(3)
kit.ok(acl.rt.synchronize_stream(stream))  # line 11
print("done")
"""


def calls(folder, function):
    """Where the calls of a function came from, as the file for viewers has it."""
    (file,) = pathlib.Path(folder).glob("msprof_*.json")
    events = json.loads(file.read_text())
    return [event["args"]["caller"] for event in events if event["name"] == "AscendCL@" + function]


def test_calls_name_lines_of_the_program(tmp_path):
    folder = tmp_path / "trace"
    assert kit.passes(PROGRAM, env={"FERRY_TRACE": str(folder)}) == "done\n"
    assert (folder / "index.html").exists()
    assert calls(folder, "aclrtMemcpyAsync") == ["<string>:5 in up"] * 3
    assert calls(folder, "aclrtSynchronizeStream") == ["<string>:11 in <module>"]


def test_without_the_variable_nothing_is_written(tmp_path):
    program = f"import os; os.chdir({str(tmp_path)!r})\n" + PROGRAM
    assert kit.passes(program, env={"FERRY_TRACE": None}) == "done\n"
    assert list(tmp_path.iterdir()) == []
