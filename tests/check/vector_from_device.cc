/* CHECK: FERRY-DEVICE-POINTER: a std::vector is constructed from two device addresses as if they were
 * iterators over host memory. */
/* EXIT: 139 */
#include <vector>

#include "kit.h"

constexpr size_t COUNT = 300;

int main()
{
    begin();
    const float *device = reinterpret_cast<float *>(device_memory(COUNT * sizeof(float)));
    BUG(std::vector<float> values(device, device + COUNT);) /* ACCESS */
    FIX(std::vector<float> values(COUNT);)
    FIX(TRY(aclrtMemcpy(values.data(), COUNT * sizeof(float), device, COUNT * sizeof(float), D2H));)
    printf("%f\n", static_cast<double>(values.back()));
    return finish();
}
