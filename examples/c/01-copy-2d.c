// 01: copy a rectangle out of a picture to the device and back, with aclrtMemcpy2dAsync.
//
// A picture in memory is rows of bytes. The distance from the start of one row to the start of the next is
// its pitch. To copy a part of a picture one says where its first byte is, how wide and how high it is, and
// both pitches; the bytes between the end of one row and the start of the next are left alone.
#include "try.h"

enum { PICTURE_WIDTH = 16, PICTURE_HEIGHT = 8 };        // the picture, one byte per pixel
enum { LEFT = 4, TOP = 2, WIDTH = 8, HEIGHT = 4 };      // the part of it that we want
enum { DEVICE_PITCH = 64 };                             // rows on the device start at multiples of 64

static void show(const char *title, const char *picture)
{
    int row;
    printf("%s\n", title);
    for (row = 0; row < PICTURE_HEIGHT; row++) {
        printf("  %.*s\n", PICTURE_WIDTH, picture + row * PICTURE_WIDTH);
    }
}

int main(void)
{
    void *picture = NULL, *result = NULL, *device = NULL;
    char *from, *to;
    aclrtStream stream = NULL;
    int row, column;

    // Start the library and choose a device; everything after this belongs to that device.
    TRY(aclInit(NULL));
    TRY(aclrtSetDevice(0));
    TRY(aclrtCreateStream(&stream));

    // Page-locked host memory: with it the copies below only hand over work and return at once. With memory
    // from malloc they would work as well, but each call would return only when its copy is done.
    TRY(aclrtMallocHost(&picture, PICTURE_WIDTH * PICTURE_HEIGHT));
    TRY(aclrtMallocHost(&result, PICTURE_WIDTH * PICTURE_HEIGHT));
    // Device memory: a pointer to give to acl functions. The program itself cannot read or write through it.
    TRY(aclrtMalloc(&device, DEVICE_PITCH * HEIGHT, ACL_MEM_MALLOC_HUGE_FIRST));

    from = (char *)picture, to = (char *)result;
    for (row = 0; row < PICTURE_HEIGHT; row++) {
        for (column = 0; column < PICTURE_WIDTH; column++) {
            from[row * PICTURE_WIDTH + column] = (char)('a' + (row + column) % 26);
        }
    }
    memset(to, '.', PICTURE_WIDTH * PICTURE_HEIGHT);
    show("the picture:", from);

    // To the device: HEIGHT rows of WIDTH bytes, PICTURE_WIDTH apart here and DEVICE_PITCH apart there.
    TRY(aclrtMemcpy2dAsync(device, DEVICE_PITCH, from + TOP * PICTURE_WIDTH + LEFT, PICTURE_WIDTH, WIDTH,
                           HEIGHT, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    // And back, into the middle of a picture of dots. A stream runs its tasks in order, so this one sees what
    // the first wrote.
    TRY(aclrtMemcpy2dAsync(to + TOP * PICTURE_WIDTH + LEFT, PICTURE_WIDTH, device, DEVICE_PITCH, WIDTH,
                           HEIGHT, ACL_MEMCPY_DEVICE_TO_HOST, stream));

    // Success so far means: handed over. Only after this line is the result there to look at.
    TRY(aclrtSynchronizeStream(stream));
    show("the part that went to the device and back:", to);

    for (row = 0; row < PICTURE_HEIGHT; row++) {
        for (column = 0; column < PICTURE_WIDTH; column++) {
            int inside = row >= TOP && row < TOP + HEIGHT && column >= LEFT && column < LEFT + WIDTH;
            int at = row * PICTURE_WIDTH + column;
            if (to[at] != (inside ? from[at] : '.')) {
                fprintf(stderr, "row %d, column %d is wrong\n", row, column);
                return 1;
            }
        }
    }

    TRY(aclrtFree(device));
    TRY(aclrtFreeHost(picture));
    TRY(aclrtFreeHost(result));
    TRY(aclrtDestroyStream(stream));
    TRY(aclrtResetDevice(0));
    TRY(aclFinalize());
    printf("ok: %d rows of %d bytes, and not a byte between them\n", HEIGHT, WIDTH);
    return 0;
}
