"""One engine per process: module and C code share memory and streams, whoever loads the library first and by whatever name."""

import importlib.metadata
import os
import shutil
import subprocess
import sysconfig

import pytest

import acl
import kit

ROOT = os.path.dirname(os.path.dirname(kit.HERE))
INCLUDE = os.path.join(ROOT, "include")
PYTHON_H = sysconfig.get_paths()["include"]
WHEEL = os.path.join(os.path.dirname(acl.__file__), "lib")

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to build C code with")

# C code that uses the library, as another extension would.
USER = """
#include "acl/acl.h"
#include <stdint.h>

uint64_t user_malloc(uint64_t size)
{
    void *memory = 0;
    return aclrtMalloc(&memory, size, ACL_MEM_MALLOC_NORMAL_ONLY) == 0 ? (uint64_t)(uintptr_t)memory : 0;
}

int user_free(uint64_t memory)
{
    return aclrtFree((void *)(uintptr_t)memory);
}

uint64_t user_stream(void)
{
    aclrtStream stream = 0;
    return aclrtCreateStream(&stream) == 0 ? (uint64_t)(uintptr_t)stream : 0;
}

int user_fill(uint64_t memory, int value, uint64_t size, uint64_t stream)
{
    int code = aclrtMemsetAsync((void *)(uintptr_t)memory, size, value, size, (aclrtStream)(uintptr_t)stream);
    return code != 0 ? code : aclrtSynchronizeStream((aclrtStream)(uintptr_t)stream);
}

int user_destroy(uint64_t stream)
{
    return aclrtDestroyStream((aclrtStream)(uintptr_t)stream);
}

uint64_t user_memory_left(void)
{
    size_t left = 0, total = 0;
    return aclrtGetMemInfo(ACL_HBM_MEM, &left, &total) == 0 ? left : 0;
}

int user_set_device(void)
{
    return aclrtSetDevice(0);
}
"""

# The same as a module that Python imports.
EXTENSION = (
    USER
    + """
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "user", 0, -1, 0, 0, 0, 0, 0};

PyMODINIT_FUNC PyInit_user(void)
{
    return user_set_device() == 0 ? PyModule_Create(&module) : PyErr_Format(PyExc_ImportError, "%s", aclGetRecentErrMsg());
}
"""
)

# In a fresh interpreter: what both sides share. `user` is the C code.
SHARE = """
import ctypes, os, sys

def user_of(path):
    library = ctypes.CDLL(path)
    for name in ("user_malloc", "user_stream", "user_memory_left"):
        getattr(library, name).restype = ctypes.c_uint64
    number = ctypes.c_uint64
    library.user_free.argtypes = library.user_malloc.argtypes = library.user_destroy.argtypes = [number]
    library.user_fill.argtypes = [number, ctypes.c_int, number, number]
    return library

def engines():
    # The files of engines; the second name of the wheel's has no code.
    with open("/proc/self/maps") as maps:
        files = {line.split(maxsplit=5)[-1].strip() for line in maps if " r-x" in line}
    return sorted(file for file in files if "libascendcl" in os.path.basename(file))

def check(user, engine):
    import acl, kit
    from kit import ok
    assert engines() == [engine], (engines(), engine)
    ok(user.user_set_device())
    ok(acl.rt.set_device(0))
    size = 4 << 20

    # One set of devices: what one side takes, the other sees gone, and gives back.
    def memory_left():
        left = user.user_memory_left()
        assert acl.rt.get_mem_info(1)[0] == left, (acl.rt.get_mem_info(1), left)
        return left
    left = memory_left()
    theirs = user.user_malloc(size)
    assert theirs and memory_left() <= left - size
    ours = ok(acl.rt.malloc(size, 0))
    assert memory_left() <= left - 2 * size

    # A pointer and a stream of one are good in the other.
    stream, other = user.user_stream(), ok(acl.rt.create_stream())
    ok(user.user_fill(ours, 7, size, other))
    ok(acl.rt.memset_async(theirs, size, 8, size, stream))
    ok(acl.rt.synchronize_stream(stream))
    back = bytearray(size)
    for memory, value in ((ours, 7), (theirs, 8)):
        ok(acl.rt.memcpy(acl.util.bytes_to_ptr(back), size, memory, size, kit.D2H))
        assert back == bytes([value]) * size
    ok(acl.rt.destroy_stream(stream))
    ok(user.user_destroy(other))
    ok(acl.rt.free(theirs))
    ok(user.user_free(ours))
    assert memory_left() == left
    assert engines() == [engine], engines()
    print("shared")
"""


