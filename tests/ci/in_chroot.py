"""What packaging/ has for CI, run here: the steps of the Dockerfile and of the action in a fresh Debian, by chroot.

    unshare -m python3 tests/ci/in_chroot.py FOLDER WHEEL

FOLDER keeps the Debian that debootstrap makes, for the next time. Needs root, and a mount namespace of its own, with which all mounts go away. The
last line begins with `ok:`.
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
SUITE = os.path.join(ROOT, "tests/ci/suite")
ACTION = os.path.join(ROOT, "packaging/action")
# How this machine reaches packages: a container's builder has the same from its daemon.
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/apt/apt.conf.d", "/etc/pip.conf")
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
PASSED_ON = re.compile(r"(?i)^(https?|no)_proxy$|^PIP_(CERT|INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT)$")
LIMIT = 900


def debian(folder, suite):
    """A fresh Debian, copied from the one that debootstrap made."""
    base, fresh = os.path.join(folder, f"base-{suite}"), os.path.join(folder, "root")
    if not os.path.exists(os.path.join(base, "made")):
        shutil.rmtree(base, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", suite, base], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)
        open(os.path.join(base, "made"), "w").close()
    shutil.rmtree(fresh, ignore_errors=True)
    subprocess.run(["cp", "-a", base, fresh], check=True)
    for path in filter(os.path.exists, NETWORK):
        subprocess.run(["cp", "-aT", "--dereference", path, fresh + path], check=True)
    subprocess.run(["mount", "-t", "proc", "proc", f"{fresh}/proc"], check=True)
    subprocess.run(["mount", "--rbind", "/dev", f"{fresh}/dev"], check=True)
    return fresh


class Container:
    """A root folder, and the environment and folder of what runs in it."""

    def __init__(self, root):
        self.root, self.folder = root, "/"
        self.environment = {name: value for name, value in os.environ.items() if PASSED_ON.match(name)}
        self.environment.update(PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME="/root", LC_ALL="C.UTF-8")

    def run(self, words, code=0, **more):
        """Runs a program in the root. Returns what it said."""
        # What certificates this machine has, once there is a place for them.
        if os.path.isdir(os.path.dirname(self.root + BUNDLE)) and os.path.exists(BUNDLE):
            shutil.copyfile(BUNDLE, self.root + BUNDLE)
        script = f"cd {shlex.quote(self.folder)} && exec {shlex.join(words)}"
        command = ["chroot", self.root, "/bin/bash", "-c", script]
        done = subprocess.run(command, env={**self.environment, **more}, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == code, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def copy(self, sources, target):
        os.makedirs(self.root + target, exist_ok=True)
        for source in sources:
            subprocess.run(["cp", "-rT" if os.path.isdir(source) else "-r", source, self.root + target], check=True)


def instructions(text):
    """The instructions of a Dockerfile, and the rest of the line of each."""
    text = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


def build(folder, wheel):
    """Does what the Dockerfile says. Returns the container and its command."""
    with open(os.path.join(ROOT, "packaging/docker/Dockerfile"), encoding="utf-8") as file:
        steps = instructions(file.read())
    container = command = None
    for word, rest in steps:
        print(f"{word} {' '.join(rest.split())}", flush=True)
        if word == "FROM":
            container = Container(debian(folder, re.fullmatch(r"debian:(\w+)-slim", rest)[1]))
        elif word == "RUN":
            container.run(["/bin/sh", "-c", rest])
        elif word == "ENV":
            name, value = rest.split("=", 1)
            container.environment[name] = value.replace("$PATH", container.environment["PATH"])
        elif word == "COPY":
            pattern, target = rest.split()
            found = [wheel] if glob.fnmatch.fnmatch(os.path.basename(wheel), pattern) else []
            assert found, f"{pattern} does not match the wheel"
            container.copy(found, target)
        elif word == "WORKDIR":
            container.folder = rest
            os.makedirs(container.root + rest, exist_ok=True)
        elif word == "CMD":
            command = json.loads(rest)
        else:
            raise AssertionError(f"{word} is not known here")
    return container, command


def judge(said, matcher):
    """One test fails, by a finding whose first line the problem matcher reads."""
    assert re.search(r"1 failed, 1 passed", said), said
    found = [match for match in (re.match(matcher, line) for line in said.splitlines()) if match]
    assert [(os.path.basename(match[1]), match[3], match[5]) for match in found] == [("test_copies.py", "error", "FERRY-STREAM-RACE")], said
    return f"{found[0][1]}:{found[0][2]}"


def inputs(action, **given):
    values = {name: each.get("default", "") for name, each in action["inputs"].items()}
    assert set(given) <= set(values)
    return {**values, **given}


def filled(text, values):
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: values[match[1]], text)


def act(container, wheel, matcher):
    """Does what the steps of the action do in a shell, in an environment of Python of its own."""
    with open(os.path.join(ACTION, "action.yml"), encoding="utf-8") as file:
        action = yaml.safe_load(file)
    container.copy([ACTION], "/action")
    container.run(["python3", "-m", "venv", "/opt/action"])
    path = "/opt/action/bin:" + container.environment["PATH"]
    values = inputs(action, package=f"/opt/wheels/{os.path.basename(wheel)}")
    said = ""
    for step in action["runs"]["steps"]:
        print(f"step: {step['name']}", flush=True)
        if "run" not in step:
            # GitHub's own; what it takes must be there.
            with open(os.path.join(container.root + container.folder, filled(step["with"]["sarif_file"], values)), encoding="utf-8") as file:
                results = json.load(file)["runs"][0]["results"]
            uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results]
            assert uris == ["test_copies.py"], uris
            continue
        environment = {name: filled(value, values) for name, value in step.get("env", {}).items()}
        code = 1 if step["name"] == "Test" else 0
        said = container.run(["bash", "-c", step["run"]], code, PATH=path, GITHUB_ACTION_PATH="/action", **environment)
        if step["name"] == "Install Ferry":
            assert re.search(r"ok +pytest +pytest .* sees the plugin", said), said
        if step["name"] == "Test":
            assert "::add-matcher::/action/problem-matcher.json" in said and "::remove-matcher owner=ferry::" in said, said
            judge(said, matcher)


def main(folder, wheel):
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with open(os.path.join(ACTION, "problem-matcher.json"), encoding="utf-8") as file:
        matcher = json.load(file)["problemMatcher"][0]["pattern"][0]["regexp"]
    container, command = build(folder, wheel)
    container.copy([SUITE], container.folder)
    print(f"the container's command: finding at {judge(container.run(command, 1), matcher)}", flush=True)
    act(container, wheel, matcher)
    print("ok: the Dockerfile's steps and the action's run, and their findings are read")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
