#include "passes/devices/copies.h"

#include "ir/diagnostic.h"

#include <limits>
#include <numeric>

namespace lz::passes {

using namespace ir;

Copies::Copies(const Graph &graph, Rewriter &rewriter, const Target &target)
    : g_(graph), rewriter_(rewriter), target_(target), root_(graph.values().size()),
      first_(graph.values().size(), kNone) {
    std::iota(root_.begin(), root_.end(), ValueId{0});
}

void Copies::add(ValueId old, ValueId now) {
    copies_.push_back({now, first_[root_[old]]});
    first_[root_[old]] = static_cast<uint32_t>(copies_.size() - 1);
}

ValueId Copies::on(ValueId old, Device to) const {
    for (uint32_t c = first_[root_[old]]; c != kNone; c = copies_[c].next)
        if (device_of(copies_[c].value) == to)
            return copies_[c].value;
    return kNone;
}

ValueId Copies::for_need(ValueId old, Device to, const TransferNeed &need) const {
    if (!need.named())
        return on(old, to);
    for (uint32_t c = first_[root_[old]]; c != kNone; c = copies_[c].next)
        if (const ValueId v = copies_[c].value; device_of(v) == to && is_on_stream_of(v, need))
            return v;
    return kNone;
}

bool Copies::is_on_stream_of(ValueId copy, const TransferNeed &need) const {
    const Node *made = now().producer(copy);
    if (!made || made->stream != need.node.stream)
        return false;
    const Device from = made->op == Op::Transfer ? device_of(now().operands(*made)[0]) : kCpu;
    return (device_of(copy) == kCpu ? from : device_of(copy)) == *need.owner;
}

double Copies::seconds(ValueId copy, Device to, ValueId old) const {
    return target_.transfer_seconds(device_of(copy), to, g_.type(old).bytes());
}

ValueId Copies::source(ValueId old, Device to, const TransferNeed &need) const {
    if (!need.named())
        return nearest(old, to);
    ValueId best = kNone;
    double least = std::numeric_limits<double>::infinity();
    for (const ValueId v : {rewriter_.value(root_[old]), rewriter_.value(old)}) {
        if (v == kNone || (to == kCpu && device_of(v) != *need.owner))
            continue;
        if (const double s = seconds(v, to, old); s < least) {
            least = s;
            best = v;
        }
    }
    LZ_CHECK(best != kNone, "what a stream copies to " + to_string(to) + " is not there");
    return best;
}

ValueId Copies::nearest(ValueId old, Device to) const {
    ValueId best = kNone;
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t c = first_[root_[old]]; c != kNone; c = copies_[c].next) {
        const ValueId v = copies_[c].value;
        // The oldest of equals, which is the last of the list.
        if (const double s = seconds(v, to, old); s <= least) {
            least = s;
            best = v;
        }
    }
    LZ_CHECK(best != kNone, "a value that is nowhere is needed on " + to_string(to));
    return best;
}

} // namespace lz::passes
