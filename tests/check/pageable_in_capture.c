/* CHECK: FERRY-CAPTURE: an asynchronous copy from memory on the stack is put into a captured stream. It
 * would have to wait, and breaks the capture. */
/* SAYS: Let the copy use page-locked memory */
#include "kit.h"

enum { LEN = 256 };

int main(void)
{
    begin();
    char options[LEN] = "options";
    aclmdlRI graph = NULL;
    aclrtStream stream = new_stream();
    unsigned char *host = page_locked(LEN), *device = device_memory(LEN);
    TRY(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED)); /* WORK */
    void *from = PICK((void *)options, (void *)host);
    aclError code = aclrtMemcpyAsync(device, LEN, from, LEN, H2D, stream); /* ACCESS */
    THAT((code == ACL_SUCCESS) == IS_FIXED);
    THAT((aclmdlRICaptureEnd(stream, &graph) == ACL_SUCCESS) == IS_FIXED);
    FIX(TRY(aclmdlRIDestroy(graph));)
    return finish();
}
