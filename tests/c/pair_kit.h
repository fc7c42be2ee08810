// What programs of two processes share: the second is the same program, started with a name and two pipe
// ends, and each waits for the other's word.
#ifndef PAIR_KIT_H
#define PAIR_KIT_H

#include "kit.h"

#include <sys/wait.h>

// Pipes between the two: one byte says "go on".
static void say(int to)
{
    THAT(write(to, "x", 1) == 1);
}

static void hear(int from)
{
    char byte;
    THAT(read(from, &byte, 1) == 1);
}

static pid_t start(const char *program, const char *name, int from, int to)
{
    char from_text[16], to_text[16];
    pid_t child;
    snprintf(from_text, sizeof from_text, "%d", from);
    snprintf(to_text, sizeof to_text, "%d", to);
    fflush(NULL);
    child = fork();
    THAT(child >= 0);
    if (child == 0) {
        execl(program, program, name, from_text, to_text, (char *)NULL);
        _exit(127);
    }
    return child;
}

#endif
