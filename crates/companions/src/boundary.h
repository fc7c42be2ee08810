/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the functions of companion libraries are made of: arguments are looked at before they are read, and
 * failures go to libascendcl.so, which keeps the code and the message of the calling thread.
 */
#ifndef FERRY_BOUNDARY_H
#define FERRY_BOUNDARY_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl_rt.h"

/* In libascendcl.so, for its companions; described in crates/capi/src/private.rs. */
extern aclError ferryRefuse(const char *function, const char *note, int32_t code);
extern aclError ferryOperatorFailed(const char *function, const char *note, int32_t code, aclrtStream stream);
extern aclError ferryHostRange(const void *ptr, size_t len, int32_t write, char *note, size_t room);

/* Libraries show the functions that are documented for them, and nothing else. */
#define EXPORTED __attribute__((visibility("default")))

/* Refuses a call of `function`. */
__attribute__((format(printf, 3, 4))) static inline aclError refuse(const char *function, aclError code,
                                                                    const char *format, ...)
{
    char note[512];
    va_list args;
    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
    return ferryRefuse(function, note, code);
}

/* Makes sure that `count` elements can be read, or also written. */
static inline aclError reach(const char *function, const char *name, const void *at, size_t count,
                             size_t size, int write)
{
    char why[256] = "";
    size_t len;
    if (at == NULL) {
        return refuse(function, ACL_ERROR_INVALID_PARAM, "%s is NULL", name);
    }
    if (__builtin_mul_overflow(count, size, &len)) {
        return refuse(function, ACL_ERROR_INVALID_PARAM, "%s: %zu elements overflow", name, count);
    }
    if (ferryHostRange(at, len, write, why, sizeof why) != ACL_SUCCESS) {
        return refuse(function, ACL_ERROR_INVALID_PARAM, "%s of %zu bytes: %s", name, len, why);
    }
    return ACL_SUCCESS;
}

/* Makes sure that an array of a C count can be read; one of none may be NULL. */
static inline aclError reach_list(const char *function, const char *name, const void *at, int count,
                                  size_t size)
{
    if (count < 0) {
        return refuse(function, ACL_ERROR_INVALID_PARAM, "%d elements of %s", count, name);
    }
    return count == 0 ? ACL_SUCCESS : reach(function, name, at, (size_t)count, size, 0);
}

/* Makes sure that a C string can be read, and copies as much of it as fits `room`; 0 of it may be wanted. */
static inline aclError read_text(const char *function, const char *name, const char *at, char *to,
                                 size_t room)
{
    enum { STEP = 64 }; /* divides the size of a page: no step crosses into the next one */
    size_t done = 0;
    if (room > 0) {
        to[0] = '\0';
    }
    for (;;) {
        size_t len = STEP - (uintptr_t)(at + done) % STEP, i;
        aclError code = reach(function, name, at == NULL ? NULL : at + done, len, 1, 0);
        if (code != ACL_SUCCESS) {
            return code;
        }
        for (i = 0; i < len; i++, done++) {
            if (done + 1 < room) {
                to[done] = at[done];
                to[done + 1] = '\0';
            }
            if (at[done] == '\0') {
                return ACL_SUCCESS;
            }
        }
    }
}

/* Writes 0 or NULL to an output of a function that is refused, if it can be written. */
static inline void clear(void *out, size_t size)
{
    char why[8];
    if (out != NULL && ferryHostRange(out, size, 1, why, sizeof why) == ACL_SUCCESS) {
        memset(out, 0, size);
    }
}

#endif
