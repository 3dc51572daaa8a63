#include "codegen/cuda/emitter.h"

#include "codegen/cuda/prelude.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <bit>

namespace lz::codegen::cuda {

using namespace ir;

namespace {
/// Bytes that a thread has under way of what a loop reads: with 1280 threads on an SM 40 KiB.
constexpr int kLoopBytes = 32;
/// As in scale_by_power: 1.5 * 2^23 and twice the bias.
constexpr float kPowerMagic = 12583166.0F;
} // namespace

bool PhaseEmitter::has_loop(const Region &region) const {
    return std::ranges::find(region, Stmt::Loop, &Stmt::kind) != region.end();
}

bool PhaseEmitter::has_effect(KValue v) const {
    return kernel_.instrs[v].op == KOp::Store || info(kernel_.instrs[v].op).cls == KOpClass::Check;
}

bool PhaseEmitter::varies(KValue v, AxisId axis) const {
    if (names_.has(v))
        return names_[v].of_element;
    const Instr &instr = kernel_.instrs[v];
    switch (instr.op) {
    case KOp::Axis:
        return instr.index == axis;
    case KOp::LoopResult:
        return loop_of_[v] != kNoValue || !in_rows_;
    case KOp::Product:
        return true;
    default:
        break;
    }
    const auto any = [&](KValue x) { return x != kNoValue && varies(x, axis); };
    if (instr.access != kNoValue) {
        const Access &a = kernel_.accesses[instr.access];
        if (moves_along(a, axis) || stored_.contains(a.buffer) || any(a.predicate) ||
            std::ranges::any_of(a.terms, [&](const IndexTerm &t) { return any(t.index); }))
            return true;
    }
    return std::ranges::any_of(instr.operands, any);
}

void PhaseEmitter::write_value(KValue v, const std::string &expression) {
    const bool across = across_.contains(v);
    const bool is_other =
        !across && is_name(expression) && info(kernel_.instrs[v].op).cls != KOpClass::Memory;
    const std::string name = is_other ? expression : fmt::format("v{}{}", v, across ? "[e]" : "");
    if (!is_other)
        w_.line("{}{} = {};", across ? "" : fmt::format("const {} ", value_type(v)), name, bare(expression));
    Written written = names_[v];
    written.name = name;
    written.of_element = in_element_;
    names_.give(v, std::move(written));
}

void PhaseEmitter::write_instr(KValue v) {
    const Instr &instr = kernel_.instrs[v];
    if (names_.has(v) || is_dead(v))
        return;
    if (rare_.only_for(v) && !in_rare_)
        return;
    if (instr.op == KOp::Rarely)
        return write_rarely(v);
    if (const Written &pairs = names_[v]; !pairs.packet.empty())
        return write_value(v,
                           fmt::format("{}({}.at(e))", pairs.half == DType::F16 ? "from_half" : "from_bfloat",
                                       pairs.packet));
    switch (info(instr.op).cls) {
    case KOpClass::Leaf:
    case KOpClass::Control:
        return;
    case KOpClass::Check: {
        const std::string guard = instr.guard() == kNoValue ? "" : ", " + value(instr.guard());
        const std::string source = instr.source == kNoValue ? "0xffffffff" : fmt::format("{}", instr.source);
        if (instr.op == KOp::CheckIndex)
            write_value(v,
                        fmt::format("check_index({}, {}, {}, {}{})", fault(v), source,
                                    bare(value(instr.operands[0])), bare(value(instr.operands[1])), guard));
        else
            write_value(v, fmt::format("check_nonzero<{}>({}, {}, {}{})", c_type(instr.dtype), fault(v),
                                       source, bare(value(instr.operands[0])), guard));
        return;
    }
    case KOpClass::Memory: {
        const Access &a = kernel_.accesses[instr.access];
        if (in_rows_ && !in_element_ && !in_row_loop_)
            note_row_access(instr, "");
        const std::string at = element(a);
        const std::string predicate = a.predicate == kNoValue ? "" : value(a.predicate);
        if (instr.op == KOp::Load) {
            write_value(v, predicate.empty() ? at : fmt::format("{} ? {} : 0", predicate, at));
            return;
        }
        std::string condition = predicate;
        if (in_rows_ && !in_element_ && !has_row_alone()) {
            const std::string_view first =
                schedule_.cluster_blocks > 1 ? "rank == 0 && row_thread == 0" : "row_thread == 0";
            condition = condition.empty() ? std::string(first) : fmt::format("{} && {}", first, condition);
        }
        const std::string stored = value(instr.operands[0]);
        const std::string when = condition.empty() ? "" : "if (" + condition + ") ";
        if (kernel_.buffers[a.buffer].mode == BufferMode::Worker && in_registers())
            row_width_ == 1 ? w_.line("{}{} = {};", when, kept_in(a.buffer), bare(stored))
                            : w_.line("{}{}.set(e, {});", when, kept_in(a.buffer), bare(stored));
        else
            w_.line("{}{} = {};", when, at, bare(stored));
        return;
    }
    default:
        break;
    }
    need(info(instr.op).cls != KOpClass::Math, "a function in it was not expanded");
    Operands o;
    o.from = kernel_.instrs[instr.operands[0]].dtype;
    // A wide operation of narrow indices is still wide.
    const bool widen = o.from == DType::I64 && !is_index(v) && info(instr.op).cls != KOpClass::Compare;
    const auto operand = [&](int i) -> std::string {
        const KValue x = instr.operands[i];
        if (x == kNoValue)
            return "";
        const bool plain = instr.op == KOp::Select || instr.op == KOp::Cast || !widen || !is_index(x);
        return plain ? value(x) : "(long long)" + value(x);
    };
    if (const auto [name, x, limit] = limited(instr); x != kNoValue)
        return write_value(v, fmt::format("{}({}, {})", name, bare(value(x)), bare(value(limit))));
    if (const KValue sum = power_sum(instr); sum != kNoValue)
        return write_value(v, fmt::format("scale_by_sum({}, {})", value(instr.operands[0]), value(sum)));
    if (const KValue wide = rounded(instr); wide != kNoValue && !names_.can_read(instr.operands[0])) {
        if (holds_half(wide, o.from))
            return write_value(v, value(wide));
        const std::string_view round = o.from == DType::F16 ? "round_half" : "round_bfloat";
        return write_value(v, fmt::format("{}({})", round, bare(value(wide))));
    }
    if (instr.op == KOp::Cast && instr.dtype == DType::BF16 && o.from == DType::F32 &&
        holds_half(instr.operands[0], DType::BF16))
        return write_value(v, fmt::format("upper_half({})", value(instr.operands[0])));
    o.x = operand(0);
    o.y = operand(1);
    o.z = operand(2);
    if (instr.operands[1] != kNoValue && kernel_.instrs[instr.operands[1]].op == KOp::Const)
        o.y_is_small_const =
            kernel_.instrs[instr.operands[1]].bits < 8ULL * static_cast<uint64_t>(size_of(instr.dtype));
    const bool whole = !is_index(v) && is_integer(instr.dtype) && o.from == instr.dtype;
    if (const std::string known = whole ? known_result(instr.op, o) : ""; !known.empty()) {
        Written written = names_[v];
        written.name = known;
        written.of_element = in_element_;
        names_.give(v, std::move(written));
        return;
    }
    write_value(v, is_index(v) ? index_expression(instr.op, o) : expression(instr.op, instr.dtype, o));
}

/// What an extreme of two does of `limit < x ? limit : x`, where the limit is a constant other than a zero,
/// whose signs such a choice does not tell apart. NaN stays NaN.
PhaseEmitter::Limited PhaseEmitter::limited(const Instr &instr) const {
    if (instr.dtype != DType::F32 || instr.op != KOp::Select)
        return {};
    const Instr &comparison = kernel_.instrs[instr.operands[0]];
    if ((comparison.op != KOp::Lt && comparison.op != KOp::Gt) ||
        comparison.operands[0] != instr.operands[1] || comparison.operands[1] != instr.operands[2])
        return {};
    const Instr &limit = kernel_.instrs[instr.operands[1]];
    const auto number = std::bit_cast<float>(static_cast<uint32_t>(limit.bits));
    if (limit.op != KOp::Const || number != number || number == 0)
        return {};
    return {comparison.op == KOp::Gt ? "maximum" : "minimum", instr.operands[2], instr.operands[1]};
}

/// Of a half that becomes an f32 again: the f32 that it was rounded from.
KValue PhaseEmitter::rounded(const Instr &instr) const {
    if (instr.op != KOp::Cast || instr.dtype != DType::F32)
        return kNoValue;
    const Instr &half = kernel_.instrs[instr.operands[0]];
    const bool is_rounded =
        half.op == KOp::Cast && is_half(half.dtype) && kernel_.instrs[half.operands[0]].dtype == DType::F32;
    return is_rounded ? half.operands[0] : kNoValue;
}

/// Of x * 2^(sum - c): the sum, if its low bits are what scale_by_power would make of the difference.
KValue PhaseEmitter::power_sum(const Instr &instr) const {
    if (instr.op != KOp::Scalb || instr.dtype != DType::F32)
        return kNoValue;
    const Instr &power = kernel_.instrs[instr.operands[1]];
    if (power.op != KOp::Sub)
        return kNoValue;
    const Instr &c = kernel_.instrs[power.operands[1]];
    const bool magic =
        c.op == KOp::Const && std::bit_cast<float>(static_cast<uint32_t>(c.bits)) == kPowerMagic;
    return magic ? power.operands[0] : kNoValue;
}

void PhaseEmitter::write_region(const Region &region) {
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop)
            write_loop(stmt.id);
        else
            write_instr(stmt.id);
    }
}

