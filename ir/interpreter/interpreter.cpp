#include "ir/interpreter/interpreter.h"

#include "ir/diagnostic.h"
#include "ir/graph/infer/infer.h"
#include "ir/graph/uses.h"
#include "ir/host/calls.h"
#include "ir/host/float_environment.h"
#include "ir/interpreter/ref.h"
#include "ir/interpreter/tensor.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace lz::ir {

namespace {

using InterpretOp = void (*)(const RefNode &);
constexpr InterpretOp kInterpret[] = {
#define LZ_OP(E, ...) interpret_##E,
#include "ir/ops.def"
};

/// Runs a graph node by node; a value is dropped after its last use.
class Interpreter {
public:
    Interpreter(const Graph &graph, std::span<const int64_t> runtime)
        : g_(graph), runtime_(runtime), values_(graph.values().size()), uses_(graph),
          left_(graph.values().size()), lost_(graph.values().size(), kUnharmed) {
        for (ValueId v = 0; v < left_.size(); ++v)
            left_[v] = uses_.count(v);
    }

    Interpreted run(std::span<const HostTensor> inputs) {
        Interpreted out;
        for (size_t i = 0; i < g_.params.size(); ++i)
            if (left_[g_.params[i].value] > 0)
                values_[g_.params[i].value] = decode(inputs[i]);
        for (const Node &n : g_.nodes()) {
            size_t lost = kUnharmed;
            for (const ValueId v : g_.operands(n))
                lost = std::min(lost, lost_[v]);
            try {
                if (lost == kUnharmed)
                    node(n);
            } catch (const Failure &f) {
                lost = out.failures.size();
                out.failures.push_back({Failure(f.kind(), f.message(), n.loc, n.recorded), {}, n.op});
            }
            if (lost != kUnharmed)
                lose(n, lost);
        }
        for (uint32_t r = 0; r < g_.results.size(); ++r) {
            const ValueId v = g_.results[r];
            out.results.push_back(lost_[v] == kUnharmed ? encode(values_[v]) : HostTensor());
            out.results.back().type = g_.type(v);
            if (lost_[v] != kUnharmed)
                out.failures[lost_[v]].results.push_back(r);
        }
        return out;
    }

private:
    static constexpr size_t kUnharmed = SIZE_MAX;

    /// What the node makes is lost.
    void lose(const Node &n, size_t failure) {
        for (uint32_t k = 0; k < n.result_count; ++k)
            lost_[g_.result(n, k)] = failure;
    }

    void node(const Node &n) {
        AttrView attrs = g_.attrs(n);
        attrs.runtime = runtime_.subspan(n.runtime_begin, n.runtime_count);
        operands_.clear();
        for (const ValueId v : g_.operands(n))
            operands_.push_back(&values_[v]);
        results_.assign(n.result_count, {});
        for (uint32_t k = 0; k < n.result_count; ++k) {
            results_[k].type = g_.type(g_.result(n, k));
            results_[k].allocate();
        }
        const RefNode ref{attrs, operands_, results_};
        if (is_elementwise_row(n.op))
            interpret_elementwise(ref);
        else if (n.op == Op::Call)
            call(attrs);
        else
            kInterpret[static_cast<int>(n.op) - static_cast<int>(Op::Cast)](ref);
        for (uint32_t k = 0; k < n.result_count; ++k)
            if (left_[g_.result(n, k)] > 0)
                values_[g_.result(n, k)] = std::move(results_[k]);
        for (const ValueId v : g_.operands(n))
            if (--left_[v] == 0)
                values_[v] = {};
    }

