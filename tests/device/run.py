#!/usr/bin/env python3
"""Runs the conformance suite on the cuda backend, program by program, and says what came of it.

    run.py [--pack FILE] [--folder DIR] [--only NAME]... [--jobs N] [--limit SECONDS] [--within SECONDS] [--logs DIR] [--repeat N]

Without options it unpacks suite.tar.xz beside itself, as `cargo xtask device` made it, and runs that: test programs, the tests of the
Python module file by file, the examples, and `ferry tour`. It ends by itself: a program that takes longer than the limit
is ended, after a look at where its threads are, and what had no time to begin counts as failed.

At the end there is a table with a line for each program: how many tests passed, failed and were skipped, and how long it took; then
every skipped test with its reason, which stands in `differences`, and every failure. The exit code says whether anything failed.

With --repeat the suite is run again and again, as long as another run fits into --within: a line for each run, and at the end the
names of what failed, how often, and why the first time. The table is the last run's.

Devices are two of one GPU unless FERRY_DEVICES says otherwise: much of the suite wants a second one.
"""
import argparse
import concurrent.futures
import ctypes
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# One test at a time where tests look at addresses next to their own, or at some they have given up: others may get those
# meanwhile, since drivers take their time.
ONE_BY_ONE = {"registered", "virtual_memory"}
# Programs beside each other see the same GPU. What is free of a device of this size depends on nobody else; some have devices as large
# as the GPU makes them.
DEVICE_MEMORY = "8G"
AS_LARGE_AS_CAN_BE = {"cuda", "cuda-shared", "examples", "ferry-tour", "torch-streams"}
# What takes longest begins first.
LONGEST = ["cuda-shared", "c_programs", "python-test_exit", "products", "garbage", "model", "cuda", "virtual_memory", "registered"]


class Outcome:
    """What came of a program."""

    def __init__(self, passed=0, failed=0, skipped=0, names=(), took=0.0, more="", reasons=()):
        self.passed, self.failed, self.skipped, self.names = passed, failed, skipped, list(names)
        self.took, self.more, self.reasons = took, more, list(reasons)


def differences(path):
    """`program test: reason` in each line; a test called * is all of the program's."""
    found = {}
    for line in open(path, encoding="utf-8"):
        line = line.strip()
        if line and not line.startswith("#"):
            what, reason = line.split(": ", 1)
            program, test = what.split(" ", 1)
            found.setdefault(program, {})[test] = reason
    return found


def unpack(pack, folder):
    """Unpacks the suite if there is a pack, and says what is in it."""
    if os.path.exists(pack):
        with tarfile.open(pack) as archive:
            archive.extractall(folder)
    suite = json.load(open(os.path.join(folder, "suite.json"), encoding="utf-8"))
    # Programs know where they were built: what they read is found there.
    root = suite["root"]
    if not os.path.exists(root):
        os.makedirs(os.path.dirname(root), exist_ok=True)
        os.symlink(folder, root)
    os.makedirs(suite["tmp"], exist_ok=True)
    return suite


