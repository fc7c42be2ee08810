/* CHECK: FERRY-HOST-READ: a record has a name between two parts that are being downloaded. The C library's
 * string functions load more than the name, and look at no more; the text behind it is still on its way. */
/* NEEDS: userfaultfd */
#include "kit.h"

enum { PAGE = 4096, NAME = PAGE - 6, NAME_LEN = 8, TEXT = NAME + NAME_LEN, LEN = 3 * PAGE };

int main(void)
{
    begin();
    aclrtStream stream = new_stream();
    unsigned char *record = page_locked(LEN), *device = device_memory(LEN);
    char copy[NAME_LEN];
    memcpy(record + NAME, "kv-0007", NAME_LEN);
    TRY(aclrtMemcpyAsync(record, NAME, device, NAME, D2H, stream));
    TRY(aclrtMemcpyAsync(record + TEXT, LEN - TEXT, device + TEXT, LEN - TEXT, D2H, stream)); /* WORK */
    THAT(strlen((char *)record + NAME) == NAME_LEN - 1);
    THAT(strcmp(strcpy(copy, (char *)record + NAME), "kv-0007") == 0);
    THAT(strspn((char *)record + NAME, "kv-") == 3 && strchr((char *)record + NAME, '?') == NULL);
    FIX(TRY(aclrtSynchronizeStream(stream));)
    THAT(strnlen((char *)record + TEXT, 100) <= 100); /* ACCESS */
    TRY(aclrtSynchronizeStream(stream));
    return finish();
}
