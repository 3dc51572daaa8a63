#pragma once
/// Random kernels that compute in f32 what is stored as f32, f16 and bf16, as layers under autocast do:
/// halves that are rounded, stored, and read again as f32; numbers that are the same along an axis, or for a
/// whole launch; choices of what is rarely needed before, in and behind loops, and one in the part of
/// another.

#include "tests/support/kernel_run.h"
#include "tests/support/random/graph.h"

#include <limits>
#include <utility>
#include <vector>

namespace lz::test {

/// One seed is one kernel. `most` statements of it: with fewer a kernel that fails is shorter.
class MixedKernel {
public:
    explicit MixedKernel(uint64_t seed, int most = std::numeric_limits<int>::max())
        : r_(seed), left_(most), half_(a_half()), row_(b_.axis()), column_(b_.axis()),
          step_(b_.arg(ir::ArgRole::Stride)), place_(b_.arg(ir::ArgRole::Offset)),
          each_row_(b_.buffer(a_float(), ir::BufferMode::In)),
          each_column_(b_.buffer(a_float(), ir::BufferMode::In)) {
        rows_ = r_.between(1, 5);
        constexpr int64_t kLengths[] = {1, 7, 8, 33, 64, 200, 1000, 2500};
        length_ = kLengths[r_.below(std::size(kLengths))];
        stride_ = r_.chance(70) ? (length_ + 7) / 8 * 8 : length_ + r_.below(3);
        elements_ = {rows_, length_};
        for (int64_t n = r_.between(1, 3); n > 0; --n)
            inputs_.push_back(buffer(a_float(), ir::BufferMode::In));
        for (int64_t n = r_.between(1, 2); n > 0; --n)
            scalars_.push_back(b_.scalar(r_.chance(50) ? ir::DType::F32 : half_));
    }

    Launch make() {
        const int64_t kind = r_.below(5);
        kind < 2 ? points() : kind < 4 ? rows() : columns();
        Launch l{b_.take(), {rows_, length_, stride_, 0}, {}, elements_, 0};
        for (size_t s = 0; s < scalars_.size(); ++s)
            l.scalars.push_back(std::bit_cast<uint32_t>(static_cast<float>(r_.between(-8, 8)) / 8));
        return l;
    }

private:
    using KValue = ir::KValue;

    /// What may be read where the kernel is being written.
    struct Known {
        std::vector<KValue> wide, halves, conditions;
    };

    ir::DType a_half() { return r_.chance(60) ? ir::DType::BF16 : ir::DType::F16; }
    ir::DType a_float() { return r_.chance(60) ? half_ : r_.chance(70) ? ir::DType::F32 : a_half(); }
    uint16_t buffer(ir::DType t, ir::BufferMode mode) {
        elements_.push_back(rows_ * stride_);
        return b_.buffer(t, mode);
    }
    ir::Access at(uint16_t buffer) const {
        return {buffer,
                ir::kNoArg,
                {{row_, ir::StrideClass::Strided, step_}, {column_, ir::StrideClass::Contiguous, ir::kNoArg}},
                {},
                ir::kNoValue};
    }
    KValue f32(KValue x) { return b_.cast(x, ir::DType::F32); }

