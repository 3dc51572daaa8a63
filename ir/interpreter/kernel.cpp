#include "ir/interpreter/kernel.h"

#include "ir/diagnostic.h"
#include "ir/host/float_environment.h"
#include "ir/kernel/scalar.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace lz::ir {

namespace {

/// Points of the last grid axis, or where that has none elements of a loop, that run in step. A mere matter
/// of speed: they do not see each other. A multiple of the lanes of every fold.
constexpr int kBatch = 256;

uint64_t read(const std::byte *p, int bytes) {
    uint64_t bits = 0;
    std::memcpy(&bits, p, static_cast<size_t>(bytes));
    return bits;
}

uint64_t identity(ReduceOp op, DType dtype) {
    const bool low = op == ReduceOp::Max || op == ReduceOp::ArgMax;
    if (op == ReduceOp::Mul)
        return dtype == DType::F64   ? std::bit_cast<uint64_t>(1.0)
               : dtype == DType::F32 ? std::bit_cast<uint32_t>(1.0F)
                                     : 1;
    if (dtype == DType::F64)
        return std::bit_cast<uint64_t>(op == ReduceOp::Add ? -0.0
                                       : low               ? -std::numeric_limits<double>::infinity()
                                                           : std::numeric_limits<double>::infinity());
    if (dtype == DType::F32)
        return std::bit_cast<uint32_t>(op == ReduceOp::Add ? -0.0F
                                       : low               ? -std::numeric_limits<float>::infinity()
                                                           : std::numeric_limits<float>::infinity());
    if (op == ReduceOp::Add)
        return 0;
    const int width = dtype == DType::Bool ? 1 : 8 * size_of(dtype);
    const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    const uint64_t lowest = is_signed(dtype) ? uint64_t{1} << (width - 1) : 0;
    return low ? lowest : all ^ lowest;
}

/// A partial result: value, and position for arg reductions.
struct Partial {
    uint64_t value = 0;
    uint64_t index = 0;
};
/// Of each reduction of a loop, kBatch of them.
using Partials = std::vector<Partial>;

class Interpreter {
public:
    Interpreter(const Kernel &kernel, const KernelFrame &frame, void *worker)
        : k_(kernel), frame_(frame), worker_(static_cast<std::byte *>(worker)),
          values_(kernel.instrs.size() * kBatch), axis_(kernel.axes.size() * kBatch),
          results_(kernel.loops.size()), bodies_(kernel.loops.size()) {}

    void run(const Phase &phase) {
        phase_ = &phase;
        for (const AxisId axis : phase.grid)
            if (extent(axis) <= 0)
                return;
        walk(0);
    }

private:
    uint64_t *value(KValue v) { return values_.data() + size_t{v} * kBatch; }
    int64_t *axis(AxisId a) { return axis_.data() + size_t{a} * kBatch; }
    int64_t argument(ArgId a) const { return a == kNoArg ? 0 : frame_.args[a]; }
    int64_t extent(AxisId a) const { return argument(k_.axes[a].extent); }

    void walk(size_t depth) {
        if (depth == phase_->grid.size()) {
            lanes_ = 1;
            return point();
        }
        const AxisId a = phase_->grid[depth];
        const int64_t n = extent(a);
        if (depth + 1 < phase_->grid.size() || !phase_->vector_grid) {
            for (int64_t i = 0; i < n; ++i) {
                std::fill_n(axis(a), kBatch, i);
                walk(depth + 1);
            }
            return;
        }
        for (int64_t i = 0; i < n; i += kBatch) {
            lanes_ = static_cast<int>(std::min<int64_t>(kBatch, n - i));
            for (int lane = 0; lane < lanes_; ++lane)
                axis(a)[lane] = i + lane;
            point();
        }
    }

    void point() {
        if (phase_->contraction)
            contract(*phase_->contraction);
        run(phase_->body);
    }

    std::byte *base(uint16_t buffer) const {
        const KBuffer &b = k_.buffers[buffer];
        return b.mode == BufferMode::Worker ? worker_ + argument(b.worker_offset)
                                            : static_cast<std::byte *>(frame_.buffers[buffer]);
    }

