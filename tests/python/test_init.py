"""acl itself: initialisation, messages, names and versions. What belongs to a process has a process of its own."""

import importlib
import threading

import acl
import kit
from kit import ok, passes


def test_init_and_finalize_tell_of_repetition():
    passes("""
        import acl
        from kit import fails, ok, refused
        refused(100037, acl.finalize, naming=["not initialised"])
        ok(acl.init())
        refused(100002, acl.init, naming=["initialised already"])
        ok(acl.finalize())
        refused(100037, acl.finalize)
        ok(acl.init())
        ok(acl.finalize())
    """)


def test_finalize_reference_counts_down():
    passes("""
        import acl
        from kit import fails, ok
        ok(acl.init())
        fails(100002, acl.init())
        fails(100002, acl.init())
        assert acl.finalize_reference() == (2, 0)
        assert acl.finalize_reference() == (1, 0)
        assert acl.finalize_reference() == (0, 0)
        assert acl.finalize_reference() == (0, 100037)
        fails(100037, acl.finalize())
        # finalize ends it, whatever the count.
        ok(acl.init())
        fails(100002, acl.init())
        ok(acl.finalize())
        assert acl.finalize_reference() == (0, 100037)
    """)


def test_functions_work_before_init():
    passes("""
        import acl
        from kit import fails, ok
        ok(acl.rt.set_device(0))
        ok(acl.rt.free(ok(acl.rt.malloc(64, 0))))
        fails(100037, acl.finalize())
    """)


def test_init_reads_the_file_of_its_path(tmp_path):
    path = tmp_path / "acl – configuration.json"
    path.write_text('{"defaultDevice": {"default_device": "1"}}')
    passes(
        """
        import sys, acl
        from kit import ok
        assert acl.rt.get_device() == (0, 107002)
        ok(acl.init(sys.argv[1]))
        assert ok(acl.rt.get_device()) == 1
        """,
        str(path),
    )


def test_init_takes_a_path_that_is_no_utf8(tmp_path):
    path = tmp_path / "acl\udcff.json"
    path.write_text("{}")
    passes(
        """
        import sys, acl
        from kit import ok
        ok(acl.init(sys.argv[1]))
        """,
        str(path),
    )


def test_init_without_a_path_is_init_with_none():
    passes("import acl, kit; kit.ok(acl.init(None)); kit.fails(100002, acl.init())")


def test_init_refuses_files_that_it_cannot_use(tmp_path):
    for name, text in (
        ("empty", "{}"),
        ("no.json", "no json"),
        ("deep", '{"a":' * 11 + "1" + "}" * 11),
        ("large", "{" + " " * (16 << 20) + "}"),
        ("bad", '{"err_msg_mode": "2"}'),
    ):
        (tmp_path / name).write_text(text)
    passes(
        """
        import sys, acl
        from kit import ok, refused
        at = sys.argv[1]
        refused(100003, acl.init, at + "/missing", naming=["missing"])
        refused(100003, acl.init, at, naming=[at])
        refused(100003, acl.init, "")
        refused(100006, acl.init, at + "/no.json")
        refused(100006, acl.init, at + "/deep")
        refused(100005, acl.init, at + "/large")
        refused(100008, acl.init, at + "/bad", naming=["err_msg_mode"])
        # None of these has initialised anything.
        refused(100037, acl.finalize)
        ok(acl.init(at + "/empty"))
        ok(acl.finalize())
        """,
        str(tmp_path),
    )


def test_a_setting_that_makes_no_sense_fails_init_and_set_device():
    passes(
        """
        import acl
        from kit import refused
        for call in (acl.init, lambda: acl.rt.set_device(0)):
            refused(100000, call, naming=["FERRY_SOC", "Ascend910X", "Ascend910B1"])
        assert acl.get_soc_name() is None
        """,
        env={"FERRY_SOC": "Ascend910X"},
    )


def test_finalize_ends_the_default_context(device):
    passes("""
        import acl
        from kit import fails, ok
        ok(acl.init())
        ok(acl.rt.set_device(0))
        stream = ok(acl.rt.create_stream())
        ok(acl.finalize())
        fails(107002, acl.rt.get_device())
        ok(acl.init())
        ok(acl.rt.set_device(0))
        fails(107017, acl.rt.synchronize_stream(stream))
    """)


