// What the C programs say when something is wrong: where, what was expected, what came, and the library's own
// message.
#ifndef FERRY_TESTS_CHECK_H
#define FERRY_TESTS_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

// The call answers exactly this code.
#define CHECK(call, code) check_code(__FILE__, __LINE__, #call, (int)(call), (int)(code))
// The call succeeds.
#define OK(call) CHECK(call, ACL_SUCCESS)
// The call fails; the documents say that it does and not with which code.
#define REFUSED(call) check_refused(__FILE__, __LINE__, #call, (int)(call))
// Something that must hold.
#define THAT(fact) check_that(__FILE__, __LINE__, #fact, (fact) ? 1 : 0)
// Two pieces of host memory hold the same bytes.
#define SAME(got, want, len) check_same(__FILE__, __LINE__, #got, got, want, len)
// Every byte of a piece of host memory has this value.
#define FILLED(got, byte, len) check_filled(__FILE__, __LINE__, #got, got, byte, len)

static inline void check_give_up(const char *file, int line, const char *what)
{
    const char *message = aclGetRecentErrMsg();
    fprintf(stderr, "%s:%d: %s\n  message: %s\n", file, line, what, message != NULL ? message : "(none)");
    fflush(NULL);
    _Exit(1);
}

static inline void check_code(const char *file, int line, const char *what, int got, int expected)
{
    if (got != expected) {
        fprintf(stderr, "expected %d, got %d from\n", expected, got);
        check_give_up(file, line, what);
    }
}

static inline void check_refused(const char *file, int line, const char *what, int got)
{
    if (got == 0) {
        fprintf(stderr, "expected a failure, got 0 from\n");
        check_give_up(file, line, what);
    }
}

static inline void check_that(const char *file, int line, const char *what, int holds)
{
    if (!holds) {
        fprintf(stderr, "expected to hold\n");
        check_give_up(file, line, what);
    }
}

static inline void check_same(const char *file, int line, const char *what, const void *got, const void *want,
                              size_t len)
{
    const unsigned char *g = (const unsigned char *)got;
    const unsigned char *w = (const unsigned char *)want;
    size_t i;
    for (i = 0; i < len; i++) {
        if (g[i] != w[i]) {
            fprintf(stderr, "expected 0x%02x, got 0x%02x in byte %zu of %zu of\n", w[i], g[i], i, len);
            check_give_up(file, line, what);
        }
    }
}

static inline void check_filled(const char *file, int line, const char *what, const void *got, int byte,
                                size_t len)
{
    const unsigned char *g = (const unsigned char *)got;
    size_t i;
    for (i = 0; i < len; i++) {
        if (g[i] != (unsigned char)byte) {
            fprintf(stderr, "expected 0x%02x, got 0x%02x in byte %zu of %zu of\n", (unsigned char)byte, g[i],
                    i, len);
            check_give_up(file, line, what);
        }
    }
}

#endif