class Runner:
    """Runs programs of a suite, each with an end."""

    def __init__(self, options, folder, suite):
        self.folder, self.suite, self.python = folder, suite, options.python
        self.limit, self.end = options.limit, time.monotonic() + options.within
        self.known = differences(options.differences or os.path.join(folder, "tests/device/differences"))
        self.logs = options.logs or os.path.join(folder, "logs")
        self.tells = options.repeat == 1
        self.said = threading.Lock()
        self.has_pytest = subprocess.run([self.python, "-c", "import numpy, pytest"], stderr=subprocess.DEVNULL).returncode == 0

    def one(self, entry, number):
        """Runs a program, and says at once how it went."""
        skips = self.known.get(entry["name"], {})
        if "*" in skips:
            return entry["name"], Outcome(skipped=1)
        if entry.get("kind") == "python" and not self.has_pytest:
            return entry["name"], Outcome(skipped=1, more=f"{self.python} has no pytest or no NumPy")
        if time.monotonic() >= self.end:
            return entry["name"], Outcome(failed=1, names=["the program"], more="no time was left")
        code, text, took, where = self.run(entry["name"], number, *self.command(entry, skips))
        outcome = judge(entry, code, text)
        outcome.skipped += len(skips)
        outcome.took = took
        outcome.more = "" if code == 0 else "still ran" if code is None else f"ended with {code}"
        if outcome.failed:
            outcome.reasons = [*reasons(text), *where]
        with self.said:
            if self.tells or outcome.failed:
                print(f"{entry['name']}: {outcome.passed} passed, {outcome.failed} failed, {took:.1f} s {outcome.more}", flush=True)
        return entry["name"], outcome

    def several(self, chosen, repeat, jobs):
        """Runs them all, up to `repeat` times, and keeps the logs of each run apart. Where one run has too few programs left for all jobs
        the next one begins. Returns the outcomes of each run by name, and how long all of it took."""
        together = [entry for entry in chosen if "alone" not in entry]
        start, runs, turn = time.monotonic(), [], threading.Lock()

        def programs():
            while len(runs) < repeat and (not runs or self.has_time_for_another(start, len(runs))):
                runs.append([])
                yield from ((len(runs), entry) for entry in together)

        def work(left):
            while True:
                with turn:
                    number, entry = next(left, (0, None))
                if not entry:
                    return
                runs[number - 1].append(self.one(entry, number))

        left = programs()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for worker in [pool.submit(work, left) for _ in range(jobs)]:
                worker.result()
        # What breaks the GPU, or wants its addresses for itself, comes last and alone.
        for number, outcomes in enumerate(runs, 1):
            outcomes += [self.one(entry, number) for entry in chosen if "alone" in entry]
        return [sorted(outcomes, key=lambda pair: pair[0]) for outcomes in runs], time.monotonic() - start

    def has_time_for_another(self, start, done):
        """A run that would not come to its end is not begun."""
        now = time.monotonic()
        return now + 1.15 * (now - start) / done < self.end

    def command(self, entry, skips):
        """The words that run it, where, and what it finds in its environment."""
        path, kind = os.path.join(self.folder, entry["path"]), entry.get("kind")
        if kind in ("python", "script"):
            path = os.path.join(self.suite["root"], entry["path"])
        if kind == "script":
            return [self.python, path, *entry["arguments"]], {}
        if kind == "python":
            deselect = [word for test in skips for word in ("--deselect", f"{path}::{test}")]
            return [self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *deselect, path], {
                "PYTHONPATH": os.path.join(self.folder, "python"), "PYTHONDONTWRITEBYTECODE": "1"}
        words = list(entry.get("arguments", []))
        if "alone" in entry:
            words += ["--exact", "--ignored", "--nocapture", entry["alone"]]
        elif kind != "plain":
            words += ["--exact", *[word for test in skips for word in ("--skip", test)]]
            words += ["--test-threads=1"] if entry["name"] in ONE_BY_ONE else []
        return [path, *words], entry.get("environment", {})

    def run(self, name, number, command, more):
        logs = self.logs if self.tells else os.path.join(self.logs, str(number))
        os.makedirs(logs, exist_ok=True)
        environment = dict(os.environ, FERRY_BACKEND="cuda", **more)
        environment.setdefault("FERRY_DEVICES", "2")
        if name not in AS_LARGE_AS_CAN_BE:
            environment.setdefault("FERRY_DEVICE_MEMORY", DEVICE_MEMORY)
        environment.setdefault("RUST_BACKTRACE", "0")
        environment.setdefault("ASCEND_GLOBAL_LOG_LEVEL", "4")
        start, where = time.monotonic(), []
        limit = max(1, min(self.limit, self.end - start))
        with open(os.path.join(logs, name + ".log"), "w", encoding="utf-8") as log:
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment,
                                     cwd=self.folder, start_new_session=True)
            try:
                code = child.wait(limit)
            except subprocess.TimeoutExpired:
                where, code = whereabouts(child.pid), None
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        text = open(log.name, encoding="utf-8", errors="replace").read()
        return code, text, time.monotonic() - start, where