    std::byte *address(const Access &a, int lane) {
        int64_t element = argument(a.offset);
        for (const AxisStride &s : a.strides)
            element += axis(s.axis)[lane] * (s.cls == StrideClass::Contiguous ? 1 : argument(s.stride));
        for (const IndexTerm &t : a.terms)
            element +=
                static_cast<int64_t>(value(t.index)[lane]) * (t.stride == kNoArg ? 1 : argument(t.stride));
        return base(a.buffer) + element * size_of(k_.buffers[a.buffer].dtype);
    }

    void fault(FaultCode code, const Instr &instr, int64_t found, int64_t limit) const {
        if (frame_.fault == nullptr)
            return;
        Fault &fault = frame_.fault[std::count_if(
            k_.instrs.data(), &instr, [](const Instr &i) { return info(i.op).cls == KOpClass::Check; })];
        int32_t none = 0;
        if (!fault.code.compare_exchange_strong(none, static_cast<int32_t>(code)))
            return;
        fault.source = instr.source;
        fault.value = found;
        fault.limit = limit;
    }

    uint64_t scalar(const Instr &instr) const {
        const uint64_t slot = frame_.scalars[instr.index];
        switch (instr.dtype) {
        case DType::Bool:
            return slot != 0;
        case DType::F32:
            return slot & 0xffffffffU;
        case DType::F64:
            return slot;
        default:
            return read(reinterpret_cast<const std::byte *>(&slot), size_of(instr.dtype));
        }
    }

    using Elements = std::array<uint64_t, kBatch>;

    void memory(const Instr &instr) {
        const Access &a = k_.accesses[instr.access];
        Elements element; // without a sign, because indices that are not used may be anything
        std::fill_n(element.begin(), lanes_, static_cast<uint64_t>(argument(a.offset)));
        const auto add = [&](const auto *index, int64_t stride) {
            for (int lane = 0; lane < lanes_; ++lane)
                element[static_cast<size_t>(lane)] +=
                    static_cast<uint64_t>(index[lane]) * static_cast<uint64_t>(stride);
        };
        for (const AxisStride &s : a.strides)
            add(axis(s.axis), s.cls == StrideClass::Contiguous ? 1 : argument(s.stride));
        for (const IndexTerm &t : a.terms)
            add(value(t.index), t.stride == kNoArg ? 1 : argument(t.stride));
        switch (size_of(k_.buffers[a.buffer].dtype)) {
        case 1:
            return move<uint8_t>(instr, a, element);
        case 2:
            return move<uint16_t>(instr, a, element);
        case 4:
            return move<uint32_t>(instr, a, element);
        default:
            return move<uint64_t>(instr, a, element);
        }
    }

    /// Loads or stores these elements, of as many bytes as T has.
    template <class T>
    void move(const Instr &instr, const Access &a, const Elements &element) {
        std::byte *const memory = base(a.buffer);
        const uint64_t *const on = a.predicate == kNoValue ? nullptr : value(a.predicate);
        const bool load = instr.op == KOp::Load;
        for (int lane = 0; lane < lanes_; ++lane) {
            if (on && on[lane] == 0) {
                if (load)
                    current_[lane] = 0;
                continue;
            }
            std::byte *const at = memory + static_cast<int64_t>(element[static_cast<size_t>(lane)]) *
                                               static_cast<int64_t>(sizeof(T));
            if (load)
                current_[lane] = read(at, sizeof(T));
            else
                std::memcpy(at, value(instr.operands[0]) + lane, sizeof(T));
        }
    }

    void check(const Instr &instr) {
        for (int lane = 0; lane < lanes_; ++lane) {
            const uint64_t x = value(instr.operands[0])[lane];
            const bool counts = instr.guard() == kNoValue || value(instr.guard())[lane] != 0;
            if (instr.op == KOp::CheckNonzero) {
                current_[lane] = x == 0 ? 1 : x;
                if (x == 0 && counts)
                    fault(FaultCode::DivisionByZero, instr, 0, 0);
                continue;
            }
            const uint64_t limit = value(instr.operands[1])[lane];
            const auto index = static_cast<int64_t>(x);
            const bool good = index >= 0 && index < static_cast<int64_t>(limit);
            current_[lane] = good ? x : 0;
            if (!good && counts)
                fault(FaultCode::IndexOutOfRange, instr, index, static_cast<int64_t>(limit));
        }
    }

