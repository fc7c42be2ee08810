// Streams shared with other libraries: refused, in words, where nobody else could know a stream.
#include "kit.h"

#include "acl/ferry_ext.h"

// The host backend has no streams that anybody else could know.
static void refused(void)
{
    aclrtStream stream = NULL, adopted = &stream;
    void *native = &stream;
    OK(aclrtCreateStream(&stream));
    CHECK(ferryStreamAdopt(NULL, &adopted), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    THAT(strstr(aclGetRecentErrMsg(), "no other library knows the streams of this backend") != NULL);
    CHECK(ferryStreamNative(stream, &native), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK(ferryStreamNative(NULL, &native), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    THAT(adopted == (aclrtStream)&stream && native == (void *)&stream);
    OK(aclrtDestroyStream(stream));
    CHECK(ferryStreamNative(stream, &native), ACL_ERROR_RT_INVALID_HANDLE);
}

int main(void)
{
    begin();
    refused();
    return finish("ferryStreamAdopt, ferryStreamNative");
}