    KValue constant() {
        constexpr double kNumbers[] = {0, -0.0, 0.25, 1, -0.75, 0.3, 2, -3.5, 87, 1e30};
        return b_.constant(ir::DType::F32, kNumbers[r_.below(std::size(kNumbers))]);
    }
    KValue wide() {
        if (known_.wide.empty() || r_.chance(12))
            return constant();
        // The newest ones mostly, so that there are chains.
        const auto n = static_cast<int64_t>(known_.wide.size());
        return known_.wide[static_cast<size_t>(r_.chance(60) ? n - 1 - r_.below(std::min<int64_t>(n, 3))
                                                             : r_.below(n))];
    }
    /// Two are drawn in this order: what is drawn in a call's arguments comes in the order of a compiler's
    /// choice, and a seed should be the same kernel with all of them.
    std::pair<KValue, KValue> two() {
        const KValue x = wide(), y = wide();
        return {x, y};
    }
    KValue sum_of_two() {
        const auto [x, y] = two();
        return b_.add(x, y);
    }
    KValue product_of_two() {
        const auto [x, y] = two();
        return b_.mul(x, y);
    }
    KValue half() {
        if (!known_.halves.empty() && r_.chance(40))
            return r_.pick(known_.halves);
        const KValue x = wide();
        known_.halves.push_back(b_.cast(x, r_.chance(85) ? half_ : a_half()));
        return known_.halves.back();
    }
    KValue condition() {
        if (!known_.conditions.empty() && r_.chance(25))
            return r_.pick(known_.conditions);
        const KValue x = wide(), y = r_.chance(70) ? constant() : wide();
        KValue c = ir::kNoValue;
        switch (r_.below(4)) {
        case 0:
            c = b_.lt(x, y);
            break;
        case 1:
            c = b_.le(x, y);
            known_.conditions.push_back(c);
            c = b_.bit_not(c);
            break;
        default:
            c = b_.gt(x, y);
        }
        known_.conditions.push_back(c);
        return c;
    }
    /// What only few elements need, or all.
    KValue choice(int depth) {
        const KValue c = condition(), usual = wide();
        const Known outside = known_;
        KValue rare = product_of_two();
        if (r_.chance(40))
            rare = b_.sqrt(b_.abs(rare));
        if (r_.chance(30))
            rare = f32(b_.cast(rare, half_));
        if (depth > 0 && r_.chance(30)) {
            known_.wide.push_back(rare);
            rare = b_.add(rare, choice(depth - 1));
        }
        if (r_.chance(50)) // else later statements need what stands there, too
            known_ = outside;
        return b_.rarely(c, rare, usual);
    }
    KValue function() {
        using enum ir::KOp;
        const bool f16 = half_ == ir::DType::F16;
        const KValue x = wide();
        switch (r_.below(9)) {
        case 0:
            return b_.exp(x);
        case 1:
            return b_.tanh(x);
        case 2:
            return b_.sigmoid(x);
        case 3:
            return b_.erf(x);
        case 4:
            return b_.sin(x);
        case 5:
            return b_.emit(f16 ? ExpF16 : ExpBF16, ir::DType::F32, f32(b_.cast(x, half_)));
        case 6:
            return b_.emit(f16 ? SigmoidF16 : SigmoidBF16, ir::DType::F32, f32(b_.cast(x, half_)));
        case 7:
            return b_.emit(f16 ? TanhF16 : TanhBF16, ir::DType::F32, f32(b_.cast(x, half_)));
        default:
            return b_.emit(f16 ? ErfF16 : ErfBF16, ir::DType::F32, f32(b_.cast(x, half_)));
        }
    }
    KValue operation() {
        switch (r_.below(12)) {
        case 0:
        case 1:
            return sum_of_two();
        case 2: {
            const auto [x, y] = two();
            return b_.sub(x, y);
        }
        case 3:
        case 4:
            return product_of_two();
        case 5: {
            const auto [x, y] = two();
            return b_.minimum(x, y);
        }
        case 6: {
            const auto [x, y] = two();
            return b_.maximum(x, y);
        }
        case 7:
            return r_.chance(50) ? b_.neg(wide()) : b_.abs(wide());
        case 8: { // a limit, as clamp writes it
            const KValue x = wide(), limit = constant();
            return b_.select(r_.chance(50) ? b_.lt(limit, x) : b_.gt(limit, x), limit, x);
        }
        case 9: {
            const KValue c = condition();
            const auto [x, y] = two();
            return b_.select(c, x, y);
        }
        case 10: {
            const auto [x, y] = two();
            return r_.chance(50) ? b_.fma(x, y, wide()) : b_.div(x, y);
        }
        default:
            return function();
        }
    }
    /// One of them; most results become halves, as each result of an operation of a half type does.
    void statement() {
        KValue x = ir::kNoValue;
        if (r_.chance(15))
            x = choice(1);
        else if (r_.chance(10))
            x = f32(half());
        else
            x = operation();
        if (r_.chance(60)) {
            known_.halves.push_back(b_.cast(x, r_.chance(90) ? half_ : a_half()));
            x = f32(known_.halves.back());
        }
        known_.wide.push_back(x);
    }
    void statements(int64_t least, int64_t most) {
        for (int64_t n = r_.between(least, most); n > 0; --n) {
            if (left_ > 0)
                statement();
            --left_;
        }
    }
    void add_scalars() {
        for (const uint32_t s : scalars_) {
            known_.wide.push_back(b_.scalar_value(s));
            if (r_.chance(50))
                known_.wide.push_back(f32(b_.cast(known_.wide.back(), half_)));
        }
    }
    void add_loads() {
        for (const uint16_t in : inputs_)
            known_.wide.push_back(f32(b_.load(at(in))));
        if (r_.chance(40))
            known_.wide.push_back(f32(b_.load(contiguous(each_column_, column_))));
    }
    void add_of_row() { known_.wide.push_back(f32(b_.load(contiguous(each_row_, row_)))); }
    /// Before a loop what is loaded has to be read outside of loops, too.
    void add_and_store_of_row() {
        add_of_row();
        store_of_row(known_.wide.back());
    }
    void stores() {
        for (int64_t n = r_.between(1, 3); n > 0; --n) {
            const KValue x = r_.chance(60) ? half() : wide();
            b_.store(at(buffer(b_.dtype(x), ir::BufferMode::Out)), x);
            if (n > 1)
                statements(0, 4);
        }
    }
    void store_of_row(KValue x) {
        b_.store(contiguous(b_.buffer(b_.dtype(x), ir::BufferMode::Out), row_), x);
        elements_.push_back(rows_);
    }