def test_messages_are_told_once_newest_first(device):
    kit.message()
    assert acl.get_recent_err_msg() is None
    kit.fails(100000, acl.rt.free(0))
    kit.fails(107001, acl.rt.set_device(77))
    said = acl.get_recent_err_msg()
    assert said.index("aclrtSetDevice failed with 107001") < said.index("aclrtFree failed with 100000")
    assert acl.get_recent_err_msg() is None


def test_messages_belong_to_the_thread_that_failed(device):
    kit.message()
    heard = []

    def fail():
        kit.fails(107001, acl.rt.set_device(77))
        heard.append(acl.get_recent_err_msg())

    thread = threading.Thread(target=fail)
    kit.fails(100000, acl.rt.free(0))
    thread.start()
    thread.join()
    assert "107001" in heard[0] and "100000" not in heard[0]
    assert "107001" not in acl.get_recent_err_msg()


def test_messages_belong_to_the_process_if_the_file_says_so(tmp_path):
    path = tmp_path / "acl.json"
    path.write_text('{"err_msg_mode": "1"}')
    passes(
        """
        import sys, threading, acl
        from kit import ok
        ok(acl.init(sys.argv[1]))
        thread = threading.Thread(target=acl.rt.set_device, args=(77,))
        thread.start()
        thread.join()
        assert "107001" in acl.get_recent_err_msg()
        """,
        str(path),
    )


def test_messages_say_what_python_gave():
    said = kit.refused(107000, acl.rt.malloc, -1, 0)
    assert said == 0
    kit.refused(107000, acl.rt.malloc, -1, 0, naming=["acl.rt.malloc", "size is -1", "0 to 18446744073709551615"])


def test_the_product_has_the_name_it_was_given():
    program = "import acl; print(acl.get_soc_name())"
    assert passes(program, env={"FERRY_SOC": None}) == "Ascend910B1\n"
    assert passes(program, env={"FERRY_SOC": "Ascend310P3"}) == "Ascend310P3\n"


def test_versions():
    assert acl.get_version() == (1, 15, 0, 0)
    for function in (acl.get_version_str, acl.sys.get_version_str):
        version = ok(function("runtime"))
        assert version[0].isdigit() and ok(function("driver")) == version
        assert kit.refused(107000, function, "no such package", naming=["'no such package'", "runtime"]) == ""
    program = "import acl; print(acl.get_version_str('runtime'), acl.sys.get_version_str('driver'))"
    assert passes(program, env={"FERRY_CANN_VERSION": "8.0.RC3"}) == "('8.0.RC3', 0) ('8.0.RC3', 0)\n"


def test_parts_are_imported_as_modules():
    passes("""
        import acl.rt
        from acl.util import bytes_to_ptr
        import acl.sys as versions
        from acl import rt
        assert acl.rt is rt and acl.util.bytes_to_ptr is bytes_to_ptr and acl.sys is versions
    """)
    passes("import acl.util")
    assert importlib.import_module("acl.rt") is acl.rt


def test_numpy_is_not_needed():
    passes("""
        import sys
        sys.modules["numpy"] = None
        import acl
        from kit import ok
        ok(acl.rt.set_device(0))
        ok(acl.rt.memset(ok(acl.rt.malloc(64, 0)), 64, 1, 64))
        try:
            acl.util.numpy_to_ptr(b"")
        except ImportError:
            sys.exit(0)
        sys.exit("no ImportError")
    """)


def test_another_interpreter_of_the_process_is_refused_and_does_no_harm():
    program = """
        import threading

        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters

        try_it = '''
        try:
            import acl
        except ImportError as error:
            print("subinterpreters" in str(error), flush=True)
        '''
        first = interpreters.create()
        interpreters.run_string(first, try_it)
        import acl
        print(acl.rt.set_device(0), flush=True)
        interpreters.destroy(first)
        second = interpreters.create()
        interpreters.run_string(second, try_it)
        thread = threading.Thread(target=lambda: print(acl.rt.set_device(0), flush=True))
        thread.start()
        thread.join()
    """
    done = kit.run_python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n0\nTrue\n0\n", "")
