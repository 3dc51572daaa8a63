#include "codegen/cuda/emitter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>

namespace lz::codegen::cuda {

using namespace ir;

// Every operation of a half type is one in f32 whose result is rounded. Sums, differences and products of two
// halves that are rounded once, as the instructions for pairs of halves do, are the same numbers: f32 has
// more than twice their digits and two more, so rounding to it first changes nothing (Figueroa, "When is
// double rounding innocuous?", 1995), and where f32 has subnormals the exact result has no more digits than
// they have. So two neighbours take one instruction where each of them took two.

namespace {

constexpr std::string_view kElement = ".at(e)";

/// What does an operation of pairs; empty where nothing does.
std::string_view pair_function(KOp op) {
    switch (op) {
    case KOp::Add:
        return "add";
    case KOp::Sub:
        return "subtract";
    case KOp::Mul:
        return "multiply";
    case KOp::Maximum:
        return "maximum";
    case KOp::Minimum:
        return "minimum";
    case KOp::Neg:
        return "negate";
    case KOp::Abs:
        return "absolute";
    default:
        return "";
    }
}

/// The half that an f32 is; false where it is none.
bool half_bits(DType half, uint64_t f32_bits, uint16_t &bits) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(f32_bits));
    bits = half == DType::F16 ? float_to_half(x) : float_to_bfloat(x);
    return (half == DType::F16 ? half_to_float(bits) : bfloat_to_float(bits)) == x;
}

} // namespace

/// Whether an f32 is a half whatever its operands are, so that nothing is to be rounded.
bool PhaseEmitter::holds_half(KValue x, DType half, int depth) const {
    const Instr &instr = kernel_.instrs[x];
    const auto operand = [&](int i) { return depth > 0 && holds_half(instr.operands[i], half, depth - 1); };
    uint16_t bits = 0;
    switch (instr.op) {
    case KOp::Cast:
        return kernel_.instrs[instr.operands[0]].dtype == half;
    case KOp::Const:
        return half_bits(half, instr.bits, bits);
    case KOp::Abs:
    case KOp::Neg:
        return operand(0);
    case KOp::Minimum:
    case KOp::Maximum:
        return operand(0) && operand(1);
    case KOp::Select:
        return operand(1) && operand(2);
    default:
        return false;
    }
}

/// Of a half that is rounded from an f32 operation that pairs have: that operation.
KValue PhaseEmitter::operation_of_half(KValue half) const {
    const Instr &instr = kernel_.instrs[half];
    if (instr.op != KOp::Cast || !is_half(instr.dtype))
        return kNoValue;
    const Instr &wide = kernel_.instrs[instr.operands[0]];
    return wide.dtype == DType::F32 && !pair_function(wide.op).empty() ? instr.operands[0] : kNoValue;
}

/// Computes packets of those halves of the region whose operands are packets of halves or the same for all.
/// What only they use is not written any more. All loads and what does not vary have been written.
void PhaseEmitter::write_pairs(const Region &region, const Packet &p) {
    if (p.width % 2 != 0)
        return;
    std::set<KValue> pairs;
    std::map<KValue, std::string> same_for_all; // f32 values
    const auto packet_of = [&](KValue half) -> std::string {
        const std::string &name = names_[half];
        if (pairs.contains(half))
            return fmt::format("halves{}", half);
        return name.ends_with(kElement) ? name.substr(0, name.size() - kElement.size()) : "";
    };
    const auto word = [&](KValue x, DType half) -> std::string {
        const Instr &instr = kernel_.instrs[x];
        if (uint16_t bits = 0; instr.op == KOp::Const && half_bits(half, instr.bits, bits))
            return fmt::format("0x{0:04x}{0:04x}u", bits);
        if (instr.op != KOp::Cast || instr.dtype != DType::F32 ||
            kernel_.instrs[instr.operands[0]].dtype != half)
            return "";
        if (const std::string packet = packet_of(instr.operands[0]); !packet.empty())
            return packet + ".w[p]";
        if (names_[x].empty())
            return "";
        return same_for_all.try_emplace(x, fmt::format("both{}", x)).first->second;
    };
    std::vector<std::string> lines;
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop || !names_[stmt.id].empty())
            continue;
        const KValue wide = operation_of_half(stmt.id);
        if (wide == kNoValue || !names_[wide].empty())
            continue;
        const Instr &operation = kernel_.instrs[wide];
        const DType half = kernel_.instrs[stmt.id].dtype;
        std::array<std::string, 2> words;
        bool all = true;
        for (size_t i = 0; i < words.size() && operation.operands[i] != kNoValue; ++i) {
            words[i] = word(operation.operands[i], half);
            all = all && !words[i].empty();
        }
        const bool varies = words[0].ends_with(".w[p]") || words[1].ends_with(".w[p]");
        if (!all || !varies)
            continue;
        pairs.insert(stmt.id);
        lines.push_back(fmt::format("halves{}.w[p] = {}_{}({}{}{});", stmt.id, pair_function(operation.op),
                                    half == DType::F16 ? "halves" : "bfloats", words[0],
                                    words[1].empty() ? "" : ", ", words[1]));
    }
    if (pairs.empty())
        return;
    for (const auto &[x, name] : same_for_all) {
        const bool f16 = kernel_.instrs[kernel_.instrs[x].operands[0]].dtype == DType::F16;
        w_.line("const unsigned {} = {}({}) * 0x10001u;", name, f16 ? "to_half" : "to_bfloat", value(x));
    }
    for (const KValue half : pairs)
        w_.line("Packet<unsigned short, {}> halves{};", p.width, half);
    w_.plain("#pragma unroll");
    w_.open("for (int p = 0; p < {}; ++p)", p.width / 2);
    for (const std::string &line : lines)
        w_.line("{}", line);
    w_.close();
    // What is still read one by one.
    std::set<KValue> read;
    const std::function<void(const Region &)> walk = [&](const Region &of) {
        for (const Stmt &stmt : of) {
            if (stmt.kind == Stmt::Loop) {
                for (const Reduction &r : kernel_.loops[stmt.id].reductions)
                    read.insert({r.value, r.index});
                walk(kernel_.loops[stmt.id].body);
                continue;
            }
            const Instr &instr = kernel_.instrs[stmt.id];
            if (pairs.contains(stmt.id))
                continue;
            const bool by_pairs = std::ranges::any_of(
                pairs, [&](KValue half) { return kernel_.instrs[half].operands[0] == stmt.id; });
            if (by_pairs)
                continue;
            read.insert(std::begin(instr.operands), std::end(instr.operands));
            if (instr.access != kNoValue) {
                const Access &a = kernel_.accesses[instr.access];
                read.insert(a.predicate);
                for (const IndexTerm &t : a.terms)
                    read.insert(t.index);
            }
        }
    };
    walk(region);
    for (const Loop &loop : kernel_.loops)
        for (const Reduction &r : loop.reductions)
            read.insert({r.value, r.index});
    for (const KValue half : pairs)
        names_[half] = fmt::format("halves{}{}", half, kElement);
    for (const KValue half : pairs) {
        const KValue wide = kernel_.instrs[half].operands[0];
        if (!read.contains(wide))
            names_[wide] = "unread";
        for (const KValue x : kernel_.instrs[wide].operands)
            if (x != kNoValue && !read.contains(x) && names_[x].empty() && kernel_.instrs[x].op == KOp::Cast)
                names_[x] = "unread";
    }
}

} // namespace lz::codegen::cuda
