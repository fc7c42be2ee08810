/* CHECK: FERRY-HOST-WRITE: a whole header is cleared while one field of it is being copied. The store begins
 * before the field. In the fixed twin the store ends where the field begins. */
#include "kit.h"

typedef char sixteen __attribute__((vector_size(16), aligned(1)));

struct header {
    char name[24];
    unsigned length;
    unsigned checksum;
};

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    struct header *header = (struct header *)(void *)page_locked(sizeof *header);
    unsigned char *device = device_memory(sizeof header->length);
    size_t len = sizeof header->length;
    TRY(aclrtMemcpyAsync(device, len, &header->length, len, H2D, stream)); /* WORK */
    *(sixteen *)(header->name + PICK(16, 8)) = (sixteen){0}; /* ACCESS */
    return finish();
}
