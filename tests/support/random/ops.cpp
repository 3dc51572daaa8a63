// Sets of operations that generators choose from.
#include "tests/support/random/graph.h"

namespace lz::test {

using namespace ir;

OpSet no_ops() {
    return {};
}

OpSet ops_of(OpFamily family) {
    OpSet set;
    for (int op = 0; op < num_ops(); ++op)
        set[static_cast<size_t>(op)] = info(static_cast<Op>(op)).family == family;
    return set;
}

OpSet ops_of(std::initializer_list<Op> ops) {
    OpSet set;
    for (const Op op : ops)
        set.set(static_cast<size_t>(op));
    return set;
}

OpSet runnable_ops() {
    OpSet set;
    for (int op = 0; op < num_ops(); ++op)
        set.set(static_cast<size_t>(op));
    return set & ~ops_of(OpFamily::Call) & ~ops_of(OpFamily::Effect);
}

} // namespace lz::test
