"""Random programs of copies of every kind, on several streams, against a mirror in NumPy."""

import random

import numpy
import pytest

import acl
from kit import D2D, D2H, DEFAULT, H2D, INNER, Gate, Memory, ok

SIZE = 8192
STEPS = 400
HOMES = ("device", "device", "device", "pinned", "pinned", "plain")


class Buffer:
    """Memory, and what must be in it."""

    def __init__(self, home, rng):
        content = bytes(rng.randrange(256) for _ in range(SIZE))
        self.memory, self.home = Memory(home, SIZE, content), home
        self.mirror = numpy.frombuffer(bytearray(content), numpy.uint8)

    @property
    def addr(self):
        return self.memory.addr


class Program:
    """One step after the other, on streams and in the mirror; tells what it did.

    Streams are unordered: a step that touches what another stream's step touched is put behind that by an event, and one of the
    host's own waits. Now and then a stream is held, so that work piles up behind it, until somebody has to wait.
    """

    def __init__(self, seed, say=print):
        self.rng, self.say = random.Random(seed), say
        self.streams = [0] + [ok(acl.rt.create_stream()) for _ in range(3)]
        self.buffers = [Buffer(home, self.rng) for home in HOMES]
        self.busy, self.events, self.gates = {}, [], []
        self.steps = [
            self.linear,
            self.linear,
            self.condition,
            self.matrix,
            self.batch,
            self.descriptor,
            self.fill,
            self.now,
            self.matrix_now,
            self.look,
            self.hold,
            self.hold,
        ]
        self.desc, self.desc_size = [], ok(acl.rt.get_memcpy_desc_size(INNER))

    def run(self, count=STEPS):
        for number in range(count):
            step = self.rng.choice(self.steps)
            self.say(f"step {number}: {step.__name__}", end="")
            step()
            self.say()
        for buffer in self.buffers:
            self.check(buffer)

    def close(self):
        self.let_go()
        ok(acl.rt.synchronize_device())
        for event in self.events:
            ok(acl.rt.destroy_event(event))
        for stream in self.streams[1:]:
            ok(acl.rt.destroy_stream(stream))

    def hold(self):
        stream = self.rng.choice(self.streams)
        self.say(f" {self.streams.index(stream)}", end="")
        self.gates.append(Gate(stream))

    def let_go(self):
        for gate in self.gates:
            with gate:
                gate.open()
        self.gates = []

    def check(self, buffer):
        self.quiet(buffer)
        found = numpy.frombuffer(buffer.memory.read(), numpy.uint8)
        differ = numpy.flatnonzero(found != buffer.mirror)
        index = self.buffers.index(buffer)
        assert not differ.size, f"buffer {index} ({buffer.home}) differs at {differ[:8]}, {differ.size} bytes in all"

    def quiet(self, *buffers):
        """Has the host wait for what still works on buffers."""
        for buffer in buffers:
            if buffer in self.busy:
                self.let_go()
                stream = self.busy.pop(buffer)
                ok(acl.rt.synchronize_stream(stream))
                self.busy = {other: on for other, on in self.busy.items() if on != stream}

    def on(self, *buffers):
        """A stream for a step, behind everything that works on its buffers."""
        stream = self.rng.choice(self.streams)
        if any(buffer.home == "plain" for buffer in buffers):
            # The call waits.
            self.let_go()
        for buffer in buffers:
            before = self.busy.get(buffer, stream)
            if before != stream:
                self.events.append(ok(acl.rt.create_event_with_flag(1)))
                ok(acl.rt.record_event(self.events[-1], before))
                ok(acl.rt.stream_wait_event(stream, self.events[-1]))
            self.busy[buffer] = stream
        self.say(f" on {self.streams.index(stream)}", end="")
        return stream

    def pair(self, unlike=False):
        """Two different buffers that an asynchronous copy may go between."""
        while True:
            to, source = self.rng.sample(self.buffers, 2)
            ends = {to.home == "device", source.home == "device"}
            if True in ends and (not unlike or len(ends) == 2):
                self.say(f" {self.buffers.index(source)} -> {self.buffers.index(to)}", end="")
                return to, source

    def kind(self, to, source):
        if to.home != "device":
            return D2H
        return D2D if source.home == "device" else H2D

    def range(self, alignment=1):
        """Where in the destination, where in the source, and how many bytes."""
        size = self.rng.choice((0, 1, 64, self.rng.randrange(1, 300), self.rng.randrange(1, SIZE)))
        places = [self.rng.randrange((SIZE - size) // alignment + 1) * alignment for _ in range(2)]
        self.say(f" {places[1]} -> {places[0]}, {size} bytes", end="")
        return (*places, size)

    def move(self, to, at, source, start, size):
        to.mirror[at : at + size] = source.mirror[start : start + size]

    def linear(self):
        to, source = self.pair()
        at, start, size = self.range()
        kind = self.rng.choice((self.kind(to, source), DEFAULT))
        ok(acl.rt.memcpy_async(to.addr + at, SIZE - at, source.addr + start, size, kind, self.on(to, source)))
        self.move(to, at, source, start, size)

    def condition(self):
        to, source = self.pair()
        at, start, size = self.range(64)
        kind, stream = self.rng.choice((self.kind(to, source), DEFAULT)), self.on(to, source)
        ok(acl.rt.memcpy_async_with_condition(to.addr + at, SIZE - at, source.addr + start, size, kind, stream))
        self.move(to, at, source, start, size)

    def rectangle(self):
        """Places and pitches in destination and source, width and height."""
        width, height = self.rng.randrange(100), self.rng.randrange(20)
        pitches = [width + self.rng.randrange(100) for _ in range(2)]
        places = [self.rng.randrange(SIZE - height * pitch + 1) for pitch in pitches]
        self.say(f" {height} rows of {width}, {places} {pitches}", end="")
        return places, pitches, width, height

    def rows(self, to, source, rectangle):
        places, pitches, width, height = rectangle
        for row in range(height):
            self.move(to, places[0] + row * pitches[0], source, places[1] + row * pitches[1], width)

    def matrix(self):
        to, source = self.pair()
        places, pitches, width, height = rectangle = self.rectangle()
        ends = to.addr + places[0], pitches[0], source.addr + places[1], pitches[1]
        ok(acl.rt.memcpy2d_async(*ends, width, height, self.kind(to, source), self.on(to, source)))
        self.rows(to, source, rectangle)

    def matrix_now(self):
        to, source = self.pair(unlike=True)
        places, pitches, width, height = rectangle = self.rectangle()
        self.quiet(to, source)
        ends = to.addr + places[0], pitches[0], source.addr + places[1], pitches[1]
        ok(acl.rt.memcpy2d(*ends, width, height, self.kind(to, source)))
        self.rows(to, source, rectangle)

    def batch(self):
        to, source = self.pair(unlike=True)
        count = self.rng.randrange(1, 40)
        # The pieces of a batch have no order: no two have the same destination.
        slots = self.rng.sample(range(SIZE // 128), count)
        pieces = [(slot * 128, self.rng.randrange(SIZE - 128), self.rng.randrange(129)) for slot in slots]
        self.say(f" {pieces}", end="")
        dsts, srcs, sizes = (numpy.array(column, numpy.uint64) for column in zip(*pieces))
        dsts, srcs = dsts + numpy.uint64(to.addr), srcs + numpy.uint64(source.addr)
        if self.rng.random() < 0.5:
            dsts, srcs, sizes = dsts.tolist(), srcs.tolist(), sizes.tolist()
        there, host = {"id": 0, "type": 1}, {"id": 0, "type": 0}
        attr = {"dstLoc": there, "srcLoc": host} if to.home == "device" else {"dstLoc": host, "srcLoc": there}
        stream = self.on(to, source)
        ok(acl.rt.memcpy_batch_async(dsts, sizes, srcs, sizes, count, [attr], [0], 1, stream))
        for at, start, size in pieces:
            self.move(to, at, source, start, size)

    def descriptor(self):
        to, source = self.rng.sample([buffer for buffer in self.buffers if buffer.home == "device"], 2)
        at, start, size = self.range()
        stream = self.on(to, source)
        # It is read when the stream gets there: no other step may set it again before.
        self.desc.append(Memory("device", self.desc_size))
        ok(acl.rt.set_memcpy_desc(self.desc[-1].addr, INNER, source.addr + start, to.addr + at, size, 0))
        ok(acl.rt.memcpy_async_with_desc(self.desc[-1].addr, INNER, stream))
        self.move(to, at, source, start, size)

    def fill(self):
        to = self.rng.choice(self.buffers)
        at, _, size = self.range()
        value = self.rng.randrange(256)
        if self.rng.random() < 0.5:
            ok(acl.rt.memset_async(to.addr + at, SIZE - at, value, size, self.on(to)))
        else:
            self.quiet(to)
            ok(acl.rt.memset(to.addr + at, SIZE - at, value, size))
        to.mirror[at : at + size] = value

    def now(self):
        """A synchronous copy, which also goes inside the host, and inside one buffer."""
        to, source = self.rng.choices(self.buffers, k=2)
        at, start, size = self.range()
        self.quiet(to, source)
        ok(acl.rt.memcpy(to.addr + at, SIZE - at, source.addr + start, size, self.rng.randrange(5)))
        to.mirror[at : at + size] = source.mirror[start : start + size].copy()

    def look(self):
        self.check(self.rng.choice(self.buffers))


@pytest.mark.parametrize("seed", [*range(8), None], ids=lambda seed: "new" if seed is None else str(seed))
def test_random_copies_leave_what_numpy_says(device, seed):
    """The last one differs from run to run; its seed is in the name of the failure."""
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    said = []
    program = Program(seed, lambda text="", end="\n": said.append(text + end))
    try:
        program.run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\n{''.join(said[-60:])}") from error
    finally:
        program.close()
