"""What public programs do to find a toolkit and its versions, each rule in a few lines, on the tree whose set_env.sh was
sourced, or whose `ferry run` started this.

usage: rules.py HOME BASE [quick]: HOME is where the tree is, BASE the folder two above it, where the driver's files are. `quick`
leaves out the rules that run a compiler. A row of RULES is a client, what it does, and a function that fails if that fails.
Says `ok:` and how many.
"""

import ctypes
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HOME, BASE = Path(sys.argv[1]), Path(sys.argv[2])
ARCH = platform.machine()
RULES = []
VERSION = "8.5.0"
COMPANIONS = ["hccl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel", "runtime"]


def rule(client, what, slow=False):
    def add(check):
        RULES.append((client, what, slow, check))
        return check

    return add


def same(got, want):
    assert got == want, f"{got!r}, not {want!r}"


def env(name):
    return Path(os.environ[name])


def number(version):
    """A version as a list that compares, with release candidates before the release."""
    return [int(part) if part.isdigit() else -1 for part in re.split(r"[.]", version)]


# Versions


@rule("torch_npu collect_env", "walks without following links; first line with 'version', after the last =")
def _():
    found = [
        Path(folder) / name
        for folder, _, names in os.walk(env("ASCEND_HOME_PATH"))
        for name in names
        if re.fullmatch(r"ascend_.*_install\.info", name)
    ]
    line = next(line for line in found[0].read_text().splitlines() if "version" in line)
    same(line.rsplit("=", 1)[1], VERSION)


def install_info():
    return (env("ASCEND_TOOLKIT_HOME") / f"{ARCH}-linux/ascend_toolkit_install.info").read_text()


@rule("LMCache-Ascend", "the line that starts with version=")
def _():
    same([line[8:] for line in install_info().splitlines() if line.startswith("version=")], [VERSION])


@rule("verl", "version= is 8.3.rc1 or newer")
def _():
    version = re.search(r"^version=(.*)$", install_info(), re.M)[1].lower()
    assert number(version) >= number("8.3.rc1"), version


@rule("sgl-kernel-npu deep_ep", "version=, and the digits after B in innerversion")
def _():
    same(re.search(r"^version=(\S+)", install_info(), re.M)[1], VERSION)
    assert int(re.search(r"[Bb](\d+)", re.search(r"^innerversion=(\S+)", install_info(), re.M)[1])[1]) > 0


@rule("Paddle", "version=(\\d+.\\d+.(RC)?(T)?\\d*)")
def _():
    same(re.search(r"version=(\d+.\d+.(RC)?(T)?\d*)", install_info())[1], VERSION)


def version_cfg():
    return (env("ASCEND_INSTALL_PATH") / "version.cfg").read_text().splitlines()


@rule("sglang", "version.cfg: drops line 1, text in [ ] of line 2")
def _():
    inside = version_cfg()[1:][0].split("[")[1].split("]")[0]
    same(inside, f"{VERSION}.0.000:{VERSION}")


@rule("sgl-kernel-npu", "version.cfg: first x.y.z of the file")
def _():
    same(re.search(r"\d+\.\d+\.\d+", "\n".join(version_cfg()))[0], VERSION)


@rule("xllm", "version.cfg: first line with =")
def _():
    line = next(line for line in version_cfg() if "=" in line)
    same(re.search(r"\d+\.\d+\.\d+", line)[0], VERSION)


@rule("workflows and scripts", "toolkit_running_version=\\[[^:]+:([^\\]]+)\\]")
def _():
    same(re.search(r"toolkit_running_version=\[[^:]+:([^\]]+)\]", "\n".join(version_cfg()))[1], VERSION)


@rule("xllm", "Version= of compiler and runtime is 8.5 or newer")
def _():
    for package in ("compiler", "runtime"):
        text = (env("NPU_HOME_PATH") / package / "version.info").read_text()
        assert number(re.search(r"^Version=(.*)$", text, re.M)[1]) >= [8, 5], text


@rule("vllm-ascend gen_version_info.sh", "Version= of compiler/version.info")
def _():
    text = (env("ASCEND_HOME_PATH") / "compiler/version.info").read_text()
    same([line.split("=")[1] for line in text.splitlines() if line.startswith("Version=")], [VERSION])