def gcc(tmp_path, name, code, *flags):
    """Compiles a shared object."""
    source, target = tmp_path / f"{name}.c", tmp_path / name
    source.write_text(code)
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{INCLUDE}", "-o", target, source, *flags]
    subprocess.run(command, check=True)
    return str(target)


@pytest.fixture
def copy(tmp_path):
    """A folder with another copy of the library, and the link to it."""
    return copy_of_library(tmp_path / "copy")


def copy_of_library(folder):
    folder.mkdir()
    shutil.copy(os.path.join(WHEEL, "libascendcl.so"), folder)
    (folder / "libacl_rt.so").symlink_to("libascendcl.so")
    return str(folder)


@pytest.fixture
def user(tmp_path, copy):
    """C code that asks for libascendcl.so by name, and finds none by itself."""
    return gcc(tmp_path, "user.so", USER, f"-L{copy}", "-lascendcl")


def shares(code, *args, env=None):
    assert kit.passes(SHARE + code, *args, env=env) == "shared\n"


def wheel(name="libascendcl.so"):
    return os.path.join(os.path.realpath(WHEEL), name)


def test_the_module_alone_loads_the_library_of_the_wheel(user):
    shares("import acl; check(user_of(sys.argv[1]), sys.argv[2])", user, wheel())


def test_a_library_loaded_by_its_full_path_is_shared(user, copy):
    shares(
        "ctypes.CDLL(sys.argv[2]); import acl; check(user_of(sys.argv[1]), sys.argv[2])", user, f"{copy}/libascendcl.so"
    )


def test_a_library_found_by_the_path_of_libraries_is_shared(user, copy):
    shares(
        "user = user_of(sys.argv[1]); check(user, sys.argv[2])",
        user,
        f"{copy}/libascendcl.so",
        env={"LD_LIBRARY_PATH": copy},
    )


@pytest.mark.parametrize("name", ["libascendcl.so", "libacl_rt.so"])
def test_a_preloaded_library_is_shared(user, copy, name):
    shares("check(user_of(sys.argv[1]), sys.argv[2])", user, f"{copy}/libascendcl.so", env={"LD_PRELOAD": f"{copy}/{name}"})


@pytest.mark.parametrize("name", ["libacl_rt.so", "path"])
def test_a_library_loaded_by_its_second_name_is_shared(user, copy, name):
    first = f"{copy}/libacl_rt.so" if name == "path" else name
    shares(
        "ctypes.CDLL(sys.argv[3]); import acl; check(user_of(sys.argv[1]), sys.argv[2])",
        user,
        f"{copy}/libascendcl.so",
        first,
        env={"LD_LIBRARY_PATH": copy},
    )


def test_a_library_used_before_the_import_is_shared(user, copy):
    shares(
        """
user = user_of(sys.argv[1])
assert user.user_set_device() == 0
memory = user.user_malloc(4096)
import acl, kit
kit.ok(acl.rt.set_device(0))
kit.ok(acl.rt.memset(memory, 4096, 1, 4096))
kit.ok(acl.rt.free(memory))
check(user, sys.argv[2])
""",
        user,
        f"{copy}/libascendcl.so",
        env={"LD_LIBRARY_PATH": copy},
    )


@pytest.mark.skipif(not os.path.exists(os.path.join(PYTHON_H, "Python.h")), reason="there is no Python.h")
@pytest.mark.parametrize("first", ["acl", "user"])
def test_an_extension_module_shares_the_engine(tmp_path, copy, first):
    folder = tmp_path / "extension"
    folder.mkdir()
    gcc(folder, "user.so", EXTENSION, f"-I{PYTHON_H}", f"-L{copy}", "-lascendcl", f"-Wl,-rpath,{copy}")
    shares(
        """
sys.path.insert(0, sys.argv[1])
for name in sys.argv[3], "acl", "user":
    __import__(name)
check(user_of(sys.modules["user"].__file__), sys.argv[2])
""",
        str(folder),
        wheel() if first == "acl" else f"{copy}/libascendcl.so",
        first,
    )