void PhaseEmitter::write_loop(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    if (in_rows_ && !in_element_ && loop.order == LoopOrder::Lanes)
        return write_row_loop(id);
    need(loop.order == LoopOrder::Sequential || loop.reductions.empty(),
         "lanes are folded where a thread has a point of its own");
    write_sequential(id);
}

void PhaseEmitter::write_sequential(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    const std::string begin = loop.begin == kNoValue ? "0" : index(loop.begin);
    const std::string end = loop.end == kNoValue ? extent(loop.axis) : index(loop.end);
    int levels = 0;
    if (loop.chunk > 0 && !loop.reductions.empty()) {
        need(loop.chunk == kSequentialChunk, "a chunk of it has another number of elements");
        const double most = schedule_.index32 ? 0x1p31 : 0x1p40;
        for (double reach = static_cast<double>(loop.chunk); reach < most;
             reach *= static_cast<double>(loop.chunk))
            ++levels;
    }
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} {} = {};", reduce_type(loop.reductions[r]), result(id, r),
                bare(reduce_identity(loop.reductions[r])));
    const bool of_rows = in_rows_ && !in_element_ && !in_row_loop_;
    ++loops_open_;
    if (of_rows)
        barriers_.open_loop();
    write_levels(loop, id, levels, begin, end);
    if (of_rows)
        barriers_.close();
    --loops_open_;
}

