// The headers of the libraries beside libascendcl.so, as programs include them that describe operators,
// models and communicators: in any order, together with the runtime's own. Only their types and numbers are
// used, since the functions are in other libraries.
#include "hccl/hccl.h"

#include "acl/acl_mdl.h"
#include "acl/acl_prof.h"

#include "acl/acl_op_compiler.h"

#include "acl/acl_op.h"

#include "kit.h"

// What a program keeps that prepares an operator and does not run it.
struct prepared {
    aclTensorDesc *desc;
    aclDataBuffer *buffer;
    aclopAttr *attributes;
    aclFormat format;
    aclopEngineType engine;
    aclopCompileType compiled;
    aclmdlDesc *model;
    aclmdlDataset *dataset;
    aclprofConfig *profile;
    HcclComm communicator;
};

int main(void)
{
    struct prepared nothing = {NULL, NULL, NULL, ACL_FORMAT_UNDEFINED, ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL,
                               NULL, NULL, NULL};
    begin();
    THAT(nothing.format == -1 && ACL_FORMAT_ND == 2 && ACL_FORMAT_FRACTAL_NZ == 29 && ACL_FORMAT_NCL == 47);
    THAT(nothing.engine == 0 && nothing.compiled == 0 && ACL_OP_JIT_COMPILE == 10 &&
         ACL_OP_DETERMINISTIC == 11);
    THAT(ACL_AICORE_MEMORY_ACCESS == 8 && ACL_AICORE_NONE == 0xFF);
    THAT(HCCL_SUCCESS == 0 && HCCL_E_AGAIN == 20 && HCCL_DATA_TYPE_BFP16 == 11 && HCCL_REDUCE_MIN == 3);
    THAT(sizeof(HcclRootInfo) == 4108 && sizeof(HcclComm) == sizeof(void *) && sizeof(HcclResult) == 4);
    return finish("companion_headers");
}