def whereabouts(session):
    """Where the threads of the newest process of a session are, as far as the system tells."""
    pids = [int(path.split("/")[2]) for path in glob.glob("/proc/[0-9]*/stat") if session_of(path) == session]
    if not pids:
        return []
    pid, lines = max(pids), []
    if shutil.which("gdb"):
        gdb = ["timeout", "20", "gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"]
        told = subprocess.run(gdb, capture_output=True, text=True, check=False).stdout.splitlines()
        lines += [line[:160] for line in told if line.startswith(("#", "Thread"))][:120]
    for task in sorted(glob.glob(f"/proc/{pid}/task/*"))[:32]:
        told = [read(f"{task}/{name}")[:60] for name in ("comm", "wchan", "syscall")]
        lines.append(f"thread {os.path.basename(task)}: {' | '.join(told)}")
    return lines


def session_of(stat):
    # Behind the name, which is in brackets: state, parent, group, session.
    words = read(stat).rpartition(")")[2].split()
    return int(words[3]) if len(words) > 3 else -1


def read(path):
    try:
        return open(path, encoding="utf-8", errors="replace").read().strip()
    except OSError as error:
        return type(error).__name__


def judge(entry, code, text):
    """What passed and failed, and the names of what failed."""
    kind = entry.get("kind", "harness")
    outcome = {"harness": of_harness, "python": of_pytest, "plain": of_plain, "script": of_plain}[kind](code, text)
    if code != 0 and not outcome.failed:
        outcome.failed, outcome.names = 1, ["the program"]
    return outcome


