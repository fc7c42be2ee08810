/* The body of aclAppLog. Only C can walk through variable arguments here; what they make is handed to
 * Rust. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* In app_log.rs: whether anybody wants the line, and the line. */
extern int ferry_app_log_wanted(int level, const char *fmt);
extern void ferry_app_log_line(int level, const char *func, const char *file, uint32_t line,
                               const char *text);

/* Jumped to by aclAppLog in app_log.rs. */
__attribute__((visibility("hidden"))) void ferry_app_log(int level, const char *func, const char *file,
                                                         uint32_t line, const char *fmt, ...)
{
    /* Longer lines are cut: a log that keeps files of 20 MB has no room for them. */
    enum { MOST = 16 * 1024 };
    char small[1024], *text = small;
    va_list args;
    int len;
    if (!ferry_app_log_wanted(level, fmt)) {
        return;
    }
    va_start(args, fmt);
    len = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (len < 0) {
        return;
    }
    if (len >= MOST) {
        len = MOST - 1;
    }
    if ((size_t)len >= sizeof small) {
        char *large = malloc((size_t)len + 1);
        if (large != NULL) {
            text = large;
            va_start(args, fmt);
            vsnprintf(large, (size_t)len + 1, fmt, args);
            va_end(args);
        }
    }
    ferry_app_log_line(level, func, file, line, text);
    if (text != small) {
        free(text);
    }
}
