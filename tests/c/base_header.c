// What acl/acl_base.h gives alone: codes, types of elements, and streams and events to hold, as programs do
// that split their headers. The other headers may follow.

#include "acl/acl_base.h"

typedef struct {
    aclrtStream stream;
    aclrtEvent event;
    aclDataType type;
    aclError code;
} Job;

static aclrtStream stream_of(const Job *job)
{
    return job->stream;
}

#include "acl/acl_rt.h"

#include "kit.h"

int main(void)
{
    Job job = {NULL, NULL, ACL_FLOAT, ACL_SUCCESS};
    begin();
    job.code = aclrtSynchronizeDevice();
    OK(job.code);
    OK(aclrtCreateStream(&job.stream));
    OK(aclrtCreateEvent(&job.event));
    OK(aclrtRecordEvent(job.event, stream_of(&job)));
    OK(aclrtSynchronizeEvent(job.event));
    THAT(aclDataTypeSize(job.type) == 4);
    OK(aclrtDestroyEvent(job.event));
    OK(aclrtDestroyStream(job.stream));
    return finish("base_header");
}
