#!/usr/bin/env python3
"""Runs the conformance suite on the cuda backend, program by program, and says what came of it.

    run.py [--pack FILE] [--folder DIR] [--only NAME]... [--jobs N] [--limit SECONDS] [--logs DIR]

Without options it unpacks suite.tar.xz beside itself, as `cargo xtask device` made it, and runs that. A line for each program:
how many tests passed, failed and were skipped, and how long it took; then every skipped test with its reason, which
stands in `differences`, and every failure. The exit code says whether anything failed.

Devices are two of one GPU unless FERRY_DEVICES says otherwise: much of the suite wants a second one.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESULT = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
# One test at a time where tests look at addresses next to their own, which others may register meanwhile: drivers take their time.
ONE_BY_ONE = {"registered"}
FAILED = re.compile(r"^test (.+?) \.\.\. FAILED", re.MULTILINE)


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


def run(program, path, arguments, limit, logs):
    environment = dict(os.environ, FERRY_BACKEND="cuda")
    environment.setdefault("FERRY_DEVICES", "2")
    environment.setdefault("RUST_BACKTRACE", "0")
    start = time.monotonic()
    with open(os.path.join(logs, program + ".log"), "w", encoding="utf-8") as log:
        child = subprocess.Popen([path, *arguments], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 env=environment, cwd=os.path.dirname(path), start_new_session=True)
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            child.wait()
            code = None
    text = open(log.name, encoding="utf-8", errors="replace").read()
    return code, text, time.monotonic() - start


def judge(code, text, harness):
    """Passed, failed, ignored, and the names of what failed."""
    if not harness:
        return (1, 0, 0, []) if code == 0 else (0, 1, 0, ["the program"])
    found = RESULT.search(text)
    # Children tell of tests that only they run; their parents fail with them.
    failed = [name for name in FAILED.findall(text) if not name.startswith("one_")]
    if not found:
        begun = re.findall(r"^test (.+?) \.\.\. (ok|FAILED|ignored)?", text, re.MULTILINE)
        passed = sum(1 for _, word in begun if word == "ok")
        open_ended = [name for name, word in begun if not word]
        return passed, max(len(failed), 1), 0, failed + open_ended or ["the program"]
    return int(found[1]), int(found[2]), int(found[3]), failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pack", default=os.path.join(HERE, "suite.tar.xz"))
    parser.add_argument("--folder", default=os.path.join(HERE, "suite"))
    parser.add_argument("--differences", default=None)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 4), help="programs at a time")
    parser.add_argument("--limit", type=float, default=300, help="seconds for each program")
    parser.add_argument("--logs", default=None)
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    suite = unpack(options.pack, folder) if os.path.exists(options.pack) else json.load(
        open(os.path.join(folder, "suite.json"), encoding="utf-8"))
    known = differences(options.differences or os.path.join(folder, "tests/device/differences"))
    logs = options.logs or os.path.join(folder, "logs")
    os.makedirs(logs, exist_ok=True)

    chosen = [entry for entry in suite["programs"] if not options.only or entry["name"] in options.only]
    totals, wrong = [0, 0, 0], []
    for alone in (False, True):
        some = [entry for entry in chosen if ("alone" in entry) == alone]
        with concurrent.futures.ThreadPoolExecutor(1 if alone else options.jobs) as pool:
            for passed, failed, skipped, line, told in pool.map(
                    lambda entry: one(entry, folder, known.get(entry["name"], {}), options.limit, logs), some):
                print(line, flush=True)
                totals = [totals[0] + passed, totals[1] + failed, totals[2] + skipped]
                wrong += told
    for entry in chosen:
        for test, reason in known.get(entry["name"], {}).items():
            print(f"skipped: {entry['name']} {test}: {reason}")
    print("\n".join(wrong))
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


def one(entry, folder, skips, limit, logs):
    """Runs a program: what passed, failed and was skipped, a line about it, and what is to be said of failures."""
    program, path = entry["name"], os.path.join(folder, entry["path"])
    if "*" in skips:
        return 0, 0, 1, f"{program:<28} skipped", []
    arguments, harness = [], entry.get("harness", True)
    if "alone" in entry:
        arguments = ["--exact", "--ignored", "--nocapture", entry["alone"]]
    elif harness:
        arguments = ["--exact", *[word for test in skips for word in ("--skip", test)]]
        arguments += ["--test-threads=1"] if program in ONE_BY_ONE else []
    code, text, took = run(program, path, arguments, limit, logs)
    passed, failed, _, names = judge(code, text, harness)
    failed = failed or int(code != 0)
    more = "" if code == 0 else " (still ran)" if code is None else f" (ended with {code})"
    line = f"{program:<28} {passed:>4} passed {failed:>3} failed {len(skips):>3} skipped {took:>7.1f} s{more}"
    told = [f"FAILED: {program} {name}" for name in names]
    if failed:
        told += [f"    {said}" for said in reasons(text)]
    return passed, failed, len(skips), line, told


def reasons(text):
    """The lines that say why: a panic's words, or the end of what a program said."""
    lines = text.splitlines()
    panics = [number for number, line in enumerate(lines) if " panicked at " in line]
    if not panics:
        return [line[:400] for line in lines[-10:]]
    said = [line for number in panics[:12] for line in lines[number:number + 4] if line.strip()]
    return [line[:400] for line in said if "stack backtrace" not in line and "RUST_BACKTRACE" not in line]


if __name__ == "__main__":
    sys.exit(main())
