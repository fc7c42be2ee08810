// Every name under which the library is installed leads to one engine, and it stays after the last dlclose.
// The argument is the prefix.
#include <dlfcn.h>
#include <stdio.h>
#include "acl/acl.h"

int main(int argc, char **argv)
{
    static const char *const names[] = {"lib/libascendcl.so", "lib/libacl_rt.so", "lib64/libascendcl.so",
                                        "lib64/libacl_rt.so"};
    char path[4096];
    void *first = NULL;
    size_t i;

    if (argc != 2 || aclInit(NULL) != ACL_SUCCESS) {
        return 1;
    }
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library, *found;
        snprintf(path, sizeof path, "%s/%s", argv[1], names[i]);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            printf("%s\n", dlerror());
            return 1;
        }
        found = dlsym(library, "aclrtMalloc");
        if (found == NULL || (first != NULL && found != first)) {
            printf("%s is an engine of its own\n", path);
            return 1;
        }
        first = found;
        dlclose(library);
    }
    // The program is linked with one of the names; the loader must know it as the same library.
    if (dlsym(RTLD_DEFAULT, "aclrtMalloc") != first) {
        printf("the program has an engine of its own\n");
        return 1;
    }
    if (aclFinalize() != ACL_SUCCESS) {
        return 1;
    }
    printf("ok: %zu names, one engine\n", i);
    return 0;
}