/// Chunks of chunks: each level folds the results of the one below in order.
void PhaseEmitter::write_levels(const Loop &loop, uint32_t id, int level, const std::string &begin,
                                const std::string &end) {
    const auto name = [&](size_t r, int of) {
        return of == 0 ? result(id, r) : fmt::format("{}_in_{}", result(id, r), of);
    };
    const int top = level; // counts down; depth grows
    const auto depth_of = [&](int l) { return top - l; };
    std::string from = begin, to = end;
    for (int l = top; l > 0; --l) {
        int64_t size = 1;
        for (int i = 0; i < l; ++i)
            size *= loop.chunk;
        const std::string at = fmt::format("from{}_{}", id, l), until = fmt::format("to{}_{}", id, l);
        open("for ({0} {1} = {2}; {1} < {3}; {1} += {4}{5})", index_type(), at, from, to, size,
             schedule_.index32 ? "" : "ll");
        w_.line("const {} {} = {} < {} - {} ? {} + {} : {};", index_type(), until, size, to, at, at, size,
                to);
        for (size_t r = 0; r < loop.reductions.size(); ++r)
            w_.line("{} {} = {};", reduce_type(loop.reductions[r]), name(r, depth_of(l) + 1),
                    bare(reduce_identity(loop.reductions[r])));
        from = at;
        to = until;
    }
    const auto element = [&] {
        write_region(loop.body);
        for (size_t r = 0; r < loop.reductions.size(); ++r)
            write_reduced(loop.reductions[r], name(r, top), reduce_element(loop.reductions[r]));
    };
    const std::string next = write_batches(loop, from, to, element);
    if (next == from && !has_loop(loop.body) && loop.body.size() <= 16)
        w_.plain("#pragma unroll 8");
    open("for ({0} {1} = {2}; {1} < {3}; ++{1})", index_type(), axis(loop.axis), next, to);
    element();
    close();
    for (int l = 1; l <= top; ++l) {
        for (size_t r = 0; r < loop.reductions.size(); ++r)
            write_reduced(loop.reductions[r], name(r, depth_of(l)), name(r, depth_of(l) + 1));
        close();
    }
}

