#include "codegen/cuda/emitter.h"

#include <algorithm>

namespace lz::codegen::cuda {

using namespace ir;

std::string PhaseEmitter::address(const Access &access, AxisId of, const std::string &first) {
    std::string text = buffer(access.buffer);
    const auto plus = [&](const std::string &term) { text += " + " + term; };
    for (const AxisStride &s : access.strides) {
        std::string at = s.axis == of ? first : axis(s.axis);
        if (at == "0")
            continue;
        if (s.cls == StrideClass::Contiguous) {
            plus(at);
            continue;
        }
        if (at.find(' ') != std::string::npos)
            at = "(" + at + ")";
        plus(at + " * " + arg(s.stride));
    }
    for (const IndexTerm &t : access.terms)
        plus(index(t.index) + (t.stride == kNoArg ? "" : " * " + arg(t.stride)));
    if (access.offset != kNoArg)
        plus(arg(access.offset));
    return text;
}

std::string PhaseEmitter::element(const Access &access) {
    if (kernel_.buffers[access.buffer].mode == BufferMode::Worker && in_registers()) {
        need(in_element_ && access.strides.size() == 1 && access.strides[0].cls == StrideClass::Contiguous &&
                 access.terms.empty() && access.offset == kNoArg && access.predicate == kNoValue,
             "what is kept in registers is read in another place");
        return kept_in(access.buffer) + (row_width_ == 1 ? "" : ".at(e)");
    }
    return at_address(address(access));
}

std::string PhaseEmitter::at_address(const std::string &address) {
    const size_t plus = address.find(" + ");
    return plus == std::string::npos ? "*" + address
                                     : address.substr(0, plus) + "[" + address.substr(plus + 3) + "]";
}

bool PhaseEmitter::moves_along(const Access &access, AxisId axis) const {
    return std::ranges::find(access.strides, axis, &AxisStride::axis) != access.strides.end();
}

bool PhaseEmitter::is_packet(const Access &access, AxisId axis) const {
    const auto along = std::ranges::find(access.strides, axis, &AxisStride::axis);
    if (along == access.strides.end() || along->cls != StrideClass::Contiguous)
        return false;
    if (kernel_.buffers[access.buffer].mode == BufferMode::Worker && in_registers())
        return false;
    return (access.predicate == kNoValue || !varies(access.predicate, axis)) &&
           std::ranges::none_of(access.terms, [&](const IndexTerm &t) { return varies(t.index, axis); });
}

bool PhaseEmitter::note_alignment(const Access &access, AxisId axis) {
    const KBuffer &b = kernel_.buffers[access.buffer];
    if (b.mode == BufferMode::Worker)
        return true;
    const auto bytes = static_cast<uint8_t>(size_of(b.dtype));
    const auto note = [&](LaunchAlignment a) {
        if (std::ranges::find(alignments_, a) == alignments_.end())
            alignments_.push_back(a);
    };
    note({LaunchAlignment::Buffer, 1, access.buffer});
    if (access.offset != kNoArg)
        note({LaunchAlignment::Arg, bytes, access.offset});
    for (const AxisStride &s : access.strides) {
        if (s.axis == axis)
            continue;
        if (s.stride == kNoArg)
            return false;
        note({LaunchAlignment::Arg, bytes, s.stride});
    }
    for (const IndexTerm &t : access.terms) {
        if (t.stride == kNoArg)
            return false;
        note({LaunchAlignment::Arg, bytes, t.stride});
    }
    return true;
}

} // namespace lz::codegen::cuda
