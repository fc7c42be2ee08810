# CHECK: FERRY-HOST-READ: results are read one step late through NumPy views, so that the device always
# has work. The view that is read is that of the step just launched, whose event nobody has waited for.
# NEEDS: userfaultfd
import acl
from kit import D2H, FIXED, INT32, begin, device_memory, event, finish, ok, page_locked, stream

STEPS, COUNT = 4, 256
SIZE = COUNT * 4

begin()
steps = stream()
device = device_memory(SIZE)
hosts = [page_locked(SIZE) for _ in range(2)]
views = [acl.util.ptr_to_numpy(host, (COUNT,), INT32) for host in hosts]
done = [event() for _ in range(2)]
total = 0
for step in range(STEPS):
    slot = step % 2
    ok(acl.rt.memcpy_async(hosts[slot], SIZE, device, SIZE, D2H, steps))  # WORK
    ok(acl.rt.record_event(done[slot], steps))
    if step > 0:
        ok(acl.rt.synchronize_event(done[1 - slot]))
        total += int(views[1 - slot if FIXED else slot].sum())  # ACCESS
print(total)
finish()
