#include "passes/lower/equal_clusters.h"

#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "passes/hashed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// Most operands and words of a cluster that is compared: their lists are searched from the first entry.
constexpr size_t kMostNumbers = 64;

bool becomes_kernel(ClusterKind kind) {
    return kind == ClusterKind::Loop || kind == ClusterKind::Row || kind == ClusterKind::Reduce ||
           kind == ClusterKind::Contraction;
}

/// The number's place in the list, where it is put if it is new.
int64_t place_in(std::vector<uint32_t> &list, uint32_t number) {
    const auto at = std::ranges::find(list, number);
    const auto place = at - list.begin();
    if (at == list.end())
        list.push_back(number);
    return place;
}

} // namespace

/// Writes a cluster's form as words: numbers of values, words and nodes are places.
class EqualClusters::Describe {
public:
    Describe(const Graph &graph, const ClusterView &view, Numbers &numbers)
        : graph_(graph), view_(view), numbers_(numbers) {}

    /// Empty where the cluster is too large.
    std::string run() {
        numbers_.first = view_.first;
        numbers_.end = view_.end;
        numbers_.first_value = graph_.node(view_.first).first_result;
        put(static_cast<int64_t>(view_.kind));
        const auto cluster = static_cast<size_t>(graph_.node(view_.first).cluster);
        put(graph_.clusters[cluster].group >= 0); // those of a group are scheduled together
        put(view_.end - view_.first);
        for (NodeId n = view_.first; n < view_.end; ++n) {
            node(graph_.node(n));
            if (numbers_.outside.size() > kMostNumbers || numbers_.words.size() > kMostNumbers)
                return {};
        }
        for (const ValueId v : view_.stored)
            value(v);
        return {reinterpret_cast<const char *>(form_.data()), form_.size() * sizeof(uint64_t)};
    }

private:
    void put(int64_t word) { form_.push_back(identity(word)); }

    void node(const Node &n) {
        const AttrView attrs = graph_.attrs(n);
        put(static_cast<int64_t>(n.op));
        put(n.operand_count);
        for (const ValueId v : graph_.operands(n))
            value(v);
        put(n.structural_count);
        for (const int64_t word : attrs.structural)
            put(word);
        put(n.runtime_count);
        for (uint32_t w = 0; w < n.runtime_count && numbers_.words.size() <= kMostNumbers; ++w)
            put(place_in(numbers_.words, n.runtime_begin + w));
        put(n.result_count);
        for (uint32_t k = 0; k < n.result_count; ++k) {
            put(graph_.result(n, k) - numbers_.first_value);
            type(graph_.type(graph_.result(n, k)));
        }
    }

    void value(ValueId v) {
        const NodeId producer = graph_.value(v).producer;
        if (producer != kNone && producer >= view_.first && producer < view_.end) {
            put(v - numbers_.first_value);
            return;
        }
        const size_t known = numbers_.outside.size();
        put(-1 - place_in(numbers_.outside, v));
        if (numbers_.outside.size() != known)
            type(graph_.type(v));
    }

    void type(const TensorType &type) {
        put(static_cast<int64_t>(type.dtype));
        put(device_word(type.device));
        put(type.shape.rank());
        for (const int64_t extent : type.shape)
            put(extent);
    }

    const Graph &graph_;
    const ClusterView &view_;
    Numbers &numbers_;
    std::vector<uint64_t> form_;
};

/// Equal for equal clusters, and cheap.
uint64_t EqualClusters::signature(ClusterKind kind, NodeId first, NodeId end) const {
    uint64_t h = static_cast<uint64_t>(kind);
    for (NodeId n = first; n < end; ++n) {
        const Node &node = graph_.node(n);
        h = (h ^ static_cast<uint64_t>(node.op) ^ uint64_t{node.operand_count} << 16) * 0xff51afd7ed558ccdull;
        if (node.result_count > 0)
            h += identity(graph_.type(graph_.result(node)).numel());
    }
    return h;
}

void EqualClusters::expect(ClusterKind kind, NodeId first, NodeId end) {
    if (!becomes_kernel(kind))
        return;
    Expected &expected = expected_[signature(kind, first, end)];
    ++expected.all;
    ++expected.left;
}