@pytest.fixture
def second_user(tmp_path):
    """C code that was linked elsewhere, where libacl_rt.so is a library of this very name."""
    # Only for the linker: the functions of the first name, under the second.
    functions = "aclrtMalloc aclrtFree aclrtCreateStream aclrtMemsetAsync aclrtSynchronizeStream aclrtDestroyStream aclrtGetMemInfo"
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    stand_in = "".join(f"void {name}(void) {{}}\n" for name in [*functions.split(), "aclrtSetDevice"])
    gcc(folder, "libacl_rt.so", stand_in, "-Wl,-soname,libacl_rt.so")
    return gcc(tmp_path, "second_user.so", USER, f"-L{folder}", "-lacl_rt")


@pytest.mark.parametrize("first", ["wheel", "copy"])
def test_whoever_asks_for_the_second_name_later_gets_the_engine_that_is_there(tmp_path, copy, second_user, first):
    third = copy_of_library(tmp_path / "third")
    shares(
        """
if sys.argv[3] == "copy":
    ctypes.CDLL(sys.argv[2])
import acl
check(user_of(sys.argv[1]), sys.argv[2])
""",
        second_user,
        wheel() if first == "wheel" else f"{copy}/libascendcl.so",
        first,
        env={"LD_LIBRARY_PATH": third},
    )


FAILS = """
import ctypes, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path)
for _ in range(2):
    try:
        import acl
        print("imported")
    except ImportError as error:
        print(error)
"""


def import_fails(*libraries):
    """What `import acl` says, and says again, in a process that has loaded these."""
    first, again = kit.passes(FAILS, *libraries).splitlines()
    assert first == again
    return first


def test_a_library_of_another_version_is_refused(tmp_path):
    code = 'const char *ferryVersion(void) { return "9.8.7"; }\nint aclrtMemcpy(void) { return 0; }\n'
    other = gcc(tmp_path, "libascendcl.so", code, "-Wl,-soname,libascendcl.so")
    said = import_fails(other)
    for word in "9.8.7", importlib.metadata.version("ferry-acl"), other:
        assert word in said


@pytest.mark.parametrize("name", ["libascendcl.so", "libacl_rt.so"])
def test_a_library_that_is_not_ferry_is_refused(tmp_path, name):
    other = gcc(tmp_path, name, "int aclrtMemcpy(void) { return 0; }\n", f"-Wl,-soname,{name}")
    said = import_fails(other)
    assert "not Ferry's" in said and other in said


def test_two_engines_at_the_import_are_refused(tmp_path, copy):
    third = copy_of_library(tmp_path / "third")
    said = import_fails(f"{copy}/libascendcl.so", f"{third}/libascendcl.so")
    assert f"{copy}/libascendcl.so" in said and f"{third}/libascendcl.so" in said


def test_a_module_without_its_library_says_what_is_missing(tmp_path):
    shutil.copytree(os.path.dirname(acl.__file__), tmp_path / "acl", ignore=shutil.ignore_patterns("lib"))
    done = kit.run_python("import sys; sys.path.insert(0, sys.argv[1]); import acl", str(tmp_path))
    assert done.returncode == 1
    assert str(tmp_path / "acl/lib/libascendcl.so") in done.stderr and "No such file" in done.stderr


def test_one_engine_by_two_names_is_one(copy):
    first, second = f"{copy}/libascendcl.so", f"{copy}/libacl_rt.so"
    assert kit.passes(FAILS, first, second) == "imported\nimported\n"


def test_a_second_engine_that_is_loaded_later_refuses_to_work(copy):
    said = kit.passes(
        """
        import ctypes, sys
        import acl, kit
        other = ctypes.CDLL(sys.argv[1])
        other.aclGetRecentErrMsg.restype = ctypes.c_char_p
        kit.ok(acl.rt.set_device(0))
        assert other.aclrtSetDevice(0) == 500000
        assert other.aclInit(None) == 500000
        print(other.aclGetRecentErrMsg().decode())
        # The first one works on.
        memory = kit.Memory("device", 64, b"x" * 64)
        assert memory.read() == b"x" * 64
        """,
        f"{copy}/libascendcl.so",
    )
    assert f"{copy}/libascendcl.so" in said and wheel() in said


def test_a_second_engine_that_nobody_uses_does_no_harm(copy):
    kit.passes(
        """
        import ctypes, sys
        import acl, kit
        ctypes.CDLL(sys.argv[1])
        kit.ok(acl.rt.set_device(0))
        kit.Memory("device", 64, b"x" * 64)
        """,
        f"{copy}/libascendcl.so",
    )
