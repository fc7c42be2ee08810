"""The examples of examples/python/two-machines on one machine: both sides as processes that talk over loopback, then each with the other side
killed. `cargo xtask test --only mooncake` runs it; the last line begins with `ok:`.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

from ferry_acl import command

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/python/two-machines")
# Nothing here takes so long: what does hangs, and is killed.
LIMIT = 90


class Program:
    """One side. What it says is kept."""

    def __init__(self, words, **more):
        self.name = " ".join(os.path.basename(word) for word in words)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.child = subprocess.Popen(words, cwd=EXAMPLES, text=True, **pipes, **more)
        self.lines, self.news = [], threading.Condition()
        self.killer = threading.Timer(LIMIT, self.child.kill)
        self.killer.start()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            with self.news:
                self.lines.append(line.rstrip())
                self.news.notify_all()

    def says(self, words):
        """Waits for a line that these words match. Returns what the brackets in them hold."""
        end = time.monotonic() + LIMIT
        with self.news:
            while True:
                found = [match for match in (re.search(words, line) for line in self.lines) if match]
                if found:
                    return found[0].group(found[0].lastindex or 0)
                assert self.child.poll() is None and time.monotonic() < end, self.failure(f"never says {words!r}")
                self.news.wait(0.2)

    def ends(self, code, words):
        """Waits for its end, with this code, and a line that these words match."""
        self.child.stdin.close()
        got = self.child.wait()
        self.killer.cancel()
        time.sleep(0.1)
        with self.news:
            assert got == code, self.failure(f"ended with {got} in place of {code}")
            assert any(re.search(words, line) for line in self.lines), self.failure(f"does not say {words!r}")

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.killer.cancel()

    def failure(self, what):
        return "\n".join([f"{self.name} {what}:", *self.lines[-40:]])


def example(name, *words):
    return Program([sys.executable, f"{name}.py", *map(str, words)])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def both_ways(name):
    receiver = example(name, "receive", 0)
    sender = example(name, "send", receiver.says(r"^listening on (\d+)$"))
    sender.ends(0, r"^ok: ")
    receiver.ends(0, r"^ok: ")
    print(f"{name}: {sender.says('^ok: (.*)')}")


# Sides that die in the middle of the work, when the other one knows where their memory is: a receiver when it has heard so many words, and a sender.
RECEIVER = """
import os, sys
from side import Line, Side
side = Side()
memory = side.page_locked(8 << 20)
line = Line.listen(0)
line.tell(name=side.name, staging=memory, slots=[memory, memory + (4 << 20)])
for _ in range(int(sys.argv[1])):
    line.hear()
os.kill(os.getpid(), 9)
"""
SENDER = """
import os, sys
from side import Line
line = Line.connect(int(sys.argv[1]))
line.hear()
os.kill(os.getpid(), 9)
"""


def killed(name):
    """One side is killed; the other one ends by itself, soon, and says why."""
    for words in (0, 1):
        receiver = Program([sys.executable, "-c", RECEIVER, str(words)])
        sender = example(name, "send", receiver.says(r"^listening on (\d+)$"))
        receiver.child.wait()
        receiver.kill()
        noticed(f"{name}: the receiver was killed after {words} words", sender, "the other side is gone")
    receiver = example(name, "receive", 0)
    sender = Program([sys.executable, "-c", SENDER, receiver.says(r"^listening on (\d+)$")])
    sender.child.wait()
    sender.kill()
    noticed(f"{name}: the sender was killed", receiver, "the other side is gone")


def noticed(what, program, words):
    start = time.monotonic()
    program.ends(1, words)
    print(f"{what}: noticed after {time.monotonic() - start:.1f} s: {program.says(words + '.*')}")


def store():
    port = free_port()
    folder = os.path.dirname(sys.executable)
    master = Program([os.path.join(folder, "mooncake_master"), "--rpc_address=127.0.0.1", f"--rpc_port={port}", f"--metrics_port={free_port()}"])
    wait_for(port, master)
    holder = example("kv_store", "put", port)
    holder.says("^ok: ")
    reader = example("kv_store", "get", port)
    reader.ends(0, "^ok: ")
    print(f"kv_store: {reader.says('^ok: (.*)')}")
    holder.kill()
    noticed("kv_store: who had put the blocks was killed", example("kv_store", "get", port), "cannot be had: get_into returned -")
    master.kill()
    noticed("kv_store: the master was killed", example("kv_store", "get", port), "the store cannot be reached")


def sent_too_early():
    """Without the wait for its copy, the engine sends memory that the copy may still write: ferry check names the line of the copy."""
    wait = "    check(acl.rt.synchronize_stream(side.stream))\n    sent("
    with tempfile.TemporaryDirectory() as folder:
        for name in ("side.py", "transfer.py", "../check.py"):
            shutil.copy(os.path.join(EXAMPLES, name), folder)
        path = os.path.join(folder, "transfer.py")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert text.count(wait) == 1
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(wait, "    sent("))
        line = text[: text.index("DEVICE_TO_HOST, side.stream")].count("\n") + 1
        receiver = example("transfer", "receive", 0)
        port = receiver.says(r"^listening on (\d+)$")
        sender = Program([command.find(), "check", "--", sys.executable, path, "send", port])
        sender.ends(99, "FERRY-HOST-READ")
        sender.says(f"#0 send .*transfer.py:{line}$")
        receiver.ends(0, "^ok: ")
    print(f"transfer: ferry check finds that line {line} was not waited for")


def wait_for(port, program):
    end = time.monotonic() + LIMIT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert program.child.poll() is None and time.monotonic() < end, program.failure("does not listen")
            time.sleep(0.1)


if __name__ == "__main__":
    for each in ("transfer", "kv_blocks"):
        both_ways(each)
        killed(each)
    sent_too_early()
    store()
    print("ok: two examples both ways and a store, every byte compared, and eight deaths noticed")