    void points() {
        b_.begin_phase({row_, column_}, true);
        add_scalars();
        if (r_.chance(60))
            add_of_row();
        add_loads();
        statements(2, 20);
        stores();
        b_.end_phase();
    }

    /// Loops over a row, with what is the same for all of it before, between and behind them.
    void rows() {
        b_.begin_phase({row_}, false);
        add_scalars();
        if (r_.chance(50))
            add_and_store_of_row();
        uint16_t kept = 0;
        bool keeps = false;
        const int64_t loops = r_.between(1, 3);
        for (int64_t k = 0; k < loops; ++k) {
            statements(0, 3);
            const Known outside = known_;
            const bool folds = r_.chance(65);
            const bool in_order = folds && !keeps && r_.chance(20);
            const auto order = in_order ? ir::LoopOrder::Sequential : ir::LoopOrder::Lanes;
            const uint32_t loop = b_.begin_loop(column_, order, folds ? ir::chunk_of(order) : 0);
            add_loads();
            KValue again = ir::kNoValue; // what an earlier loop kept
            if (keeps) {
                again = f32(b_.load(contiguous(kept, column_)));
                known_.wide.push_back(again);
            }
            statements(1, 10);
            uint32_t results = 0;
            if (!folds) {
                if (again !=
                    ir::kNoValue) // what is kept is read by each later loop: no pass keeps anything for none
                    b_.store(at(buffer(ir::DType::F32, ir::BufferMode::Out)), again);
                stores();
            } else {
                if (!keeps && !in_order && k + 1 < loops && r_.chance(30)) {
                    keeps = true;
                    const KValue x = r_.chance(50) ? half() : wide();
                    kept = b_.buffer(b_.dtype(x), ir::BufferMode::Worker, place_);
                    elements_.push_back(length_);
                    b_.store(contiguous(kept, column_), x);
                }
                constexpr ir::ReduceOp kOps[] = {ir::ReduceOp::Add, ir::ReduceOp::Max, ir::ReduceOp::Min};
                for (int64_t n = r_.between(1, 2); n > 0; --n, ++results) {
                    const auto op = kOps[r_.below(std::size(kOps))];
                    const auto [x, y] = two();
                    b_.reduce(op, b_.add(again != ir::kNoValue && results == 0 ? again : x, y));
                }
            }
            b_.end_loop();
            known_ = outside;
            for (uint32_t n = 0; n < results; ++n)
                known_.wide.push_back(b_.loop_result(loop, n));
        }
        statements(0, 4);
        store_of_row(r_.chance(50) ? half() : wide());
        b_.end_phase();
    }

    /// A loop over a column for each point.
    void columns() {
        b_.begin_phase({column_}, true);
        add_scalars();
        statements(0, 4);
        const Known outside = known_;
        const auto order = ir::LoopOrder::Sequential;
        const uint32_t loop = b_.begin_loop(row_, order, ir::chunk_of(order));
        add_loads();
        if (r_.chance(50))
            add_of_row();
        statements(1, 8);
        const auto op = r_.chance(60) ? ir::ReduceOp::Add : ir::ReduceOp::Max;
        b_.reduce(op, sum_of_two());
        b_.end_loop();
        known_ = outside;
        known_.wide.push_back(b_.loop_result(loop, 0));
        statements(0, 6);
        if (r_.chance(50))
            known_.wide.push_back(f32(b_.load(contiguous(each_column_, column_))));
        const KValue x = r_.chance(60) ? half() : wide();
        b_.store(contiguous(b_.buffer(b_.dtype(x), ir::BufferMode::Out), column_), x);
        elements_.push_back(length_);
        b_.end_phase();
    }

    ir::KernelBuilder b_{"mixed"};
    Random r_;
    int left_;       // statements
    ir::DType half_; // of most of it
    ir::AxisId row_, column_;
    ir::ArgId step_, place_;
    uint16_t each_row_, each_column_;
    int64_t rows_ = 0, length_ = 0, stride_ = 0;
    std::vector<int64_t> elements_; // of each buffer
    std::vector<uint16_t> inputs_;
    std::vector<uint32_t> scalars_;
    Known known_;
};

} // namespace lz::test