@rule("yuanrong", "share/info/hixl/version.info or include/version/hixl_version.h of 8.5.2 switches HCCS on")
def _():
    # There is no HIXL here: it must not be switched on.
    home = env("ASCEND_HOME_PATH")
    assert not (home / "share/info/hixl").exists() and not (home / "include/version/hixl_version.h").exists()


@rule("toolkits since 9.x", "share/info/<package>/version.info")
def _():
    for file in glob.glob(f"{HOME}/share/info/*/version.info"):
        same(Path(file).read_text(), f"Version={VERSION}\n")
    assert (HOME / "share/info/runtime/version.info").exists()


@rule("memfabric", "driver/version.info, no link: Innerversion= within 100 lines is at least each of four steps")
def _():
    for file in (BASE / "driver/version.info", HOME / "driver/version.info"):
        assert file.is_file() and not file.is_symlink()
        lines = file.read_text().splitlines()[:100]
        inner = next(line[13:] for line in lines if line.startswith("Innerversion="))

        def parts(text):
            found = re.match(r"(?:V(\d+))?(?:R(\d+))?C(\d+)(?:SPC(\d+))?(?:B(\d+))?$", text)
            return [int(part or 0) for part in found.groups()]

        ours = parts(inner)
        same(ours[:2], [100, 1])
        for step in ("C18B100", "C19SPC109B220", "C21B035", "C23SPC005B219"):
            assert ours[2:] >= parts(step)[2:], (inner, step)


@rule("memcache, Paddle", "driver/version.info: Version=")
def _():
    same(re.search(r"^Version=(.*)$", (BASE / "driver/version.info").read_text(), re.M)[1], "25.5.0")


@rule("workflows and scripts", "the other lines of ascend_toolkit_install.info and of driver/version.info")
def _():
    lines = dict(line.split("=", 1) for line in install_info().splitlines())
    same((lines["package_name"], lines["arch"], lines["os"]), ("Ascend-cann-toolkit", ARCH, "linux"))
    assert lines["compatible_version"] and "path" in lines, lines
    driver = dict(line.split("=", 1) for line in (BASE / "driver/version.info").read_text().splitlines())
    same(driver["package_version"], "25.5.0")
    assert driver["ascendhal_version"] and driver["compatible_version"], driver


@rule("the library", "aclsysGetVersionStr says of every package what the files say")
def _():
    library = ctypes.CDLL("libascendcl.so")
    for package in ("cann", *os.listdir(HOME / "share/info")):
        text = ctypes.create_string_buffer(128)
        same(library.aclsysGetVersionStr(package.encode(), text), 0)
        same(text.value.decode(), VERSION)


# Folders


@rule("set_env.sh of nine public scripts", "the variables, and what is new before what was there")
def _():
    for name, folder in {
        "ASCEND_TOOLKIT_HOME": "",
        "ASCEND_HOME_PATH": "",
        "ASCEND_AICPU_PATH": "",
        "ASCEND_OPP_PATH": "opp",
        "TOOLCHAIN_HOME": "toolkit",
    }.items():
        same(env(name), HOME / folder)
    tiling = f"opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux/{ARCH}"
    for name, folders in {
        "LD_LIBRARY_PATH": ["lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine", tiling, "tools/aml/lib64"],
        "PYTHONPATH": ["python/site-packages", "opp/built-in/op_impl/ai_core/tbe"],
        "PATH": ["bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin"],
        "CMAKE_PREFIX_PATH": ["lib64/cmake"],
    }.items():
        parts = os.environ[name].split(":")
        # pyenv's python is a script that puts itself in front of PATH, `ferry run` puts the real folder in front of lib64.
        first = parts.index(str(HOME / folders[0]))
        same(parts[first : first + len(folders)], [str(HOME / folder) for folder in folders])
        assert "" not in parts, f"{name} would search the current folder: {parts}"
    driver = [str(HOME / "driver/lib64" / folder) for folder in ("", "common", "driver")]
    assert [part for part in os.environ["LD_LIBRARY_PATH"].split(":") if "driver" in part] == driver
    same(os.environ["PYTHONPATH"].split(":")[-1], "/was/there")