    void call(const AttrView &attrs) {
        const std::string_view symbol = attrs.string(attr::kCallSymbol);
        const RegisteredCall *const registered = find_call(symbol);
        if (!registered)
            throw unknown_call(symbol);
        std::vector<HostTensor> tensors;
        for (const RefTensor *operand : operands_)
            tensors.push_back(encode(*operand));
        for (const RefTensor &result : results_)
            tensors.push_back(encode(result));
        std::vector<std::array<int64_t, kMaxRank>> strides;
        strides.reserve(tensors.size());
        std::vector<CallTensor> views;
        for (HostTensor &t : tensors) {
            const auto rank = static_cast<size_t>(t.type.shape.rank());
            strides.push_back(t.type.shape.dense_strides());
            views.push_back({t.bytes.data(), t.type.dtype, t.type.shape.extents(),
                             std::span<const int64_t>(strides.back()).first(rank)});
        }
        const std::span<const CallTensor> all = views;
        const std::string error =
            run_call(*registered, all.first(operands_.size()), all.subspan(operands_.size()));
        if (!error.empty())
            throw Failure(ErrorKind::State, error);
        for (size_t k = 0; k < results_.size(); ++k)
            results_[k] = decode(tensors[operands_.size() + k]);
    }

    const Graph &g_;
    std::span<const int64_t> runtime_;
    std::vector<RefTensor> values_;
    Uses uses_;
    std::vector<size_t> left_; ///< uses of each value that are still to come
    std::vector<size_t> lost_; ///< number of the failure by which each value is lost
    std::vector<const RefTensor *> operands_;
    std::vector<RefTensor> results_;
};

/// New runtime words have to keep to the rules as those did with which the graph was recorded.
void check_runtime_words(const Graph &g, std::span<const int64_t> words) {
    std::vector<const TensorType *> operands;
    std::vector<TensorType> results;
    for (const Node &n : g.nodes()) {
        if (n.runtime_count == 0)
            continue;
        operands.clear();
        for (const ValueId v : g.operands(n))
            operands.push_back(&g.type(v));
        results.resize(n.result_count);
        AttrView attrs = g.attrs(n);
        attrs.runtime = words.subspan(n.runtime_begin, n.runtime_count);
        try {
            infer_types(attrs, operands, results);
        } catch (const Failure &f) {
            throw Failure(f.kind(), f.message(), n.loc, n.recorded);
        }
    }
}

void check_inputs(const Graph &g, std::span<const HostTensor> inputs) {
    if (inputs.size() != g.params.size())
        throw Failure(ErrorKind::State, "The graph @" + g.name + " has " + std::to_string(g.params.size()) +
                                            " parameters; " + std::to_string(inputs.size()) +
                                            " tensors were given.");
    for (size_t i = 0; i < inputs.size(); ++i) {
        const TensorType &want = g.type(g.params[i].value), &got = inputs[i].type;
        if (want.dtype != got.dtype || !(want.shape == got.shape))
            throw Failure(want.dtype != got.dtype ? ErrorKind::DType : ErrorKind::Shape,
                          "The parameter %" + g.params[i].name + " is " + to_string(want) +
                              "; the tensor given is " + to_string(got) + ".");
        LZ_CHECK(static_cast<int64_t>(inputs[i].bytes.size()) == got.bytes(), "the bytes of an input");
    }
}

/// Rounds the value of a scalar attribute to the dtype, as it reaches a kernel.
int64_t scalar_of(const RefNode &node, int attr) {
    const DType dtype = node.out().type.dtype;
    const int64_t word = node.attrs.scalar_word(attr);
    return is_float(dtype) ? scalar_word(round_to(dtype, scalar_double(word))) : wrap_to(dtype, word);
}

} // namespace

Affine broadcast_walk(const Shape &from, const Shape &to) {
    Affine walk;
    const auto strides = from.dense_strides();
    const int skip = to.rank() - from.rank();
    for (int axis = 0; axis < from.rank(); ++axis)
        if (from[axis] != 1)
            walk.strides[static_cast<size_t>(axis + skip)] = strides[static_cast<size_t>(axis)];
    return walk;
}

Interpreted interpret_all(const Graph &graph, std::span<const HostTensor> inputs,
                          std::span<const int64_t> runtime_words) {
    const FloatEnvironment environment;
    check_inputs(graph, inputs);
    if (!runtime_words.empty()) {
        LZ_CHECK(runtime_words.size() == graph.runtime_words().size(), "the number of runtime words");
        check_runtime_words(graph, runtime_words);
    }
    return Interpreter(graph, runtime_words.empty() ? graph.runtime_words() : runtime_words).run(inputs);
}

