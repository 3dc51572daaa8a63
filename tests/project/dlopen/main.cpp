// Opens a library while it runs, as a plugin of another program's is opened: with the room for thread-local
// variables that glibc leaves for such libraries.
#include <cstdio>
#include <dlfcn.h>

int main(int count, char **arguments) {
    for (int i = 1; i < count; ++i)
        if (!dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL)) {
            std::fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
}