    void run(KValue id) {
        const Instr &instr = k_.instrs[id];
        current_ = value(id);
        const auto fill = [&](uint64_t v) { std::fill_n(current_, lanes_, v); };
        switch (instr.op) {
        case KOp::Const:
            return fill(instr.bits);
        case KOp::Scalar:
            return fill(scalar(instr));
        case KOp::Arg:
            return fill(static_cast<uint64_t>(argument(static_cast<ArgId>(instr.index))));
        case KOp::Axis:
            std::copy_n(axis(static_cast<AxisId>(instr.index)), lanes_, current_);
            return;
        case KOp::Load:
        case KOp::Store:
            return memory(instr);
        case KOp::CheckIndex:
        case KOp::CheckNonzero:
            return check(instr);
        case KOp::Product:
            evaluate_lanes(KOp::Cast, instr.dtype, phase_->contraction->accumulate, product_, nullptr,
                           nullptr, current_, lanes_);
            return;
        case KOp::LoopResult:
            for (int lane = 0; lane < lanes_; ++lane) {
                const Partial &p = results_[instr.index][instr.bits / 2 * kBatch + static_cast<size_t>(lane)];
                current_[lane] = instr.bits % 2 == 1 ? p.index : p.value;
            }
            return;
        default:
            break;
        }
        const auto operand = [&](int i) {
            return instr.operands[i] == kNoValue ? nullptr : value(instr.operands[i]);
        };
        const DType from = k_.instrs[instr.operands[0]].dtype;
        evaluate_lanes(instr.op, instr.dtype, from, operand(0), operand(1), operand(2), current_, lanes_);
    }

