# CHECK: FERRY-STREAM-RACE: a prefetch stream fills two device buffers in turn, and the main stream uses
# them. The prefetch of a buffer does not wait until the main stream is through with its previous content.
import acl
from kit import D2D, FIXED, H2D, begin, device_memory, event, finish, ok, page_locked, stream

STEPS, SIZE = 4, 4096

begin()
prefetch, main = stream(), stream()
hosts = [page_locked(SIZE) for _ in range(STEPS)]
buffers = [device_memory(SIZE) for _ in range(2)]
state = device_memory(SIZE)
filled, used = [event(), event()], [event(), event()]
for step in range(STEPS):
    slot = step % 2
    if FIXED and step >= 2:
        ok(acl.rt.stream_wait_event(prefetch, used[slot]))
    ok(acl.rt.memcpy_async(buffers[slot], SIZE, hosts[step], SIZE, H2D, prefetch))  # ACCESS
    ok(acl.rt.record_event(filled[slot], prefetch))
    ok(acl.rt.stream_wait_event(main, filled[slot]))
    ok(acl.rt.memcpy_async(state, SIZE, buffers[slot], SIZE, D2D, main))  # WORK
    ok(acl.rt.record_event(used[slot], main))
finish()
