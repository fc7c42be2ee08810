// 03: many copies in one call, with aclrtMemcpyBatchAsync.
//
// Ten pieces go to the device. Six of them come from page-locked memory of the library and four from ordinary
// memory, so there are two attributes: what the memory of the copies is that they cover. attrsIndexes says at
// which copy each attribute begins; it lasts until the next one begins. The copies of a batch run in no
// particular order.
#include "try.h"

enum { PIECES = 10, FIRST = 6, PIECE = 100 };

int main(void)
{
    void *locked = NULL, *device = NULL, *result = NULL;
    static unsigned char ordinary[(PIECES - FIRST) * PIECE];
    void *dsts[PIECES], *srcs[PIECES];
    size_t destMaxs[PIECES], sizes[PIECES], failIndex = 0;
    aclrtMemcpyBatchAttr attrs[2];
    size_t attrsIndexes[2] = {0, FIRST};
    aclrtStream stream = NULL;
    aclError code;
    int i, j;

    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&stream));
    TRY(aclrtMallocHost(&locked, FIRST * PIECE));
    TRY(aclrtMallocHost(&result, PIECES * PIECE));
    TRY(aclrtMalloc(&device, PIECES * PIECE, ACL_MEM_MALLOC_HUGE_FIRST));

    // Piece i is full of the number i, and goes to place i on the device.
    for (i = 0; i < PIECES; i++) {
        unsigned char *from =
            i < FIRST ? (unsigned char *)locked + i * PIECE : ordinary + (i - FIRST) * PIECE;
        memset(from, i, PIECE);
        srcs[i] = from;
        dsts[i] = (unsigned char *)device + i * PIECE;
        sizes[i] = PIECE;
        destMaxs[i] = PIECE;
    }

    // Reserved bytes must be 0, so clear all of it first. The id matters for device memory only.
    memset(attrs, 0, sizeof attrs);
    attrs[0].dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    attrs[0].dstLoc.id = 0;
    attrs[0].srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    attrs[1] = attrs[0];
    attrs[1].srcLoc.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;

    // Some of the memory is ordinary, so this returns when the copies are done; with page-locked memory alone
    // it would only hand them over.
    TRY(aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, PIECES, attrs, attrsIndexes, 2, &failIndex,
                              stream));
    TRY(aclrtMemcpyAsync(result, PIECES * PIECE, device, PIECES * PIECE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    TRY(aclrtSynchronizeStream(stream));
    for (i = 0; i < PIECES; i++) {
        for (j = 0; j < PIECE; j++) {
            if (((unsigned char *)result)[i * PIECE + j] != i) {
                fprintf(stderr, "byte %d of piece %d is wrong\n", j, i);
                return 1;
            }
        }
    }
    printf("%d pieces arrived\n", PIECES);

    // A mistake: piece 7 is said to be host memory and is not. Nothing is copied, and failIndex names it.
    srcs[7] = device;
    code = aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, PIECES, attrs, attrsIndexes, 2, &failIndex,
                                 stream);
    printf("with a mistake in piece 7: returned %d, failIndex %zu\n", code, failIndex);
    if (code == ACL_SUCCESS || failIndex != 7) {
        return 1;
    }

    TRY(aclrtFreeHost(locked));
    TRY(aclrtFreeHost(result));
    TRY(aclrtFree(device));
    TRY(aclrtDestroyStream(stream));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
    printf("ok: one call, %d copies\n", PIECES);
    return 0;
}
