"""The plugin of pytest: `pytest --ferry` runs a suite that needs an NPU on a machine without one, and `--ferry-check` makes mistakes
with copies in flight fail the test that makes them.

What the dynamic loader reads has to be set when a process starts. So pytest starts itself anew, once, before it has imported anything
of the suite: by `ferry run`, or `ferry check`, which know what to set. Without one of our options the plugin does nothing.
docs/pytest.md has the options and markers.
"""
import os
import sys

import pytest

from ferry_acl import command

# Set for the pytest that was started anew: how.
STARTED = "FERRY_PYTEST"


def pytest_addoption(parser):
    group = parser.getgroup("ferry", "AscendCL without an NPU")
    group.addoption("--ferry", action="store_true", help="put Ferry's library, toolkit and npu-smi in place of an NPU's")
    group.addoption("--ferry-torch", action="store_true", help="--ferry, and operators of device npu run on the CPU")
    group.addoption("--ferry-check", action="store_true", help="--ferry, and findings of ferry check fail the test that made them")
    group.addoption("--ferry-sarif", metavar="FILE", help="--ferry-check, and write the findings of all tests to this file")
    group.addoption("--ferry-suppress", metavar="FILE", action="append", default=[], help="leave out the findings that this file describes")
    group.addoption("--ferry-schedule", metavar="late|early|shuffle", help="when copies run, for tests without a marker")
    group.addoption("--ferry-seed", metavar="N", help="what random choices start from, for tests without a marker")
    group.addoption("--ferry-devices", metavar="N", help="how many devices there are, for tests without a marker")
    group.addoption("--ferry-soc", metavar="NAME", help="the product, such as Ascend910_9391, for tests without a marker")


def is_wanted(options):
    return options.ferry or options.ferry_torch or is_checked(options)


def is_checked(options):
    return bool(options.ferry_check or options.ferry_sarif)


# The outermost one: inside of the wrapper that captures output, standard output is a file of pytest's. In the form that every version of pytest
# knows: a plugin that cannot be imported breaks runs that do not want it.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config, parser, args):
    options = early_config.known_args_namespace
    if is_wanted(options):
        how = "check" if is_checked(options) else "run"
        if os.environ.get(STARTED) not in (how, "check"):
            start_anew(how, options, early_config.invocation_params)
        from ferry_acl import _pytest_processes

        _pytest_processes.become_a_child(early_config)
    yield


def start_anew(how, options, invocation):
    """Becomes `ferry run -- pytest` or `ferry check -- pytest` with the arguments of this one."""
    ferry = command.find()
    if ferry is None:
        raise pytest.UsageError("--ferry: there is no ferry command in this package or on the PATH")
    if [str(word) for word in invocation.args] != sys.argv[1:]:
        raise pytest.UsageError("--ferry starts pytest anew, which pytest.main cannot do for a program: start that with ferry run")
    words = [ferry, how, *words_for(how, options), "--", sys.executable, *interpreter_words()]
    environment = dict(os.environ, **{STARTED: how})
    if options.ferry_torch:
        environment["FERRY_TORCH"] = "1"
    if how == "check":
        # Without its queue torch_npu calls the library in the thread of the test, and stacks have the test's lines.
        environment.setdefault("TASK_QUEUE_ENABLE", "0")
    if options.ferry_soc:
        environment["FERRY_SOC"] = options.ferry_soc
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(ferry, words, environment)


def words_for(how, options):
    """The options of the command."""
    for name in ("schedule", "seed", "devices"):
        value = getattr(options, f"ferry_{name}")
        if value:
            yield from (f"--{name}", value)
    if how == "check":
        # What no test was told of fails the run as a failed test does.
        yield from ("--answer", "--error-exitcode", "1")
        if options.ferry_sarif:
            yield from ("--sarif", os.path.abspath(options.ferry_sarif))
        for file in options.ferry_suppress:
            yield from ("--suppress", os.path.abspath(file))


def interpreter_words():
    """What this interpreter was started with."""
    if sys.version_info >= (3, 10):
        return sys.orig_argv[1:]
    is_module = os.path.basename(sys.argv[0]) == "__main__.py"
    return [*(["-m", "pytest"] if is_module else [sys.argv[0]]), *sys.argv[1:]]


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "ferry(schedule, seed, soc, devices, fault): what this test runs on; with --ferry it runs in a process that has it",
    )
    if not is_wanted(config.option):
        return
    from ferry_acl import _pytest_processes

    config.pluginmanager.register(_pytest_processes.Processes(config), "ferry-processes")
    if is_checked(config.option):
        if pytest.version_tuple < (7, 4):
            raise pytest.UsageError(f"--ferry-check needs pytest 7.4; this is {pytest.__version__}")
        from ferry_acl import _pytest_findings

        config.pluginmanager.register(_pytest_findings.Findings(config), "ferry-findings")


def pytest_report_header(config):
    if is_wanted(config.option):
        how = ", checked" if is_checked(config.option) else ""
        return f"ferry: {os.environ.get('FERRY_SOC') or 'Ascend910B1'}, backend {os.environ.get('FERRY_BACKEND') or 'host'}{how}"