/// Whole batches of a loop's elements, each of which is loaded before it is computed. Returns where the rest
/// begins: `from` where nothing is loaded that can be so early.
std::string PhaseEmitter::write_batches(const Loop &loop, const std::string &from, const std::string &to,
                                        const std::function<void()> &element) {
    if (has_loop(loop.body) || loop.body.size() > 16 || entry_ == Entry::Any)
        return from;
    std::vector<KValue> loads;
    int bytes = 0;
    for (const Stmt &stmt : loop.body) {
        const Instr &instr = kernel_.instrs[stmt.id];
        if (instr.op != KOp::Load || is_dead(stmt.id) || names_.has(stmt.id))
            continue;
        const Access &a = kernel_.accesses[instr.access];
        const auto here = [&](KValue v) { return loop_of_[v] == loop_of_[stmt.id]; };
        if (a.predicate != kNoValue || stored_.contains(a.buffer) || !moves_along(a, loop.axis) ||
            kernel_.buffers[a.buffer].mode == BufferMode::Worker ||
            std::ranges::any_of(a.terms, [&](const IndexTerm &t) { return here(t.index); }))
            continue;
        loads.push_back(stmt.id);
        bytes += size_of(instr.dtype);
    }
    if (loads.empty())
        return from;
    const int batch = std::clamp(kLoopBytes / bytes, 4, 16);
    // Other loops over the axis have a name of their own.
    const std::string first = fmt::format("first_{}_{}", axis(loop.axis), loads.front()),
                      wide = fmt::format("{} - {}", to, batch - 1);
    w_.line("{} {} = {};", index_type(), first, from);
    open("for (; {} < {}; {} += {})", first, wide, first, batch);
    for (const KValue v : loads)
        w_.line("{} x{}[{}];", c_type(kernel_.instrs[v].dtype), v, batch);
    const auto each = [&](auto &&write) {
        w_.plain("#pragma unroll");
        open("for (int b = 0; b < {}; ++b)", batch);
        const size_t named = w_.size();
        w_.line("const {} {} = {} + b;", index_type(), axis(loop.axis), first);
        const size_t from = w_.size();
        write();
        if (!uses(std::string_view(w_.text()).substr(from), axis(loop.axis)))
            w_.erase(named, from - named);
        close();
    };
    each([&] {
        for (const KValue v : loads)
            w_.line("x{}[b] = {};", v, this->element(kernel_.accesses[kernel_.instrs[v].access]));
    });
    w_.line("{}", kAllBefore);
    for (const KValue v : loads)
        names_.give(v, {.name = fmt::format("x{}[b]", v)});
    each(element);
    close();
    return first;
}

// --- reductions

bool PhaseEmitter::is_ordered(const Reduction &r) {
    return is_float(r.dtype) && (r.op == ReduceOp::Add || r.op == ReduceOp::Mul);
}

std::string PhaseEmitter::reduce_op(const Reduction &r) const {
    if (r.dtype == DType::Bool && r.index == kNoValue)
        return r.op == ReduceOp::Add || r.op == ReduceOp::Max ? "Any" : "All";
    constexpr std::string_view kNames[] = {"Sum",      "Product",      "Largest",
                                           "Smallest", "FirstLargest", "FirstSmallest"};
    return std::string(kNames[static_cast<size_t>(r.op)]);
}

void PhaseEmitter::write_reduced(const Reduction &r, const std::string &into, const std::string &value) {
    if (is_ordered(r))
        w_.line("{} {} {};", into, r.op == ReduceOp::Add ? "+=" : "*=", bare(value));
    else
        w_.line("{0} = {1}()({0}, {2});", into, reduce_op(r), value);
}

std::string PhaseEmitter::reduce_type(const Reduction &r) const {
    return r.index == kNoValue ? std::string(c_type(r.dtype)) : fmt::format("Found<{}>", c_type(r.dtype));
}

std::string PhaseEmitter::reduce_identity(const Reduction &r) const {
    uint64_t bits = 0;
    const bool low = r.op == ReduceOp::Max || r.op == ReduceOp::ArgMax;
    const int width = r.dtype == DType::Bool ? 1 : 8 * size_of(r.dtype);
    if (r.op == ReduceOp::Mul) {
        bits = r.dtype == DType::F64   ? std::bit_cast<uint64_t>(1.0)
               : r.dtype == DType::F32 ? std::bit_cast<uint32_t>(1.0F)
                                       : 1;
    } else if (r.op == ReduceOp::Add) {
        bits = is_float(r.dtype) ? uint64_t{1} << (width - 1) : 0; // -0
    } else if (r.dtype == DType::F32) {
        bits = low ? 0xff800000 : 0x7f800000;
    } else if (r.dtype == DType::F64) {
        bits = low ? 0xfff0000000000000 : 0x7ff0000000000000;
    } else {
        const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
        const uint64_t lowest = is_signed(r.dtype) ? uint64_t{1} << (width - 1) : 0;
        bits = low ? lowest : all ^ lowest;
    }
    const std::string text = literal(r.dtype, bits);
    return r.index == kNoValue ? text : fmt::format("{}{{{}, 9223372036854775807ll}}", reduce_type(r), text);
}

std::string PhaseEmitter::reduce_element(const Reduction &r) {
    const std::string x = value(r.value);
    if (r.index != kNoValue)
        return fmt::format("{}{{{}, {}}}", reduce_type(r), x, value(r.index));
    // Literals and indices are of type int, and a Sum takes two of one type.
    const bool same = value_type(r.value) == c_type(r.dtype) &&
                      (is_float(r.dtype) || kernel_.instrs[r.value].op != KOp::Const);
    return same ? x : fmt::format("({}){}", c_type(r.dtype), x);
}

} // namespace lz::codegen::cuda