@rule("LMCache-Ascend", "set_env.sh inside the tree means 8.5 or newer; a copy lies beside it")
def _():
    same((HOME / "set_env.sh").read_text(), (HOME / "../set_env.sh").read_text())


@rule("torch_npu import", "ASCEND_HOME_PATH, ASCEND_OPP_PATH, runtime and compiler exist")
def _():
    home = env("ASCEND_HOME_PATH")
    for folder in (home, env("ASCEND_OPP_PATH"), home / "runtime", home / "compiler"):
        assert folder.is_dir(), folder


@rule("Mooncake common.cmake", "ASCEND_HOME_PATH/<arch>-linux alone: include, lib64, devlib")
def _():
    folders = glob.glob(f"{env('ASCEND_HOME_PATH')}/*-linux")
    folders = [folder for folder in folders if not os.path.islink(folder)]
    same(folders, [str(HOME / f"{ARCH}-linux")])
    for name in ("include/acl/acl.h", "lib64/libascendcl.so", "devlib/libascendcl.so"):
        assert Path(folders[0], name).exists(), name
    for name in ("include", "lib64", "devlib", "bin"):
        assert not Path(folders[0], name).is_symlink(), f"{name} must be a real folder"


@rule("UCM", "-DASCEND_ROOT: include and lib64/libascendcl.so")
def _():
    assert (HOME / "include/acl/acl.h").exists() and (HOME / "lib64/libascendcl.so").exists()


@rule("llama.cpp ggml-cann", "ASCEND_TOOLKIT_HOME: include and acllib/include")
def _():
    home = env("ASCEND_TOOLKIT_HOME")
    assert (home / "include/acl/acl.h").exists() and (home / "acllib/include/acl/acl.h").exists()


@rule("llama.cpp ggml-cann, verl, LMCache-Ascend", "npu-smi is in PATH, and is this tree's")
def _():
    found = shutil.which("npu-smi")
    same(os.path.realpath(found or ""), os.path.realpath(HOME / "bin/ferry"))
    done = subprocess.run(["npu-smi", "info"], capture_output=True, text=True, check=True)
    # Its configuration fails without the third word of line 7.
    assert re.match(r"(910|310|Ascend)", done.stdout.splitlines()[6].split()[2]), done.stdout


@rule("old programs", "acllib, fwkacllib and runtime have include and lib64")
def _():
    for name in ("acllib", "fwkacllib", "runtime", "compiler"):
        assert (HOME / name / "include/acl/acl_rt.h").exists() and (HOME / name / "lib64/libascendcl.so").exists()


@rule("Paddle", "arm64-linux, on that processor")
def _():
    same((HOME / "arm64-linux").exists(), ARCH == "aarch64")


@rule("yuanrong, Paddle", "a toolkit below ASCEND_CUSTOM_PATH/latest")
def _():
    assert (env("ASCEND_CUSTOM_PATH") / "latest/include/acl/acl.h").exists()


@rule("InfiniCore, tilelang; xllm", "ASCEND_HOME; NPU_HOME_PATH, NPU_TOOLKIT_HOME")
def _():
    for name in ("ASCEND_HOME", "NPU_HOME_PATH", "NPU_TOOLKIT_HOME"):
        assert (env(name) / "lib64/libruntime.so").exists(), name


@rule("dlinfer, yuanrong, FlagCX, onnxruntime", "include/acl/acl.h, lib64/libascendcl.so and libhccl.so")
def _():
    for name in ("include/acl/acl.h", "lib64/libascendcl.so", "lib64/libhccl.so"):
        assert (HOME / name).exists(), name


@rule("torch_npu at run time", "libraries of features that are not here are absent, not empty")
def _():
    for name in ("opapi", "nnopbase", "msprofiler", "ascend_hal", "ascend_dump", "mspti", "atb"):
        assert not (HOME / f"lib64/lib{name}.so").exists(), name


# Libraries


