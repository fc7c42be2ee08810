"""Builds the wheel of the module acl: the C library, the command and the licences of what is inside first, then maturin's part.

This is the build backend that pyproject.toml names, so that `pip install .` needs no step by hand.
"""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import maturin

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "crates/py/python/acl/lib/libascendcl.so"
TOOLKIT = ROOT / "crates/py/python/ferry_acl/toolkit"
SETTINGS = ROOT / "crates/py/python/ferry_acl/libtorch_npu_settings.so"
CARGO = os.environ.get("CARGO", "cargo")


def get_requires_for_build_wheel(config_settings=None):
    return maturin.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings=None):
    return maturin.get_requires_for_build_editable(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build_library()
    build_toolkit()
    write_notices()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    build_library()
    build_toolkit()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def cargo_build(name):
    """Builds the library and the command, and says where the one of this name is."""
    cargo = [CARGO, "build", "--release", "--locked", "--package", "ferry-capi", "--package", "ferry-cli"]
    cargo.append("--message-format=json-render-diagnostics")
    messages = subprocess.run(cargo, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    artifacts = [message for message in map(json.loads, messages.splitlines()) if message["reason"] == "compiler-artifact"]
    return [file for message in artifacts for file in message["filenames"] if Path(file).name == name][-1]


def build_library():
    """Puts the C library, without debug information, where the wheel takes it from."""
    built = cargo_build("libascendcl.so")
    LIBRARY.parent.mkdir(exist_ok=True)
    # A process may have the old file loaded: a new one takes its place.
    new = LIBRARY.with_suffix(f".{os.getpid()}")
    shutil.copyfile(built, new)
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-debug", new], check=True)
    new.replace(LIBRARY)
    build_second_name()
    build_settings()


def build_second_name():
    """Makes libacl_rt.so, a library that has only this name and needs the first: a wheel cannot carry links.

    Once the module has loaded both, whoever asks for either name gets the one engine.
    """
    name = "libacl_rt.so"
    new = LIBRARY.with_name(f"{name}.{os.getpid()}")
    cc = [*shlex.split(os.environ.get("CC", "cc")), "-shared", "-nostdlib", "-s", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"]
    subprocess.run([*cc, "-o", new, LIBRARY], check=True)
    new.replace(LIBRARY.with_name(name))


def build_settings():
    """Makes what torch_npu needs beside a CUDA build of torch (crates/py/src/torch_npu_settings.cc). A wheel for everybody else does
    not need it, nor a compiler for C++.
    """
    cxx = shlex.split(os.environ.get("CXX", "c++"))
    if not shutil.which(cxx[0]):
        print(f"without {SETTINGS.name}: there is no {cxx[0]}")
        return
    new = SETTINGS.with_name(f"{SETTINGS.name}.{os.getpid()}")
    flags = ["-std=c++14", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-shared", "-s"]
    source = "crates/py/src/torch_npu_settings.cc"
    subprocess.run([*cxx, *flags, f"-Wl,-soname,{SETTINGS.name}", source, "-o", new], cwd=ROOT, check=True)
    new.replace(SETTINGS)


def build_toolkit():
    """Puts the command and what programs look for in a toolkit where the wheel takes it from."""
    cargo = [CARGO, "xtask", "toolkit", TOOLKIT, cargo_build("ferry")]
    subprocess.run(cargo, cwd=ROOT, env=without_flags(), check=True)


def without_flags():
    """The environment for what only runs a tool; with flags that are meant for the library it would be built anew."""
    flags = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS")
    return {name: value for name, value in os.environ.items() if name not in flags}


def write_notices():
    """Puts the licences of the packages inside, which most of them ask to be passed on, beside the library."""
    notices = LIBRARY.with_name("THIRD-PARTY-NOTICES")
    cargo = [CARGO, "xtask", "notices", notices, "ferry-capi", "ferry-cli", "ferry-py"]
    subprocess.run(cargo, cwd=ROOT, env=without_flags(), check=True)
