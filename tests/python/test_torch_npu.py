"""The import hook that lets torch_npu be loaded beside a CUDA build of torch, tried on stand-ins for both: libraries that register settings
as theirs do, with one class in a libc10.so that ends the process at a name it has already.
"""
import os
import shutil
import subprocess
import sys

import pytest

import ferry_acl

# The class of torch that both packages register with.
CLASS = r"""
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <unordered_set>
using Hook = std::function<void(const std::string &)>;
using Keys = std::unordered_set<std::string>;
namespace c10 { namespace CachingAllocator {
class AcceleratorAllocatorConfig {
public:
    static Keys &getMutableKeys();
    static Hook &getConfigParserHook();
};
} }
using c10::CachingAllocator::AcceleratorAllocatorConfig;
"""
# What it does, and what the tests ask of it.
LIBC10 = CLASS + r"""
Keys &AcceleratorAllocatorConfig::getMutableKeys() { static Keys keys{"common"}; return keys; }
Hook &AcceleratorAllocatorConfig::getConfigParserHook() { static Hook hook; return hook; }
extern "C" int has_key(const char *name) { return AcceleratorAllocatorConfig::getMutableKeys().count(name); }
extern "C" void apply(const char *settings) { AcceleratorAllocatorConfig::getConfigParserHook()(settings); }
"""
# What either package does when its library is loaded. NAMES and the function's name differ.
REGISTERS = CLASS + r"""
static std::string seen;
namespace c10 { namespace cuda { namespace CUDACachingAllocator {
struct CUDAAllocatorConfig {
    static const Keys &getKeys() { static Keys keys{NAMES}; return keys; }
};
} } }
struct Registers {
    Registers() {
        AcceleratorAllocatorConfig::getConfigParserHook() = [](const std::string &settings) { seen = settings; };
        Keys &keys = AcceleratorAllocatorConfig::getMutableKeys();
        for (auto &key : KEYS) {
            if (!keys.insert(key).second) {
                std::fprintf(stderr, "Duplicated key %s\n", key.c_str());
                std::abort();
            }
        }
    }
};
static Registers registers;
extern "C" const char *SEEN() { return seen.c_str(); }
extern "C" int late() { return AcceleratorAllocatorConfig::getMutableKeys().size(); }
"""
# An extension module, with the parts of Python's headers that it needs.
MODULE = r"""
extern "C" void *PyModule_Create2(void *, int);
static const char name[] = "_C";
static long definition[13] = {1, 0, 0, 0, 0, (long)name, 0, -1};
extern "C" void *PyInit__C() { return PyModule_Create2(definition, 1013); }
"""
CUDA = ["-DNAMES=\"both\",\"cuda_only\"", "-DKEYS=c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig::getKeys()", "-DSEEN=seen_by_cuda"]
NPU = ["-DNAMES=", "-DKEYS=Keys({\"both\",\"npu_only\"})", "-DSEEN=seen_by_npu"]
PROGRAM = """
import ctypes, sys
folder = sys.argv[1]
c10 = ctypes.CDLL(folder + "/libc10.so")
cuda = ctypes.CDLL(folder + "/libc10_cuda.so")
sys.path.insert(0, folder)
import torch_npu._C
npu = ctypes.CDLL(torch_npu._C.__file__)
cuda.seen_by_cuda.restype = npu.seen_by_npu.restype = ctypes.c_char_p
for key in (b"common", b"both", b"cuda_only", b"npu_only"):
    assert c10.has_key(key), key
assert npu.late() == 4, npu.late()
c10.apply(b"both:1,cuda_only:[2,3], npu_only:4,common:[5:6,7:8]")
assert cuda.seen_by_cuda() == b"both:1,cuda_only:[2,3], npu_only:4,common:[5:6,7:8]", cuda.seen_by_cuda()
assert npu.seen_by_npu() == b"both:1, npu_only:4,common:[5:6,7:8]", npu.seen_by_npu()
c10.apply(b"cuda_only:1")
assert npu.seen_by_npu() == b"", npu.seen_by_npu()
print("ok")
"""


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory):
    if not shutil.which("c++"):
        pytest.skip("there is no compiler for C++")
    folder = tmp_path_factory.mktemp("torch")
    (folder / "torch_npu").mkdir()
    (folder / "torch_npu/__init__.py").touch()

    def compile_to(name, source, *flags):
        command = ["c++", "-std=c++14", "-O1", "-fPIC", "-shared", *flags, "-x", "c++", "-", "-x", "none", "-o", folder / name]
        subprocess.run(command, input=source, text=True, check=True)

    needs = [f"-L{folder}", "-Wl,-rpath,$ORIGIN:$ORIGIN/..", "-Wl,--no-as-needed"]
    compile_to("libc10.so", LIBC10, "-Wl,-soname,libc10.so")
    compile_to("libc10_cuda.so", REGISTERS, "-Wl,-soname,libc10_cuda.so", *needs, *CUDA, folder / "libc10.so")
    compile_to("torch_npu/_C.abi3.so", REGISTERS + MODULE, *needs, *NPU, folder / "libc10.so")
    return folder


