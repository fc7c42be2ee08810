/* CHECK: FERRY-HOST-READ: std::copy takes a result before the stream is synchronised. With optimisation it is
 * inlined, and the access itself stands in a header. */
/* FLAGS: -O2 -Wno-dangling-pointer */
/* NEEDS: userfaultfd */
#include <algorithm>
#include <vector>

#include "kit.h"

constexpr size_t COUNT = 300, LEN = COUNT * sizeof(double);

int main()
{
    begin();
    aclrtStream stream = new_stream();
    double *result = reinterpret_cast<double *>(page_locked(LEN));
    unsigned char *device = device_memory(LEN);
    std::vector<float> values(COUNT);
    TRY(aclrtMemcpyAsync(result, LEN, device, LEN, D2H, stream)); /* WORK */
    FIX(TRY(aclrtSynchronizeStream(stream));)
    std::copy(result, result + COUNT, values.begin()); /* ACCESS */
    printf("%f\n", static_cast<double>(values.back()));
    return finish();
}
