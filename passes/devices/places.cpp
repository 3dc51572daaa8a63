#include "passes/devices/places.h"

#include <set>
#include <utility>

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

Device owner_of(const Graph &graph, const Node &node) {
    if (node.op == Op::Transfer && node.stream != kNoStream)
        if (const Device to = graph.type(graph.result(node)).device; to != kCpu)
            return to;
    return device_of(graph, node);
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
        const StreamRef at = normal({owner_of(graph, node), node.stream});
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

std::vector<StreamRef> user_streams(const Graph &graph) {
    std::set<std::pair<uint8_t, int32_t>> named;
    const auto note = [&](StreamRef s) {
        if (s.device != kCpu && s.stream >= kFirstUserStream)
            named.emplace(s.device.index, s.stream);
    };
    for (const Node &node : graph.nodes()) {
        if (node.stream != kNoStream)
            note({owner_of(graph, node), node.stream});
        if (node.op == Op::WaitStream)
            note({graph.attrs(node).device(attr::kWaitStreamOf),
                  static_cast<int32_t>(graph.attrs(node).integer(attr::kWaitStreamStream))});
    }
    std::vector<StreamRef> streams;
    for (const auto &[device, number] : named)
        streams.emplace_back(Device{DeviceKind::Cuda, device}, number);
    return streams;
}

uint32_t Places::find(StreamRef place) const {
    // There are few.
    for (uint32_t i = 0; i < count(); ++i)
        if (known_[i] == normal(place))
            return i;
    return kNone;
}

} // namespace lz::passes
