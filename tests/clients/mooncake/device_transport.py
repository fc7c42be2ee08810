"""The published wheel mooncake-transfer-engine-npu, started by `ferry run`: it imports, and its device transport says that no card is behind it.
`cargo xtask test --only mooncake` runs it; the last line begins with `ok:`.
"""

import subprocess
import sys

PROGRAM = """
import acl
from mooncake.engine import TransferEngine
assert acl.init() == 0 and acl.rt.set_device(0) == 0
print("initialize returned", TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "ascend", ""))
"""


def main():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert "initialize returned -1" in done.stdout, done.stdout + done.stderr
    assert "the device transport has no card behind it: use Mooncake's protocol tcp" in done.stderr, done.stderr
    print("ok: it imports, and says that there is no card")


if __name__ == "__main__":
    main()