std::vector<HostTensor> interpret(const Graph &graph, std::span<const HostTensor> inputs,
                                  std::span<const int64_t> runtime_words) {
    Interpreted all = interpret_all(graph, inputs, runtime_words);
    if (!all.failures.empty()) {
        const Interpreted::Failed &first = all.failures[0];
        throw called_as(first.failure, first.op, first.failure.loc());
    }
    return std::move(all.results);
}

HostTensor materialize_param(const Graph &graph, const Param &param) {
    const FloatEnvironment environment;
    const TensorType &type = graph.type(param.value);
    if (param.init == InitKind::Dense)
        return {type, param.bytes};
    if (param.init == InitKind::None)
        throw Failure(ErrorKind::State,
                      "The parameter %" + param.name +
                          " has no data: give it some in the text, as `dense<...>` or `random(seed)`.");
    RefTensor random{type, {}};
    random.allocate();
    // As many bits as the dtype holds exactly.
    const int bits = type.dtype == DType::F64    ? 32
                     : type.dtype == DType::F32  ? 24
                     : type.dtype == DType::F16  ? 11
                     : type.dtype == DType::BF16 ? 8
                     : type.dtype == DType::Bool ? 1
                                                 : 0;
    for (size_t k = 0; k < random.words.size(); ++k) {
        const uint32_t word = ref::philox_word(param.seed, 0, k);
        if (is_float(type.dtype))
            random.words[k] =
                scalar_word( // NOLINTNEXTLINE(clang-analyzer-core.BitwiseShift): floats have bits
                    std::ldexp(static_cast<double>(word >> (32 - bits)), -bits));
        else
            random.words[k] = type.dtype == DType::Bool ? word >> 31 : word % 10;
    }
    return encode(random);
}

void interpret_Constant(const RefNode &node) {
    std::ranges::fill(node.out().words, scalar_of(node, attr::kMakerValue));
}

void interpret_Literal(const RefNode &node) {
    interpret_Constant(node);
}

void interpret_Iota(const RefNode &node) {
    const DType dtype = node.out().type.dtype;
    const int64_t start = scalar_of(node, attr::kIotaStart), step = scalar_of(node, attr::kIotaStep);
    const auto axis = static_cast<size_t>(node.attrs.integer(attr::kIotaAxis));
    for_each_index(node.out().type.shape, [&](const Coordinates &i, size_t k) {
        if (is_float(dtype))
            node.out().words[k] = scalar_word(
                round_to(dtype, scalar_double(start) + scalar_double(step) * static_cast<double>(i[axis])));
        else
            node.out().words[k] = wrap_to(dtype, ref::wrap_add(start, ref::wrap_mul(step, i[axis])));
    });
}

void interpret_Philox(const RefNode &node) {
    const auto seed = static_cast<uint64_t>(node.attrs.integer(attr::kPhiloxSeed));
    const auto offset = static_cast<uint64_t>(node.attrs.integer(attr::kPhiloxOffset));
    for (size_t k = 0; k < node.out().words.size(); ++k)
        node.out().words[k] = static_cast<int32_t>(ref::philox_word(seed, offset, k));
}

void interpret_Transfer(const RefNode &node) {
    node.out().words = node.in().words;
}

void interpret_Call(const RefNode &) {
    LZ_CHECK(false, "calls have the host's bytes and not words");
}

// One thread runs one node after another, so that effects, which only order, are there already.
void interpret_RecordEvent(const RefNode &) {}
void interpret_WaitEvent(const RefNode &) {}
void interpret_WaitStream(const RefNode &) {}
void interpret_HostCallback(const RefNode &) {}

std::vector<double> to_doubles(const HostTensor &tensor) {
    std::vector<double> values;
    for (const int64_t word : decode(tensor).words)
        values.push_back(scalar_double(cast_word(tensor.type.dtype, DType::F64, word)));
    return values;
}

HostTensor from_doubles(const TensorType &type, std::span<const double> values) {
    LZ_CHECK(static_cast<int64_t>(values.size()) == type.numel(),
             "the number of values of " + to_string(type));
    RefTensor tensor{type, {}};
    for (const double v : values)
        tensor.words.push_back(cast_word(DType::F64, type.dtype, scalar_word(v)));
    return encode(tensor);
}

} // namespace lz::ir
