"""A KV cache in Mooncake's store: blocks of a device are put under keys, and another machine gets them onto its device.

    mooncake_master --rpc_port 5600      on any machine: it knows which key is where
    python kv_store.py put 5600          on one machine: offers memory to the store, puts blocks, and stays until its input ends
    python kv_store.py get 5600          on another one

put_from and get_into work on our page-locked memory: the store reads and writes it without a copy in between.
"""

import socket
import sys

import acl
from mooncake.store import MooncakeDistributedStore
from side import DEVICE_TO_HOST, HOST_TO_DEVICE, HUGE_FIRST, PATIENCE, check, pattern

BLOCK, BLOCKS = 256 << 10, 16
# What each client offers to the store, and what it has for itself.
OFFERED, OWN = 64 << 20, 16 << 20


class Client:
    """A device, page-locked memory, and a client of the store."""

    def __init__(self, port, offered):
        check(acl.init())
        check(acl.rt.set_device(0))
        self.stream = check(acl.rt.create_stream())
        self.device = check(acl.rt.malloc(BLOCKS * BLOCK, HUGE_FIRST))
        self.staging = check(acl.rt.malloc_host(BLOCKS * BLOCK))
        # A client tries for minutes to reach a master that is not there.
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        except OSError as why:
            sys.exit(f"the store cannot be reached: {why}")
        self.store = MooncakeDistributedStore()
        code = self.store.setup("127.0.0.1", "P2PHANDSHAKE", offered, OWN, "tcp", "", f"127.0.0.1:{port}")
        if code != 0:
            sys.exit(f"the store cannot be reached: setup returned {code}")
        if self.store.register_buffer(self.staging, BLOCKS * BLOCK) != 0:
            sys.exit("the store does not take the memory")

    def copy(self, kind):
        dst, src = (self.device, self.staging) if kind == HOST_TO_DEVICE else (self.staging, self.device)
        check(acl.rt.memcpy_async(dst, BLOCKS * BLOCK, src, BLOCKS * BLOCK, kind, self.stream))
        check(acl.rt.synchronize_stream(self.stream))


def key(block):
    return f"layer0/block{block}"


def put(port):
    client = Client(port, OFFERED)
    content = b"".join(pattern(BLOCK, seed=i) for i in range(BLOCKS))
    check(acl.rt.memcpy(client.device, BLOCKS * BLOCK, acl.util.bytes_to_ptr(content), BLOCKS * BLOCK, HOST_TO_DEVICE))
    client.copy(DEVICE_TO_HOST)
    for block in range(BLOCKS):
        code = client.store.put_from(key(block), client.staging + block * BLOCK, BLOCK)
        if code != 0:
            sys.exit(f"{key(block)}: put_from returned {code}")
    print(f"ok: {BLOCKS} blocks put", flush=True)
    # The blocks lie in the memory that this process offers.
    sys.stdin.read()
    client.store.close()


def get(port):
    client = Client(port, 0)
    for block in range(BLOCKS):
        got = client.store.get_into(key(block), client.staging + block * BLOCK, BLOCK)
        if got != BLOCK:
            sys.exit(f"{key(block)} cannot be had: get_into returned {got}")
    client.copy(HOST_TO_DEVICE)
    back = bytearray(BLOCKS * BLOCK)
    check(acl.rt.memcpy(acl.util.bytes_to_ptr(back), len(back), client.device, len(back), DEVICE_TO_HOST))
    assert bytes(back) == b"".join(pattern(BLOCK, seed=i) for i in range(BLOCKS)), "the blocks are wrong"
    client.store.close()
    print(f"ok: {BLOCKS} blocks of {BLOCK} bytes on the device, every byte compared")


if __name__ == "__main__":
    {"put": put, "get": get}[sys.argv[1]](int(sys.argv[2]))
