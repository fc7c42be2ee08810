// What every example does with an aclError: go on, or say what failed and why, and end.
#ifndef EXAMPLES_TRY_H
#define EXAMPLES_TRY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define TRY(call)                                                                               \
    do {                                                                                        \
        aclError code_ = (call);                                                                \
        if (code_ != ACL_SUCCESS) {                                                             \
            const char *why_ = aclGetRecentErrMsg();                                            \
            fprintf(stderr, "%s returned %d\n%s\n", #call, code_, why_ != NULL ? why_ : "");    \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

#endif
