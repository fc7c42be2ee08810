/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libmetadef.so: the graph engine's strings. Mooncake's wheel for Ascend is linked with it.
 *
 * An AscendString is 16 bytes, the second word of which is a counted reference that the client's own code
 * releases. All zero is a string without text. The only function that takes strings here,
 * adxl::AdxlEngine::Initialize, refuses before it reads them.
 */
#include "boundary.h"

/* ge::AscendString(const char *) */
EXPORTED void _ZN2ge12AscendStringC1EPKc(void *string, const char *text)
{
    (void)text;
    memset(string, 0, 16);
}

/* ge::AscendString::operator<(const AscendString &) const: strings without text are equal. */
EXPORTED _Bool _ZNK2ge12AscendStringltERKS0_(const void *string, const void *other)
{
    (void)string, (void)other;
    return 0;
}