def run(stand_ins, *words, **environment):
    command = [sys.executable, *words, "-c", PROGRAM, stand_ins]
    return subprocess.run(command, env=dict(os.environ, **environment), capture_output=True, text=True, timeout=60)


def test_both_packages_register_their_settings(stand_ins):
    ran = run(stand_ins)
    assert (ran.stdout, ran.returncode) == ("ok\n", 0), ran.stderr


def test_without_the_hook_the_process_ends(stand_ins):
    ran = run(stand_ins, "-S", PYTHONPATH="")
    assert ran.returncode < 0 and "Duplicated key both" in ran.stderr, ran.stderr


def test_a_package_built_without_a_compiler_for_cpp_has_no_hook(stand_ins, tmp_path):
    """Then torch_npu loads as it always did: beside a torch that does not register the same names, it works."""
    shutil.copytree(os.path.dirname(ferry_acl.__file__), tmp_path / "ferry_acl", ignore=shutil.ignore_patterns("*.so"))
    program = """
import sys, ferry_acl._torch_npu
sys.path.insert(0, sys.argv[1])
import torch_npu._C
print("loaded")
"""
    command = [sys.executable, "-S", "-c", program, stand_ins]
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.returncode) == ("loaded\n", 0), ran.stderr


def test_children_have_the_hook_too(stand_ins):
    code = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1], sys.argv[2]]).returncode)"
    ran = subprocess.run([sys.executable, "-c", code, PROGRAM, stand_ins], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.returncode) == ("ok\n", 0), ran.stderr


def test_an_installed_tree_runs_the_sitecustomize_that_it_hides(stand_ins, tmp_path):
    """With the package in PYTHONPATH only, as set_env.sh has it."""
    tree, theirs = tmp_path / "tree", tmp_path / "theirs"
    shutil.copytree(os.path.dirname(ferry_acl.__file__), tree / "ferry_acl")
    here = os.path.dirname(os.path.abspath(__file__))
    shutil.copy(os.path.join(here, "../../packaging/python/sitecustomize.py"), tree)
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import sys; sys.stdout.write('theirs, ')\n")
    # Twice: two trees must not call each other for ever.
    again = tmp_path / "again"
    shutil.copytree(tree, again)
    ran = run(stand_ins, PYTHONPATH=os.pathsep.join(map(str, (tree, again, theirs))))
    assert (ran.stdout, ran.returncode) == ("theirs, ok\n", 0), ran.stderr


def test_one_installed_tree_by_two_paths_runs_the_hidden_sitecustomize_once(stand_ins, tmp_path):
    """As `ferry run`, which knows the tree's real path, has it in a shell that sourced set_env.sh through a link."""
    tree, theirs, link = tmp_path / "tree", tmp_path / "theirs", tmp_path / "link"
    shutil.copytree(os.path.dirname(ferry_acl.__file__), tree / "ferry_acl")
    here = os.path.dirname(os.path.abspath(__file__))
    shutil.copy(os.path.join(here, "../../packaging/python/sitecustomize.py"), tree)
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import sys; sys.stdout.write('theirs, ')\n")
    link.symlink_to(tree)
    for folders in ((tree, link, theirs), (link, tree, theirs), (link, theirs, tree)):
        ran = run(stand_ins, PYTHONPATH=os.pathsep.join(map(str, folders)))
        assert (ran.stdout, ran.returncode) == ("theirs, ok\n", 0), (folders, ran.stderr)
