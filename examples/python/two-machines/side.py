"""What the examples of two machines share: device memory behind page-locked memory that Mooncake's engine sends from and receives into, and a line
between the two programs.

Mooncake's TCP transport reads and writes host memory. Device memory goes through memory of acl.rt.malloc_host: a copy that runs asynchronously on one
side of it, the network on the other.
"""

import json
import os
import socket
import sys

import acl

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from check import check  # noqa: E402

HUGE_FIRST = 0
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
HOST, DEVICE = 0, 1  # where memory is

# The longest that one side waits for a word of the other, in seconds.
PATIENCE = 30


ROW = bytes((i * 7 + (i >> 8) * 13 + 1) % 251 for i in range(65521))


def pattern(size, seed):
    """Bytes that differ from place to place and from seed to seed."""
    start = seed * 997 % len(ROW)
    return (ROW * (size // len(ROW) + 2))[start : start + size]


class Side:
    """A device of this machine, a stream, and Mooncake's engine."""

    def __init__(self, host="127.0.0.1"):
        from mooncake.engine import TransferEngine

        check(acl.init())
        check(acl.rt.set_device(0))
        self.stream = check(acl.rt.create_stream())
        self.engine = TransferEngine()
        # P2PHANDSHAKE: the engines exchange what they need by themselves, and no third program is needed.
        if self.engine.initialize(host, "P2PHANDSHAKE", "tcp", "") != 0:
            sys.exit("Mooncake's engine does not start")
        # By this name the other side's engine finds this one.
        self.name = f"{host}:{self.engine.get_rpc_port()}"

    def device_memory(self, size, content=None):
        address = check(acl.rt.malloc(size, HUGE_FIRST))
        if content is not None:
            check(acl.rt.memcpy(address, size, acl.util.bytes_to_ptr(content), size, HOST_TO_DEVICE))
        return address

    def page_locked(self, size):
        """Memory that copies are asynchronous with, and that the engine may send from and receive into."""
        address = check(acl.rt.malloc_host(size))
        if self.engine.register_memory(address, size) != 0:
            sys.exit("Mooncake's engine does not take the memory")
        return address

    def content(self, address, size):
        """The bytes of device memory."""
        content = bytearray(size)
        check(acl.rt.memcpy(acl.util.bytes_to_ptr(content), size, address, size, DEVICE_TO_HOST))
        return bytes(content)


class Line:
    """A connection on which both programs tell each other where memory is and what has arrived: a JSON text in each line."""

    def __init__(self, connection):
        connection.settimeout(PATIENCE)
        self.file = connection.makefile("rw", encoding="utf-8")

    @classmethod
    def listen(cls, port):
        with socket.create_server(("127.0.0.1", port)) as server:
            server.settimeout(PATIENCE)
            print(f"listening on {server.getsockname()[1]}", flush=True)
            return cls(server.accept()[0])

    @classmethod
    def connect(cls, port):
        try:
            return cls(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        except OSError as why:
            sys.exit(f"the other side cannot be reached: {why}")

    def tell(self, **words):
        try:
            self.file.write(json.dumps(words) + "\n")
            self.file.flush()
        except OSError as why:
            sys.exit(f"the other side is gone: {why}")

    def hear(self):
        try:
            line = self.file.readline()
        except OSError as why:
            sys.exit(f"the other side says nothing: {why}")
        if not line:
            sys.exit("the other side is gone: it has closed the line")
        return json.loads(line)


def sent(code, what):
    """Ends the program if the engine could not transfer: the other side has ended, or cannot be reached."""
    if code != 0:
        sys.exit(f"the other side is gone: {what} returned {code}")
