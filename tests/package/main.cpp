#include <lazuli/export.h>

#include <cstdio>

#if __has_include(<lazuli/detail/graph.h>)
#error "private headers were installed"
#endif

int main() {
    std::puts("consumer: linked with lazuli");
    return 0;
}
