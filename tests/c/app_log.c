// aclAppLog takes arguments of every kind, as printf does, and writes them to the log with the place they
// came from; what is longer than any buffer arrives whole, up to 16 KiB, and a line that nobody wants is not
// even put together.
#include "kit.h"

#include <dirent.h>

static char folder[] = "/tmp/ferry-log-XXXXXX";

// Everything that was logged.
static char *logged(void)
{
    static char text[1 << 20];
    char path[512], start[64];
    struct dirent *entry;
    DIR *files;
    FILE *file = NULL;
    size_t len;
    snprintf(path, sizeof path, "%s/debug/plog", folder);
    snprintf(start, sizeof start, "plog-%d_", (int)getpid());
    files = opendir(path);
    THAT(files != NULL);
    while ((entry = readdir(files)) != NULL) {
        if (strncmp(entry->d_name, start, strlen(start)) == 0) {
            THAT(file == NULL);
            snprintf(path, sizeof path, "%s/debug/plog/%s", folder, entry->d_name);
            file = fopen(path, "r");
            THAT(file != NULL);
            unlink(path);
        }
    }
    closedir(files);
    THAT(file != NULL);
    len = fread(text, 1, sizeof text - 1, file);
    text[len] = 0;
    fclose(file);
    return text;
}

static void holds(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) {
        fprintf(stderr, "expected \"%s\" in the log, got\n%s\n", words, text);
        exit(1);
    }
}

static void *in_a_thread(void *arg)
{
    ACL_APP_LOG(ACL_INFO, "thread %d of %s", *(int *)arg, "several");
    return NULL;
}

int main(void)
{
    char *text, place[64], path[512];
    char large[5001];
    int line, number = 3, untouched = 7;
    THAT(mkdtemp(folder) != NULL);
    setenv("ASCEND_PROCESS_LOG_PATH", folder, 1);
    setenv("ASCEND_GLOBAL_LOG_LEVEL", "1", 1);

    // More arguments than registers, whole and broken numbers mixed.
    ACL_APP_LOG(ACL_INFO, "%d %s %.2f %ld %c %zu %g %llx %u %.1f %d %s", 1, "two", 3.25, 4L, '5', (size_t)6,
                7.5, 8ULL, 9u, 10.0, 11, "twelve");
    ACL_APP_LOG(ACL_WARNING, "%.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f", 0.1, 1.1, 2.1, 3.1, 4.1,
                5.1, 6.1, 7.1, 8.1, 9.1);
    line = __LINE__ + 1;
    ACL_APP_LOG(ACL_ERROR, "plain");
    ACL_APP_LOG(ACL_DEBUG, "nobody wants this: %n", &untouched);
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    ACL_APP_LOG(ACL_INFO, "<%s>", large);
    ACL_APP_LOG(ACL_INFO, "y%.*d", 1000000, 0);
    in_thread(in_a_thread, &number);
    THAT(aclGetRecentErrMsg() == NULL);
    aclAppLog(ACL_INFO, "f", "file.c", 1, NULL);
    THAT(aclGetRecentErrMsg() != NULL);

    text = logged();
    holds(text, " main: 1 two 3.25 4 5 6 7.5 8 9 10.0 11 twelve\n");
    snprintf(place, sizeof place, "app_log.c:%d]", line);
    holds(text, place);
    holds(text, " main: 0.1 1.1 2.1 3.1 4.1 5.1 6.1 7.1 8.1 9.1\n");
    holds(text, "[WARNING] APP(");
    holds(text, "[ERROR] APP(");
    holds(text, " main: plain\n");
    holds(text, " in_a_thread: thread 3 of several\n");
    THAT(strstr(text, "nobody") == NULL && untouched == 7);
    THAT(strstr(text, "<x") != NULL && strspn(strstr(text, "<x") + 1, "x") == sizeof large - 1);
    THAT(strstr(text, "main: y0") != NULL && strcspn(strstr(text, "main: y0") + 6, "\n") == 16 * 1024 - 1);

    snprintf(path, sizeof path, "%s/debug/plog", folder);
    THAT(rmdir(path) == 0);
    snprintf(path, sizeof path, "%s/debug", folder);
    THAT(rmdir(path) == 0 && rmdir(folder) == 0);
    printf("ok: the program's own log\n");
    return 0;
}
