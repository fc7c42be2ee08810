"""`pytest --ferry-check`: asks `ferry check`, under which pytest runs, at the end of each part of a test for what was found in it.

The question goes through a socket whose path the environment has (crates/cli/src/check/questions.rs). The answer has what this process and those
that it started have done wrong since the last question, and by then everything is judged that has happened. So a finding belongs to the part
of a test in which its access happened, whatever was in flight from before; xdist's workers ask for themselves.
"""
import json
import os
import socket

import pytest

SOCKET = "FERRY_CHECK_SOCKET"
# Of a worker's output for the process that started it.
OUTSIDE = "ferry_outside"


class Questions:
    """A connection to `ferry check`. A forked child makes its own."""

    def __init__(self):
        self.process = None

    def ask(self):
        """What was found since the last question, each as an object of docs/checking.md with its text."""
        if self.process != os.getpid():
            self.process = os.getpid()
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(os.environ[SOCKET])
            self.file = connection.makefile("rw", encoding="utf-8")
            connection.close()
        self.file.write(f"{self.process}\n")
        self.file.flush()
        answer = self.file.readline()
        if not answer:
            raise pytest.UsageError("ferry check, under which pytest runs, has ended")
        return json.loads(answer)["findings"]


class Findings:
    """Makes findings fail the test that made them."""

    def __init__(self, config):
        if SOCKET not in os.environ:
            raise pytest.UsageError("--ferry-check: pytest does not run under ferry check")
        self.config = config
        self.questions = Questions()
        # Texts of what was found while no test ran.
        self.outside = []

    def pytest_collection_finish(self):
        self.outside += texts(self.questions.ask())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item):
        return (yield from self.judged(item, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item):
        return (yield from self.judged(item, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        return (yield from self.judged(item, "teardown"))

    def judged(self, item, when):
        """Runs a part of a test. If it ends well, but with a finding, it fails; if it fails by itself, the report has both."""
        try:
            result = yield
        except pytest.skip.Exception:
            self.fail_if_found(item, when)
            raise
        except BaseException:
            add_section(item, when, self.found(item))
            raise
        self.fail_if_found(item, when)
        return result

    def fail_if_found(self, item, when):
        found = self.found(item)
        errors = [finding for finding in found if finding["severity"] == "error"]
        add_section(item, when, [finding for finding in found if finding["severity"] != "error"])
        if errors:
            pytest.fail("\n\n".join(texts(errors)), pytrace=False)

    def found(self, item):
        """What was found since the last question; the test's properties tell of it, too."""
        found = self.questions.ask()
        for finding in found:
            item.user_properties.append(("ferry_finding", finding["id"]))
            item.user_properties.append(("ferry_access", stack(finding["access"])))
            if "work" in finding:
                item.user_properties.append(("ferry_work", f"{finding['work']['call']}: {stack(finding['work'])}"))
        return found

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        self.outside += texts(self.questions.ask())
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[OUTSIDE] = self.outside
        elif self.outside and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.outside += getattr(node, "workeroutput", {}).get(OUTSIDE, [])

    def pytest_terminal_summary(self, terminalreporter):
        if self.outside:
            terminalreporter.section("ferry check: found while no test ran")
            for text in self.outside:
                terminalreporter.line(f"{text}\n")


def texts(findings):
    return [finding["text"] for finding in findings]


def stack(part):
    """A stack as one line, the innermost frame first."""
    frames = (f"{frame['file'] or frame.get('position')}:{frame['line'] or '?'} {frame['function'] or '?'}" for frame in part["stack"])
    return ", ".join(frames)


def add_section(item, when, findings):
    if findings:
        item.add_report_section(when, "ferry check", "\n\n".join(texts(findings)))
