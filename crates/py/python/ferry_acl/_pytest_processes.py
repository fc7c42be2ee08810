"""`@pytest.mark.ferry(...)`: a test that wants another machine, or another order of work, than this process has runs in a process of its own.

The library reads its settings when a process first calls it, and tests share what was initialised then. A process of its own needs no way to
change settings while work is under way, and leaves nothing behind. Tests that want the same share one process, unless xdist hands tests out one
by one or the run is to stop at a failure. Their reports come back through a file, as xdist's workers send theirs.
"""
import json
import os
import subprocess
import sys
import tempfile

import pytest

SETTINGS = {
    "schedule": "FERRY_SCHEDULE",
    "seed": "FERRY_SEED",
    "soc": "FERRY_SOC",
    "devices": "FERRY_DEVICES",
    "fault": "FERRY_FAULT",
}
# The folder through which a child gets its options and gives its reports.
CHILD = "FERRY_PYTEST_CHILD"
# Tests of one process at most: a command line has an end.
MOST = 200
# Options that say what to run, where to write, or how to start processes: the parent does that.
OF_THE_PARENT = {
    "basetemp", "cacheclear", "cacheshow", "collectonly", "deselect", "dist", "distload", "failedfirst", "file_or_dir", "ferry_sarif", "ignore",
    "ignore_glob", "inifilename", "keyword", "last_failed_no_failures", "lf", "log_file", "looponfail", "markexpr", "maxfail", "maxprocesses",
    "newfirst", "no_header", "no_summary", "numprocesses", "override_ini", "plugins", "pyargs", "px", "quiet", "rootdir", "stepwise", "stepwise_skip",
    "testrunuid", "trace", "tx", "usepdb", "verbose", "xmlpath", "report_log",
}


def settings(item):
    """The variables that a test wants; what is said nearer to the test counts."""
    wanted = {}
    for marker in item.iter_markers("ferry"):
        unknown = sorted(set(marker.kwargs) - set(SETTINGS))
        if marker.args or unknown:
            what = ", ".join(unknown) or "words without a name"
            raise pytest.UsageError(f"{item.nodeid}: mark.ferry has {what}; it takes {', '.join(SETTINGS)}")
        for name, value in marker.kwargs.items():
            wanted.setdefault(SETTINGS[name], str(value))
    return {name: value for name, value in wanted.items() if os.environ.get(name) != value}


class Processes:
    """Runs tests that want another environment in a process that has it."""

    def __init__(self, config):
        self.config = config
        # Of tests that have run with others: their reports.
        self.reports = {}

    def pytest_collection_modifyitems(self, items):
        for item in items:
            settings(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        wanted = settings(item)
        if not wanted:
            return None
        if item.nodeid not in self.reports:
            self.run(self.companions(item, wanted), wanted)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for data in self.reports.pop(item.nodeid):
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=data)
            item.ihook.pytest_runtest_logreport(report=report)
        self.tear_down(item, nextitem)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def companions(self, item, wanted):
        """The tests that run in one process with this one."""
        if hasattr(self.config, "workerinput") or self.config.option.maxfail:
            return [item]
        items = item.session.items
        behind = items[items.index(item) :]
        return [other for other in behind if settings(other) == wanted and other.nodeid not in self.reports][:MOST]

    def tear_down(self, item, nextitem):
        """Ends the fixtures that earlier tests of this process shared with this one, as its own end would have."""
        call = pytest.CallInfo.from_call(lambda: item.session._setupstate.teardown_exact(nextitem), when="teardown")
        if call.excinfo is not None:
            report = item.ihook.pytest_runtest_makereport(item=item, call=call)
            item.ihook.pytest_runtest_logreport(report=report)

    def run(self, items, wanted):
        """Runs tests in a process with these variables, and keeps their reports."""
        with tempfile.TemporaryDirectory(prefix="ferry-pytest-") as folder:
            with open(os.path.join(folder, "options.json"), "w", encoding="utf-8") as file:
                json.dump({"options": passed_on(self.config), "path": sys.path}, file)
            environment = dict(os.environ, **wanted, **{CHILD: folder})
            words = [sys.executable, "-m", "pytest", *early_words(self.config), *(argument(item) for item in items)]
            ran = subprocess.run(
                words, cwd=self.config.invocation_params.dir, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
            )
            lines = []
            if os.path.exists(os.path.join(folder, "reports")):
                with open(os.path.join(folder, "reports"), encoding="utf-8") as file:
                    lines = [json.loads(line) for line in file]
        if self.config.option.capture == "no":
            sys.stdout.write(ran.stdout)
        for item in items:
            reports = [line for line in lines if line["nodeid"] == item.nodeid]
            if not any(report["when"] == "teardown" for report in reports):
                reports.append(self.ended(item, ran))
            self.reports[item.nodeid] = reports

    def ended(self, item, ran):
        """The report of a test whose process did not come to its end."""
        how = f"was killed by signal {-ran.returncode}" if ran.returncode < 0 else f"ended with {ran.returncode}"
        text = f"the process of this test {how}:\n{ran.stdout[-8000:]}"
        report = pytest.TestReport(item.nodeid, item.location, item.keywords, "failed", text, "call")
        return self.config.hook.pytest_report_to_serializable(config=self.config, report=report)


def argument(item):
    """The test as a command line names it, from any folder."""
    path, separator, rest = item.nodeid.partition("::")
    return f"{item.config.rootpath / path}{separator}{rest}"


def early_words(config):
    """Options that count before plugins can set any."""
    option = config.option
    yield from ("-q", "-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "--rootdir", str(config.rootpath))
    # Not the plugin of xdist: a worker has no option of it.
    yield from ("-p", "no:xdist", "--import-mode", option.importmode, "--capture", option.capture)
    if config.inipath is not None:
        yield from ("-c", str(config.inipath))
    # What the file says of options is said by those of the parent.
    yield from ("-o", "addopts=--ferry")
    for setting in option.override_ini or ():
        yield from ("-o", setting)
    for plugin in option.plugins or ():
        yield from ("-p", plugin)


def passed_on(config):
    """The options of this run that count for a child, too."""
    plain = (str, int, float, bool, type(None))

    def is_plain(value):
        return isinstance(value, plain) or isinstance(value, (list, tuple)) and all(isinstance(each, plain) for each in value)

    return {name: value for name, value in vars(config.option).items() if name not in OF_THE_PARENT and is_plain(value)}


def become_a_child(config):
    """If the parent started this process for some tests: does as its options say, and reports to it."""
    folder = os.environ.pop(CHILD, None)
    if folder is None:
        return
    with open(os.path.join(folder, "options.json"), encoding="utf-8") as file:
        given = json.load(file)
    sys.path[:] = given["path"]
    config.pluginmanager.register(Child(config, folder, given["options"]), "ferry-child")


class Child:
    """Reports to the parent."""

    def __init__(self, config, folder, options):
        self.config, self.options = config, options
        self.file = open(os.path.join(folder, "reports"), "a", encoding="utf-8")

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config):
        vars(config.option).update(self.options)

    def pytest_runtest_logreport(self, report):
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.file.write(json.dumps(data, default=str) + "\n")
        self.file.flush()
