/* How a call of ours ends: by GDR_FAKE, "call:name=ERRNO|hang|crash ...", else as its caller says. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rule(const char *call, const char *name, int else_)
{
    char key[128], *rules = getenv("GDR_FAKE"), *found;
    snprintf(key, sizeof key, "%s:%s=", call, name);
    found = rules ? strstr(rules, key) : NULL;
    if (!found)
        return else_;
    found += strlen(key);
    if (!strncmp(found, "hang", 4))
        for (;;) pause();
    if (!strncmp(found, "crash", 5))
        raise(SIGSEGV);
    return atoi(found);
}