bool EqualClusters::take(const ClusterView &view, LoweredStep &step) {
    form_.clear();
    if (!becomes_kernel(view.kind))
        return false;
    Expected &expected = expected_[signature(view.kind, view.first, view.end)];
    const bool last = --expected.left == 0;
    if (expected.all == 1)
        return false;
    numbers_ = {};
    std::string form = Describe(graph_, view, numbers_).run();
    const auto found = lowered_.find(form);
    if (found == lowered_.end()) {
        if (!last)
            form_ = std::move(form);
        return false;
    }
    LoweredStep same = last ? std::move(found->second.step) : found->second.step;
    renumber(same, found->second.numbers, numbers_);
    step.kind = same.kind;
    step.kernel = std::move(same.kernel);
    step.segments = std::move(same.segments);
    step.rounds = same.rounds;
    step.joined_rows = same.joined_rows;
    step.joined_run = same.joined_run;
    step.shortest_run = same.shortest_run;
    step.worker_bytes = same.worker_bytes;
    step.symbol = std::move(same.symbol);
    step.operands = std::move(same.operands);
    step.ints = std::move(same.ints);
    step.cost = same.cost;
    step.bytes_read = same.bytes_read;
    step.bytes_written = same.bytes_written;
    step.flops = same.flops;
    return true;
}

void EqualClusters::keep(const LoweredStep &step) {
    if (!form_.empty())
        lowered_.emplace(std::move(form_), Lowered{numbers_, step});
    form_.clear();
}

void EqualClusters::renumber(LoweredStep &step, const Numbers &from, const Numbers &to) {
    const auto moved = [](uint32_t number, const std::vector<uint32_t> &list,
                          const std::vector<uint32_t> &other) {
        const auto at = std::ranges::find(list, number);
        LZ_CHECK(at != list.end(), "a step holds a number that its cluster does not have");
        return other[static_cast<size_t>(at - list.begin())];
    };
    const auto value = [&](ValueId &v) {
        if (v == kNone)
            return;
        const auto outside = std::ranges::find(from.outside, v);
        v = outside != from.outside.end() ? to.outside[static_cast<size_t>(outside - from.outside.begin())]
                                          : v - from.first_value + to.first_value;
    };
    const auto buffers = [&](std::vector<LoweredBuffer> &list) {
        for (LoweredBuffer &b : list) {
            value(b.value);
            value(b.replaces);
        }
    };
    const auto args = [&](std::vector<ArgSpec> &list) {
        for (ArgSpec &arg : list)
            for (ArgSpec::Term &term : arg.terms)
                term.word = moved(term.word, from.words, to.words);
    };
    for (Instr &instr : step.kernel.instrs) {
        if (instr.source == kNoValue)
            continue;
        const bool inside = instr.source >= from.first && instr.source < from.end;
        LZ_CHECK(inside || info(instr.op).cls != KOpClass::Check, "a kernel has a check of another cluster");
        instr.source = inside ? instr.source - from.first + to.first : kNoValue; // an operand's: for dumps
    }
    for (LoweredSegment &segment : step.segments) {
        buffers(segment.buffers);
        args(segment.args);
        for (ScalarSpec &scalar : segment.scalars)
            scalar.word = moved(scalar.word, from.words, to.words);
    }
    buffers(step.operands);
    args(step.ints);
}

std::string EqualClusters::text(const LoweredStep &step) {
    std::string out =
        fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}\n", static_cast<int>(step.kind), step.rounds,
                    step.joined_rows, step.joined_run, step.shortest_run, step.worker_bytes, step.symbol,
                    step.cost, step.bytes_read, step.bytes_written, step.flops,
                    step.kind == StepKind::Launch ? cache_key(step.kernel) : std::string());
    const auto buffers = [&](const std::vector<LoweredBuffer> &list) {
        for (const LoweredBuffer &b : list)
            out += fmt::format("b {} {} {} {}\n", static_cast<int>(b.mode), b.value, b.replaces, b.bytes);
    };
    const auto args = [&](const std::vector<ArgSpec> &list) {
        for (const ArgSpec &arg : list) {
            out += fmt::format("a {}", arg.constant);
            for (const ArgSpec::Term &term : arg.terms)
                out += fmt::format(" {}*{}", term.word, term.coefficient);
            out += '\n';
        }
    };
    if (step.kind == StepKind::Launch)
        for (const Instr &instr : step.kernel.instrs)
            if (info(instr.op).cls == KOpClass::Check)
                out += fmt::format("c {}\n", instr.source);
    for (const LoweredSegment &segment : step.segments) {
        buffers(segment.buffers);
        args(segment.args);
        for (const ScalarSpec &scalar : segment.scalars)
            out += fmt::format("s {} {}\n", scalar.word, static_cast<int>(scalar.dtype));
        out += fmt::format("i {}\n", fmt::join(segment.items, " "));
    }
    buffers(step.operands);
    args(step.ints);
    return out;
}

} // namespace lz::passes