    void run(const Region &region) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Instruction)
                run(stmt.id);
            else
                run_loop(stmt.id);
        }
    }

    // --- reductions

    static bool has_position(const Reduction &r) { return r.op >= ReduceOp::ArgMax; }
    /// What combines two values, of a reduction without positions.
    static KOp operation(const Reduction &r) {
        constexpr KOp kOps[] = {KOp::Add, KOp::Mul, KOp::Maximum, KOp::Minimum};
        if (r.dtype == DType::Bool)
            return r.op == ReduceOp::Add || r.op == ReduceOp::Max ? KOp::Or : KOp::And;
        return kOps[static_cast<size_t>(r.op)];
    }

    static Partial combine(const Reduction &r, Partial a, Partial b) {
        if (!has_position(r))
            return {evaluate(operation(r), r.dtype, r.dtype, std::array{a.value, b.value}.data()), 0};
        // NaN is the extreme; of equals the first wins, wherever it was folded.
        const auto test = [&](KOp op, uint64_t x, uint64_t y) {
            return evaluate(op, DType::Bool, r.dtype, std::array{x, y}.data()) != 0;
        };
        const bool nan_a = test(KOp::Ne, a.value, a.value), nan_b = test(KOp::Ne, b.value, b.value);
        const bool first = static_cast<int64_t>(a.index) <= static_cast<int64_t>(b.index);
        if (nan_a || nan_b)
            return nan_a && (!nan_b || first) ? a : b;
        if (test(KOp::Eq, a.value, b.value))
            return first ? a : b;
        return test(r.op == ReduceOp::ArgMax ? KOp::Gt : KOp::Lt, a.value, b.value) ? a : b;
    }

    /// Position of a partial that holds no element: after every other.
    static Partial empty(const Reduction &r) {
        return {identity(r.op, r.dtype), static_cast<uint64_t>(std::numeric_limits<int64_t>::max())};
    }

    void run_loop(uint32_t id) {
        const Loop &loop = k_.loops[id];
        const int64_t begin = loop.begin == kNoValue ? 0 : static_cast<int64_t>(value(loop.begin)[0]);
        const int64_t end =
            loop.end == kNoValue ? extent(loop.axis) : static_cast<int64_t>(value(loop.end)[0]);
        const int64_t length = (std::max<int64_t>(end - begin, 0) + loop.step - 1) / loop.step;
        const int64_t chunk = loop.chunk == 0 ? std::max<int64_t>(length, 1) : loop.chunk;
        auto &results = results_[id];
        results.assign(loop.reductions.size() * kBatch, {});
        if (length == 0)
            for (size_t r = 0; r < loop.reductions.size(); ++r)
                std::fill_n(results.begin() + static_cast<long>(r * kBatch), kBatch,
                            empty(loop.reductions[r]));
        const bool in_step = lanes_ == 1 && runs_in_step(id);
        if (in_step)
            widen(id);
        std::vector<Partials> level;
        for (int64_t from = 0; from < length; from += chunk) {
            const int64_t count = std::min(chunk, length - from);
            if (in_step) {
                level.push_back(fold_in_step(loop, begin + from * loop.step, count));
                continue;
            }
            level.push_back(fold(loop, count, [&](int64_t k) {
                std::fill_n(axis(loop.axis), kBatch, begin + (from + k) * loop.step);
                run(loop.body);
                Partials element(loop.reductions.size() * kBatch);
                for (size_t r = 0; r < loop.reductions.size(); ++r)
                    for (int lane = 0; lane < lanes_; ++lane) {
                        const Reduction &red = loop.reductions[r];
                        element[r * kBatch + static_cast<size_t>(lane)] = {
                            value(red.value)[lane], red.index == kNoValue ? 0 : value(red.index)[lane]};
                    }
                return element;
            }));
        }
        while (level.size() > 1) {
            std::vector<Partials> next;
            const auto results = static_cast<int64_t>(level.size());
            for (int64_t from = 0; from < results; from += chunk)
                next.push_back(fold(loop, std::min(chunk, results - from),
                                    [&](int64_t k) { return level[static_cast<size_t>(from + k)]; }));
            level = std::move(next);
        }
        if (!level.empty())
            results = std::move(level[0]);
    }

    // --- a loop whose elements run in step, at a grid point that runs by itself

    /// What is known of a loop's body.
    struct Body {
        bool known = false, in_step = false;
        std::vector<KValue> outer; ///< what it reads of what is computed outside
    };

    /// Whether its elements do not see each other, and none of them has loops of its own.
    bool runs_in_step(uint32_t id) {
        Body &body = bodies_[id];
        if (body.known)
            return body.in_step;
        const Loop &loop = k_.loops[id];
        body.known = true;
        std::vector<KValue> inside;
        for (const Stmt &stmt : loop.body) {
            if (stmt.kind != Stmt::Instruction ||
                (k_.instrs[stmt.id].op == KOp::Store && loop.order != LoopOrder::Lanes))
                return false;
            inside.push_back(stmt.id);
        }
        const auto reads = [&](KValue v) {
            if (v != kNoValue && std::ranges::find(inside, v) == inside.end() &&
                std::ranges::find(body.outer, v) == body.outer.end())
                body.outer.push_back(v);
        };
        for (const KValue v : inside) {
            const Instr &instr = k_.instrs[v];
            std::ranges::for_each(instr.operands, reads);
            if (instr.access == kNoValue)
                continue;
            reads(k_.accesses[instr.access].predicate);
            for (const IndexTerm &t : k_.accesses[instr.access].terms)
                reads(t.index);
        }
        for (const Reduction &r : loop.reductions) {
            reads(r.value);
            reads(r.index);
        }
        return body.in_step = true;
    }

    /// What is one value outside the loop is the same one for each of its elements.
    void widen(uint32_t id) {
        for (const KValue v : bodies_[id].outer)
            std::fill_n(value(v), kBatch, value(v)[0]);
        for (AxisId a = 0; a < k_.axes.size(); ++a)
            std::fill_n(axis(a), kBatch, axis(a)[0]);
        for (const Stmt &stmt : k_.loops[id].body)
            if (const Instr &instr = k_.instrs[stmt.id]; instr.op == KOp::LoopResult) {
                Partial *const of = results_[instr.index].data() + instr.bits / 2 * kBatch;
                std::fill_n(of, kBatch, of[0]);
            }
    }

    /// One chunk of `count` elements from `first` on.
    Partials fold_in_step(const Loop &loop, int64_t first, int64_t count) {
        const size_t n = loop.reductions.size();
        std::vector<Partials> partial(n);
        for (size_t r = 0; r < n; ++r) {
            const Reduction &red = loop.reductions[r];
            partial[r].assign(static_cast<size_t>(lanes_of(loop, red)), empty(red));
        }
        for (int64_t k = 0; k < count; k += kBatch) {
            lanes_ = static_cast<int>(std::min<int64_t>(kBatch, count - k));
            for (int lane = 0; lane < lanes_; ++lane)
                axis(loop.axis)[lane] = first + (k + lane) * loop.step;
            run(loop.body);
            for (size_t r = 0; r < n; ++r)
                if (loop.order == LoopOrder::Lanes && !has_position(loop.reductions[r]))
                    fold_lanes(loop.reductions[r], partial[r]);
                else
                    fold_each(loop, loop.reductions[r], k == 0, partial[r]);
        }
        lanes_ = 1;
        Partials out(n * kBatch);
        for (size_t r = 0; r < n; ++r)
            out[r * kBatch] = halved(loop.reductions[r], partial[r].data(), partial[r].size());
        return out;
    }

    void fold_each(const Loop &loop, const Reduction &r, bool begins, Partials &partial) {
        for (int lane = 0; lane < lanes_; ++lane) {
            Partial &p = partial[static_cast<size_t>(lane) % partial.size()];
            const Partial x{value(r.value)[lane], r.index == kNoValue ? 0 : value(r.index)[lane]};
            p = loop.order == LoopOrder::Sequential && begins && lane == 0 ? x : combine(r, p, x);
        }
    }

    /// The same, all lanes of the fold at once.
    void fold_lanes(const Reduction &r, Partials &partial) {
        std::array<uint64_t, kBatch> lanes;
        const auto width = static_cast<int>(partial.size());
        std::ranges::transform(partial, lanes.begin(), &Partial::value);
        for (int from = 0; from < lanes_; from += width)
            evaluate_lanes(operation(r), r.dtype, r.dtype, lanes.data(), value(r.value) + from, nullptr,
                           lanes.data(), std::min(width, lanes_ - from));
        for (size_t lane = 0; lane < partial.size(); ++lane)
            partial[lane].value = lanes[lane];
    }

    /// What so many lanes are folded to.
    static Partial halved(const Reduction &r, Partial *p, size_t width) {
        for (size_t h = width / 2; h != 0; h /= 2)
            for (size_t i = 0; i < h; ++i)
                p[i] = combine(r, p[i], p[i + h]);
        return p[0];
    }

    /// One chunk of `count` elements, which `element` makes.
    template <class F>
    Partials fold(const Loop &loop, int64_t count, F &&element) {
        const size_t n = loop.reductions.size();
        const bool sequential = loop.order == LoopOrder::Sequential;
        // partial[reduction][lane of the batch * width + lane of the fold]
        std::vector<size_t> width(n);
        std::vector<Partials> partial(n);
        for (size_t r = 0; r < n; ++r) {
            width[r] = static_cast<size_t>(lanes_of(loop, loop.reductions[r]));
            partial[r].assign(static_cast<size_t>(lanes_) * width[r], empty(loop.reductions[r]));
        }
        for (int64_t k = 0; k < count; ++k) {
            const Partials e = element(k);
            for (size_t r = 0; r < n; ++r)
                for (size_t lane = 0; lane < static_cast<size_t>(lanes_); ++lane) {
                    Partial &p = partial[r][lane * width[r] + static_cast<size_t>(k) % width[r]];
                    const Partial &x = e[r * kBatch + lane];
                    p = sequential && k == 0 ? x : combine(loop.reductions[r], p, x);
                }
        }
        Partials out(n * kBatch);
        for (size_t r = 0; r < n; ++r)
            for (size_t lane = 0; lane < static_cast<size_t>(lanes_); ++lane)
                out[r * kBatch + lane] =
                    halved(loop.reductions[r], partial[r].data() + lane * width[r], width[r]);
        return out;
    }

    // --- contraction

    struct Operand {
        const Access &access;
        const std::vector<ContractionDigit> &digits;
    };

    uint64_t bits_of(const Operand &o, int lane) {
        int64_t element = 0;
        AxisId axis_now = 0;
        int64_t rest = 0;
        for (size_t i = o.digits.size(); i-- > 0;) { // the innermost first
            const ContractionDigit &d = o.digits[i];
            if (i + 1 == o.digits.size() || d.axis != axis_now) {
                axis_now = d.axis;
                rest = axis(d.axis)[lane];
            }
            const bool outermost = i == 0 || o.digits[i - 1].axis != d.axis;
            const int64_t extent = argument(d.extent);
            element += (outermost ? rest : rest % extent) * argument(d.stride);
            rest = outermost ? 0 : rest / extent;
        }
        const int size = size_of(k_.buffers[o.access.buffer].dtype);
        return read(address(o.access, lane) + element * size, size);
    }

    double as_double(const Operand &o, int lane, DType dtype) {
        const uint64_t bits = bits_of(o, lane);
        uint64_t wide = 0;
        evaluate_lanes(KOp::Cast, DType::F64, dtype, &bits, nullptr, nullptr, &wide, 1);
        return std::bit_cast<double>(wide);
    }

    /// Floats are summed in double, one after another, and rounded once to the accumulation dtype: more exact
    /// than any order of a compiled product; unless the order is fixed. Integers wrap.
    void contract(const Contraction &c) {
        const Operand lhs{c.lhs, c.lhs_digits}, rhs{c.rhs, c.rhs_digits};
        const int64_t n = extent(c.k);
        for (int lane = 0; lane < lanes_; ++lane) {
            double sum = 0;
            uint64_t integer = 0;
            for (int64_t k = 0; k < n; ++k) {
                std::fill_n(axis(c.k), kBatch, k);
                if (c.ascending) {
                    const double x = as_double(lhs, lane, c.dtype), y = as_double(rhs, lane, c.dtype);
                    sum = c.accumulate == DType::F64 ? std::fma(x, y, sum)
                                                     : std::fma(static_cast<float>(x), static_cast<float>(y),
                                                                static_cast<float>(sum));
                } else if (is_float(c.dtype)) {
                    sum += as_double(lhs, lane, c.dtype) * as_double(rhs, lane, c.dtype);
                } else {
                    integer += static_cast<uint64_t>(signed_at(lhs, lane, c.dtype)) *
                               static_cast<uint64_t>(signed_at(rhs, lane, c.dtype));
                }
            }
            const uint64_t bits = is_float(c.dtype) ? std::bit_cast<uint64_t>(sum) : integer;
            const DType wide = is_float(c.dtype) ? DType::F64 : DType::I64;
            evaluate_lanes(KOp::Cast, c.accumulate, wide, &bits, nullptr, nullptr, product_ + lane, 1);
        }
    }

    int64_t signed_at(const Operand &o, int lane, DType dtype) {
        const uint64_t bits = bits_of(o, lane);
        uint64_t wide = 0;
        evaluate_lanes(KOp::Cast, DType::I64, dtype, &bits, nullptr, nullptr, &wide, 1);
        return static_cast<int64_t>(wide);
    }

    const Kernel &k_;
    const KernelFrame &frame_;
    std::byte *worker_;
    const Phase *phase_ = nullptr;
    int lanes_ = 1;
    std::vector<uint64_t> values_; // by instruction and batch lane
    std::vector<int64_t> axis_;    // by axis and batch lane
    std::vector<Partials> results_;
    std::vector<Body> bodies_;      // by loop
    uint64_t product_[kBatch] = {}; ///< of the dtype of the sums
    uint64_t *current_ = nullptr;
};

} // namespace

uint64_t evaluate(KOp op, DType dtype, DType from, const uint64_t *operands) {
    uint64_t result = 0;
    evaluate_lanes(op, dtype, from, operands, operands + 1, operands + 2, &result, 1);
    return result;
}

void interpret_phase(const Kernel &kernel, const Phase &phase, const KernelFrame &frame, void *worker) {
    const FloatEnvironment environment;
    Interpreter(kernel, frame, worker).run(phase);
}

void interpret(const Kernel &kernel, const KernelFrame &frame, void *worker) {
    const FloatEnvironment environment;
    Interpreter interpreter(kernel, frame, worker);
    for (const Phase &phase : kernel.phases)
        interpreter.run(phase);
}

} // namespace lz::ir