@rule("memcache, memfabric", "dlopen of realpath(lib64/libascendcl.so), and every name in it")
def _():
    library = ctypes.CDLL(os.path.realpath(f"{env('ASCEND_HOME_PATH')}/lib64/libascendcl.so"))
    names = ["aclInit", "aclrtSetDevice", "aclrtMalloc", "aclrtMemcpyBatchAsync", "aclrtIpcMemGetExportKey"]
    # These are declared by the programs themselves; each is mandatory.
    names += ["rtDeviceGetBareTgid", "rtGetDeviceInfo", "rtIpcSetMemoryName", "rtSetIpcMemorySuperPodPid", "rtIpcOpenMemory"]
    names += ["rtIpcCloseMemory", "rtIpcDestroyMemoryName", "rtEnableP2P", "rtDisableP2P", "rtGetLogicDevIdByUserDevId"]
    names += ["rtMemcpyAsyncWithoutCheckKind"]
    same([name for name in names if not hasattr(library, name)], [])


@rule("every program", "all names lead to one file")
def _():
    real = os.path.realpath(HOME / "lib64/libascendcl.so")
    for folder in ("lib", "devlib", f"{ARCH}-linux/devlib", "runtime/lib64", "acllib/lib64"):
        for name in ("libascendcl.so", "libacl_rt.so"):
            same(os.path.realpath(HOME / folder / name), real)


@rule("torch_npu", "dlsym on a companion's handle finds what libascendcl.so has")
def _():
    engine = ctypes.CDLL("libascendcl.so")
    for name in COMPANIONS:
        companion = ctypes.CDLL(f"lib{name}.so")
        address = lambda library: ctypes.cast(library.aclrtMalloc, ctypes.c_void_p).value  # noqa: E731
        same(address(companion), address(engine))


@rule("pyACL programs", "import acl from python/site-packages, on the tree's library")
def _():
    if not (HOME / "python").exists():
        return
    import acl

    assert HOME / "python/site-packages" in Path(acl.__file__).parents, acl.__file__
    same(acl.init(), 0)
    libraries = {line.split(maxsplit=5)[5] for line in open("/proc/self/maps") if "libascendcl.so" in line}
    same({path.strip() for path in libraries}, {os.path.realpath(HOME / "lib64/libascendcl.so")})


def compiles(source, *flags):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "try.c").write_text(source)
        subprocess.run(["gcc", "-Wall", "-Werror", f"{folder}/try.c", *flags, "-o", f"{folder}/try"], check=True)
        subprocess.run([f"{folder}/try"], check=True)


INIT = "#include <acl/acl.h>\nint main(void) { return aclInit(0) || aclFinalize(); }\n"


@rule("torch_npu", "is linked with five companions and libascendcl.so", slow=True)
def _():
    needed = [f"-l{name}" for name in (*COMPANIONS, "ascendcl")]
    compiles(INIT, f"-I{HOME}/include", f"-L{HOME}/lib64", "-Wl,--no-as-needed", *needed)


@rule("InfiniCore, xllm", "-lascendcl -lruntime", slow=True)
def _():
    compiles(INIT, f"-I{env('ASCEND_HOME')}/include", f"-L{env('NPU_HOME_PATH')}/lib64", "-lascendcl", "-lruntime")


@rule("Mooncake common.cmake", "links against devlib", slow=True)
def _():
    real = f"{HOME}/{ARCH}-linux"
    compiles(INIT, f"-I{real}/include", f"-L{real}/devlib", f"-L{real}/lib64", "-lascendcl")


@rule("vllm-ascend CMake", "compiles a test of aclrtMemcpyBatchAsync against include", slow=True)
def _():
    source = "#include <acl/acl_rt.h>\nint main(void) { return aclrtMemcpyBatchAsync == 0; }\n"
    compiles(source, f"-I{HOME}/include", f"-L{HOME}/lib64", "-lascendcl", "-Wno-address")


def main():
    failed = 0
    rules = [row for row in RULES if not (row[2] and sys.argv[3:] == ["quick"])]
    for client, what, _, check in rules:
        try:
            check()
        except Exception as why:
            failed += 1
            print(f"FAILED {client}: {what}: {type(why).__name__}: {why}")
    if failed:
        sys.exit(f"{failed} of {len(rules)} rules are broken")
    print(f"ok: {len(rules)} rules of clients")


main()
