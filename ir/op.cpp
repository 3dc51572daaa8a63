#include "ir/op.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lz::ir {

namespace {

template <class... Attr>
constexpr auto attr_list(Attr... attrs) {
    return std::array<AttrInfo, sizeof...(Attr)>{attrs...};
}

// One array of attributes a row of ops.def: kAttrs_Slice and so on.
#define LZ_OP(E, text, family, min, max, results, cost, ...)                                                 \
    constexpr auto kAttrs_##E = std::to_array<AttrInfo>({__VA_ARGS__});
#include "ir/ops.def"

constexpr OpInfo kOps[] = {
#define LZ_ELEMENTWISE(E, text, arity, rule, cost, kernel, fref, iref)                                       \
    {text, OpFamily::Elementwise, arity, arity, 1, cost, ElementwiseRule::rule, {}},
#include "ir/elementwise.def"
#define LZ_OP(E, text, family, min, max, results, cost, ...)                                                 \
    {text, OpFamily::family, min, max, results, cost, ElementwiseRule::None, kAttrs_##E},
#include "ir/ops.def"
};

/// Words that an attribute takes, when its structural words begin at `structural`.
struct Extent {
    size_t structural, runtime;
};

Extent extent_of(const AttrInfo &attr, std::span<const int64_t> structural) {
    const bool runtime = attr.marking == Marking::Runtime;
    switch (attr.type) {
    case AttrType::Ints: {
        const auto n = static_cast<size_t>(structural[0]);
        return runtime ? Extent{1, n} : Extent{1 + n, 0};
    }
    case AttrType::String:
        return {1 + (static_cast<size_t>(structural[0]) + 7) / 8, 0};
    default:
        return runtime ? Extent{0, 1} : Extent{1, 0};
    }
}

/// Where the words of attribute `attr` begin.
Extent begin_of(const AttrView &view, int attr) {
    const auto &attrs = info(view.op).attrs;
    Extent at{0, 0};
    for (int i = 0; i < attr; ++i) {
        const Extent n = extent_of(attrs[static_cast<size_t>(i)], view.structural.subspan(at.structural));
        at.structural += n.structural;
        at.runtime += n.runtime;
    }
    return at;
}

const AttrInfo &attr_info(const AttrView &view, int attr) {
    return info(view.op).attrs[static_cast<size_t>(attr)];
}

} // namespace

const OpInfo &info(Op op) {
    return kOps[static_cast<size_t>(op)];
}

int num_ops() {
    return static_cast<int>(std::size(kOps));
}

std::optional<Op> op_from_name(std::string_view text) {
    for (int i = 0; i < num_ops(); ++i)
        if (kOps[i].name == text)
            return static_cast<Op>(i);
    return std::nullopt;
}

int64_t AttrView::integer(int attr) const {
    const Extent at = begin_of(*this, attr);
    return attr_info(*this, attr).marking == Marking::Runtime ? runtime[at.runtime]
                                                              : structural[at.structural];
}

std::span<const int64_t> AttrView::ints(int attr) const {
    const Extent at = begin_of(*this, attr);
    const auto n = static_cast<size_t>(structural[at.structural]);
    return attr_info(*this, attr).marking == Marking::Runtime ? runtime.subspan(at.runtime, n)
                                                              : structural.subspan(at.structural + 1, n);
}

size_t AttrView::runtime_index(int attr) const {
    return begin_of(*this, attr).runtime;
}

double AttrView::scalar_as_double(int attr, DType dtype) const {
    const int64_t word = scalar_word(attr);
    return is_float(dtype) ? scalar_double(word) : static_cast<double>(word);
}

int64_t AttrView::scalar_word(int attr) const {
    return integer(attr);
}

Device AttrView::device(int attr) const {
    return device_from_word(integer(attr));
}

std::string_view AttrView::string(int attr) const {
    const size_t at = begin_of(*this, attr).structural;
    return {reinterpret_cast<const char *>(structural.data() + at + 1), static_cast<size_t>(structural[at])};
}

int num_results(const AttrView &attrs) {
    const int fixed = info(attrs.op).results;
    if (fixed >= 0)
        return fixed;
    int count = 0;
    for (CallResults r(attrs.ints(attr::kCallResults)); !r.done(); r.next())
        ++count;
    return count;
}

void CallResults::read() {
    if (words_.empty())
        return;
    LZ_CHECK(words_.size() >= 3 && words_[2] >= 0 && words_[2] <= kMaxRank &&
                 words_.size() >= 3 + static_cast<size_t>(words_[2]),
             "the words of a call's `results` end within a type");
    type_.dtype = static_cast<DType>(words_[0]);
    type_.device = device_from_word(words_[1]);
    const auto rank = static_cast<size_t>(words_[2]);
    type_.shape = Shape(words_.subspan(3, rank));
    size_ = 3 + rank;
}

std::string attrs_error(const AttrView &view) {
    size_t s = 0, r = 0;
    const auto name_of = [&](const AttrInfo &attr) { return "attribute `" + std::string(attr.name) + "`"; };
    for (const AttrInfo &attr : info(view.op).attrs) {
        const bool counted = attr.type == AttrType::Ints || attr.type == AttrType::String;
        const bool runtime = attr.marking == Marking::Runtime;
        if ((counted || !runtime) && s >= view.structural.size())
            return name_of(attr) + " has no words";
        if (counted && (view.structural[s] < 0 || view.structural[s] > (int64_t{1} << 40)))
            return name_of(attr) + " has an impossible length";
        const Extent n = extent_of(attr, view.structural.subspan(std::min(s, view.structural.size())));
        if (n.structural > view.structural.size() - s || n.runtime > view.runtime.size() - r)
            return name_of(attr) + " ends past the node's words";
        if (attr.type == AttrType::DType && (view.structural[s] < 0 || view.structural[s] >= kNumDTypes))
            return name_of(attr) + " is no dtype";
        if (attr.type == AttrType::Device && !is_device_word(view.structural[s]))
            return name_of(attr) + " is no device";
        s += n.structural;
        r += n.runtime;
    }
    if (s != view.structural.size() || r != view.runtime.size())
        return "there are words that belong to no attribute";
    if (view.op == Op::Call) {
        std::span<const int64_t> words = view.ints(attr::kCallResults);
        while (!words.empty()) {
            if (words.size() < 3 || words[0] < 0 || words[0] >= kNumDTypes || !is_device_word(words[1]) ||
                words[2] < 0 || words[2] > kMaxRank || words.size() < 3 + static_cast<size_t>(words[2]))
                return "attribute `results` is no list of types";
            words = words.subspan(3 + static_cast<size_t>(words[2]));
        }
    }
    return {};
}

std::string_view called(Op op, const Location &loc) {
    return loc.function != 0 ? function_name(loc.function) : name(op);
}

Failure called_as(const Failure &failure, Op op, const Location &loc) {
    if (const std::string_view sentence = called(op, loc);
        op == Op::Gather && sentence.find(": ") != std::string_view::npos)
        return {ErrorKind::State, std::string(sentence), failure.loc(), failure.node()};
    const std::string head = std::string(called(op, loc)) + ": ";
    const std::string own = std::string(name(op)) + ": ";
    std::string_view what = failure.message();
    for (const std::string_view said : {std::string_view(head), std::string_view(own)})
        if (what.starts_with(said)) {
            what.remove_prefix(said.size());
            break;
        }
    return {failure.kind(), head + std::string(what), failure.loc(), failure.node()};
}

} // namespace lz::ir
