#include "passes/places.h"

namespace lz::passes {

using namespace ir;

Device device_of(const Graph &graph, const Node &node) {
    if (info(node.op).family == OpFamily::Effect)
        return graph.attrs(node).device(attr::kEffectDevice);
    const auto operand = [&] { return graph.type(graph.operands(node)[0]).device; };
    if (node.op == Op::Transfer && operand() != kCpu)
        return operand();
    if (node.result_count > 0)
        return graph.type(graph.result(node)).device;
    return node.operand_count > 0 ? operand() : kCpu;
}

namespace {

StreamRef normal(StreamRef place) {
    const bool unnamed = place.stream == kNoStream || place.device == kCpu;
    return unnamed ? StreamRef{place.device, kDefaultStream} : place;
}

} // namespace

Places::Places(const Graph &graph) : place_(graph.nodes().size()), epoch_(graph.nodes().size()) {
    std::vector<uint32_t> epochs; // by place
    for (NodeId id = 0; id < place_.size(); ++id) {
        const Node &node = graph.node(id);
        const StreamRef at = normal({device_of(graph, node), node.stream});
        uint32_t place = find(at);
        if (place == kNone) {
            place = count();
            known_.push_back(at);
            epochs.push_back(0);
        }
        const bool effect = info(node.op).family == OpFamily::Effect;
        any_effect_ = any_effect_ || effect;
        place_[id] = place;
        epoch_[id] = effect ? epochs[place]++ : epochs[place];
    }
}

uint32_t Places::find(StreamRef place) const {
    // There are few.
    for (uint32_t i = 0; i < count(); ++i)
        if (known_[i] == normal(place))
            return i;
    return kNone;
}

} // namespace lz::passes
