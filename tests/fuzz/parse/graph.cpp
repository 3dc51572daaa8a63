// libFuzzer: the parser of Graph IR takes any bytes. What it accepts is a verified graph that prints and
// reads back.
#include "ir/diagnostic.h"
#include "ir/graph/verify.h"
#include "ir/text/text.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    using namespace lz::ir;
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    Graph graph;
    try {
        graph = parse_graph(text);
    } catch (const Failure &failure) {
        if (failure.kind() != ErrorKind::Parse)
            std::abort();
        return 0;
    }
    verify(graph);
    if (!equal(graph, parse_graph(print(graph))))
        std::abort();
    to_dot(graph);
    return 0;
}
