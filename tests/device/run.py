#!/usr/bin/env python3
"""Runs the conformance suite on the cuda backend, program by program, and says what came of it.

    run.py [--pack FILE] [--folder DIR] [--only NAME]... [--limit SECONDS] [--logs DIR]

Without options it unpacks suite.tar.xz beside itself, as `cargo xtask device` made it, and runs that. A line for each program:
how many tests passed, failed and were skipped, and how long it took; then every skipped test with its reason, which
stands in `differences`, and every failure. The exit code says whether anything failed.

Devices are two of one GPU unless FERRY_DEVICES says otherwise: much of the suite wants a second one.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESULT = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
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
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--logs", default=None)
    options = parser.parse_args()
    folder = os.path.abspath(options.folder)
    suite = unpack(options.pack, folder) if os.path.exists(options.pack) else json.load(
        open(os.path.join(folder, "suite.json"), encoding="utf-8"))
    known = differences(options.differences or os.path.join(folder, "tests/device/differences"))
    logs = options.logs or os.path.join(folder, "logs")
    os.makedirs(logs, exist_ok=True)

    totals, wrong, left_out = [0, 0, 0], [], []
    for entry in suite["programs"]:
        program, path = entry["name"], os.path.join(folder, entry["path"])
        if options.only and program not in options.only:
            continue
        skips = known.get(program, {})
        left_out += [(program, test, reason) for test, reason in skips.items()]
        totals[2] += len(skips)
        if "*" in skips:
            print(f"{program:<28} skipped", flush=True)
            continue
        arguments = []
        if "alone" in entry:
            arguments = ["--exact", "--ignored", "--nocapture", entry["alone"]]
        elif entry.get("harness", True):
            arguments = ["--exact", *[word for test in skips for word in ("--skip", test)]]
        code, text, took = run(program, path, arguments, options.limit, logs)
        passed, failed, ignored, names = judge(code, text, entry.get("harness", True))
        failed = failed or (code != 0)
        totals[0] += passed
        totals[1] += failed
        more = "" if code == 0 else " (still ran)" if code is None else f" (ended with {code})"
        print(f"{program:<28} {passed:>4} passed {failed:>3} failed {len(skips):>3} skipped {took:>7.1f} s{more}",
              flush=True)
        wrong += [(program, name) for name in names]
    for program, test, reason in left_out:
        print(f"skipped: {program} {test}: {reason}")
    for program, name in wrong:
        print(f"FAILED: {program} {name}")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