def of_harness(_, text):
    """Of Rust's test programs. Children tell of tests that only they run; their parents fail with them."""
    failed = [name for name in re.findall(r"^test (.+?) \.\.\. FAILED", text, re.MULTILINE) if not name.startswith("one_")]
    found = re.search(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", text)
    if found:
        return Outcome(int(found[1]), int(found[2]), names=failed)
    begun = re.findall(r"^test (.+?) \.\.\. (ok|FAILED|ignored)?", text, re.MULTILINE)
    passed = sum(1 for _, word in begun if word == "ok")
    names = failed + [name for name, word in begun if not word] or ["the program"]
    return Outcome(passed, max(len(failed), 1), names=names)


def of_pytest(_, text):
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", text)}
    failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
    names = re.findall(r"^(?:FAILED|ERROR) \S+?::(.+?)(?: - .*)?$", text, re.MULTILINE)
    return Outcome(counts.get("passed", 0), failed, counts.get("skipped", 0), names)


def of_plain(code, text):
    """A tour tells of its parts; of others only their end is known."""
    parts = re.search(r"(\d+) of (\d+) parts ok(?:, (\d+) not here)?", text)
    if text.startswith("ok: skipped"):
        return Outcome(skipped=1)
    if not parts:
        return Outcome(int(code == 0), int(code != 0), names=[] if code == 0 else ["the program"])
    passed, all_, absent = int(parts[1]), int(parts[2]), int(parts[3] or 0)
    return Outcome(passed, all_ - passed - absent, absent, ["the tour"] if passed + absent < all_ else [])


def reasons(text):
    """The lines that say why: a panic's words, or the end of what a program said."""
    lines = text.splitlines()
    panics = [number for number, line in enumerate(lines) if " panicked at " in line]
    if not panics:
        return [line[:400] for line in lines[-16:]]
    said = [line for number in panics[:12] for line in lines[number:number + 4] if line.strip()]
    return [line[:400] for line in said if "stack backtrace" not in line and "RUST_BACKTRACE" not in line]


def table(outcomes, known):
    """The table, what was skipped and why, and what failed. Returns how many tests failed."""
    print(f"\n{'program':<56} passed failed skipped  seconds")
    for name, outcome in outcomes:
        print(f"{name:<56} {outcome.passed:>6} {outcome.failed:>6} {outcome.skipped:>7} {outcome.took:>8.1f}  {outcome.more}")
    sums = sums_of(outcomes)
    print(f"{f'{len(outcomes)} programs':<56} {sums[0]:>6} {sums[1]:>6} {sums[2]:>7}\n")
    for name, _ in outcomes:
        for test, reason in known.get(name, {}).items():
            print(f"skipped: {name} {test}: {reason}")
    for name, outcome in outcomes:
        if outcome.failed:
            print("\n".join(f"FAILED: {name} {test}" for test in outcome.names or ["the program"]))
            print("\n".join(f"    {line}" for line in outcome.reasons))
    print(f"{sums[0]} passed, {sums[1]} failed, {sums[2]} skipped")
    return sums[1]


def sums_of(outcomes):
    return [sum(getattr(outcome, what) for _, outcome in outcomes) for what in ("passed", "failed", "skipped")]


def keep_gpu_open():
    """Opens the GPU as long as this program runs: otherwise the driver starts it anew whenever no other program has it open."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), 0) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def line(number, outcomes):
    """What came of one run of several."""
    passed, failed, skipped = sums_of(outcomes)
    slowest = sorted(outcomes, key=lambda pair: -pair[1].took)[:3]
    slowest = ", ".join(f"{name} {outcome.took:.0f} s" for name, outcome in slowest)
    print(f"run {number}: {passed} passed, {failed} failed, {skipped} skipped; longest: {slowest}", flush=True)


def history(runs):
    """What failed in several runs, and why the first time."""
    first, times = {}, {}
    for number, outcomes in enumerate(runs, 1):
        for name, outcome in outcomes:
            for test in (outcome.names or ["the program"]) if outcome.failed else []:
                first.setdefault((name, test), (number, outcome.reasons))
                times[name, test] = times.get((name, test), 0) + 1
    for (name, test), (number, why) in first.items():
        print(f"FAILED in {times[name, test]} of {len(runs)} runs: {name} {test}; the first time in run {number}:")
        print("\n".join(f"    {reason}" for reason in why))


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pack", default=os.path.join(HERE, "suite.tar.xz"))
    parser.add_argument("--folder", default=os.path.join(HERE, "suite"))
    parser.add_argument("--differences", default=None)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) * 3 // 4), help="programs at a time")
    parser.add_argument("--limit", type=float, default=200, help="seconds for each program")
    parser.add_argument("--within", type=float, default=1200, help="seconds for all of them")
    parser.add_argument("--logs", default=None)
    parser.add_argument("--repeat", type=int, default=1, help="runs, as far as there is time")
    parser.add_argument("--python", default=sys.executable, help="the Python to test the module with")
    return parser.parse_args()


def main():
    options = arguments()
    folder = os.path.abspath(options.folder)
    runner = Runner(options, folder, unpack(options.pack, folder))
    chosen = [entry for entry in runner.suite["programs"] if not options.only or entry["name"] in options.only]
    chosen.sort(key=lambda entry: LONGEST.index(entry["name"]) if entry["name"] in LONGEST else len(LONGEST))
    keep_gpu_open()
    runs, took = runner.several(chosen, options.repeat, options.jobs)
    if options.repeat > 1:
        for number, outcomes in enumerate(runs, 1):
            line(number, outcomes)
    table(runs[-1], runner.known)
    if options.repeat > 1:
        history(runs)
    failures = [sums_of(outcomes)[1] for outcomes in runs]
    if options.repeat > 1:
        print(f"{len(runs)} of {options.repeat} runs, {failures.count(0)} without a failure")
    print(f"{took:.0f} s, {options.jobs} programs at a time")
    return 1 if any(failures) else 0


if __name__ == "__main__":
    sys.exit(main())
