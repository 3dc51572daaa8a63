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
    const bool has_pairs = !pair_function(wide.op).empty() || limited(wide).x != kNoValue;
    return wide.dtype == DType::F32 && has_pairs ? instr.operands[0] : kNoValue;
}

/// Of a half that is rounded from an f32 for one reader: the f32, unless it is a half as it stands.
KValue PhaseEmitter::rounded_alone(KValue half) const {
    const Instr &instr = kernel_.instrs[half];
    if (instr.op != KOp::Cast || !is_half(instr.dtype) || uses_[half] != 1 || !names_[half].empty())
        return kNoValue;
    const KValue wide = instr.operands[0];
    return kernel_.instrs[wide].dtype == DType::F32 && !holds_half(wide, instr.dtype) ? wide : kNoValue;
}

/// Computes packets of those halves of the region whose operands are packets of halves or the same for all,
/// and of those f32 that are such halves by a limit. What only they use is not written any more. All loads
/// and what does not vary have been written.
void PhaseEmitter::write_pairs(const Region &region, const Packet &p) {
    if (p.width % 2 != 0)
        return;
    struct Pairs {
        DType half;
        KValue packet; ///< whose element it is: of its own, or of an f32's that is the same number
    };
    std::map<KValue, Pairs> pairs;              // by value: halves, and limited f32
    std::map<KValue, std::string> same_for_all; // f32 values
    const auto packet_of = [&](KValue half) -> std::string {
        const std::string &name = names_[half];
        if (const auto found = pairs.find(half); found != pairs.end())
            return fmt::format("halves{}", found->second.packet);
        return name.ends_with(kElement) ? name.substr(0, name.size() - kElement.size()) : "";
    };
    const auto word = [&](KValue x, DType half) -> std::string {
        const Instr &instr = kernel_.instrs[x];
        if (uint16_t bits = 0; instr.op == KOp::Const && half_bits(half, instr.bits, bits))
            return fmt::format("0x{0:04x}{0:04x}u", bits);
        if (pairs.contains(x))
            return pairs.at(x).half == half ? packet_of(x) + ".w[p]" : "";
        if (instr.op != KOp::Cast || instr.dtype != DType::F32 ||
            kernel_.instrs[instr.operands[0]].dtype != half)
            return "";
        if (const std::string packet = packet_of(instr.operands[0]); !packet.empty())
            return packet + ".w[p]";
        if (const auto found = both_.find(x); found != both_.end() && found->second == half)
            return fmt::format("both{}", x);
        if (names_[x].empty())
            return "";
        return same_for_all.try_emplace(x, fmt::format("both{}", x)).first->second;
    };
    std::vector<std::string> lines;
    /// Notes that `result` is what the f32 operation `wide` gives of pairs, if pairs have it all.
    const auto add = [&](KValue result, KValue wide, DType half) {
        const Instr &operation = kernel_.instrs[wide];
        const Limited limit = limited(operation);
        const bool is_limit = limit.x != kNoValue;
        std::array<std::string, 2> words;
        for (size_t i = 0; i < words.size(); ++i) {
            const KValue x = !is_limit ? operation.operands[i] : i == 0 ? limit.x : limit.limit;
            if (x == kNoValue)
                break;
            words[i] = word(x, half);
            if (words[i].empty())
                return;
        }
        if (!words[0].ends_with(".w[p]") && !words[1].ends_with(".w[p]"))
            return;
        pairs.emplace(result, Pairs{half, result});
        lines.push_back(fmt::format(
            "halves{}.w[p] = {}_{}({}{}{});", result, is_limit ? limit.name : pair_function(operation.op),
            half == DType::F16 ? "halves" : "bfloats", words[0], words[1].empty() ? "" : ", ", words[1]));
    };
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop || !names_[stmt.id].empty() || rare_.only_for(stmt.id))
            continue;
        if (const KValue wide = operation_of_half(stmt.id); wide != kNoValue && names_[wide].empty()) {
            const DType half = kernel_.instrs[stmt.id].dtype;
            if (const auto limited = pairs.find(wide); limited != pairs.end() && limited->second.half == half)
                pairs.emplace(stmt.id, Pairs{half, wide});
            else
                add(stmt.id, wide, half);
        } else if (limited(kernel_.instrs[stmt.id]).x != kNoValue)
            for (const DType half : {DType::F16, DType::BF16})
                if (!pairs.contains(stmt.id))
                    add(stmt.id, stmt.id, half);
    }
    if (pairs.empty())
        return;
    for (const auto &[x, name] : same_for_all) {
        const bool f16 = kernel_.instrs[kernel_.instrs[x].operands[0]].dtype == DType::F16;
        w_.line("const unsigned {} = {}({}) * 0x10001u;", name, f16 ? "to_half" : "to_bfloat", value(x));
        both_.emplace(x, f16 ? DType::F16 : DType::BF16);
    }
    for (const auto &[result, of] : pairs)
        if (of.packet == result)
            w_.line("Packet<unsigned short, {}> halves{};", p.width, result);
    w_.plain("#pragma unroll");
    w_.open("for (int p = 0; p < {}; ++p)", p.width / 2);
    for (const std::string &line : lines)
        w_.line("{}", line);
    w_.close();
    const auto wide_of = [&](KValue result) {
        const Instr &instr = kernel_.instrs[result];
        return is_half(instr.dtype) ? instr.operands[0] : result;
    };
    std::set<KValue> absorbed; // operations that only pairs need
    for (const auto &[result, of] : pairs) {
        const KValue wide = wide_of(result);
        const KValue first = kernel_.instrs[wide].operands[0];
        if (wide != result && uses_[wide] <= 1)
            absorbed.insert(wide);
        if (info(kernel_.instrs[first].op).cls == KOpClass::Compare && uses_[first] <= 1)
            absorbed.insert(first);
    }
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
            if (pairs.contains(stmt.id) || absorbed.contains(stmt.id))
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
    for (const auto &[result, of] : pairs) {
        const std::string element = fmt::format("halves{}{}", of.packet, kElement);
        if (is_half(kernel_.instrs[result].dtype))
            names_[result] = element;
        else // written once, where it is read
            widened_[result] = (of.half == DType::F16 ? "from_half(" : "from_bfloat(") + element + ")";
    }
    for (const auto &[result, of] : pairs) {
        const KValue wide = wide_of(result);
        if (names_[wide].empty() && !read.contains(wide))
            names_[wide] = "unread";
        for (const KValue x : kernel_.instrs[wide].operands) {
            const bool by_bits = x != kNoValue && (kernel_.instrs[x].op == KOp::Cast ||
                                                   info(kernel_.instrs[x].op).cls == KOpClass::Compare);
            if (by_bits && names_[x].empty() && !read.contains(x))
                names_[x] = "unread";
        }
    }
}

/// Whether a half that an element rounds from an f32 is what pairs compute from, by more than signs: then two
/// are rounded at once, and what follows is done two at a time.
bool PhaseEmitter::begins_pairs(const Region &region, size_t at) const {
    const KValue first = region[at].id;
    const Instr &instr = kernel_.instrs[first];
    if (instr.op != KOp::Cast || !is_half(instr.dtype) || !names_[first].empty() || rare_.only_for(first))
        return false;
    const Instr &wide = kernel_.instrs[instr.operands[0]];
    if (wide.dtype != DType::F32 || info(wide.op).cls != KOpClass::Arith ||
        !names_[instr.operands[0]].empty() || holds_half(instr.operands[0], instr.dtype))
        return false;
    std::set<KValue> halves = {first};
    for (size_t i = at + 1; i < region.size(); ++i) {
        const KValue operation = operation_of_half(region[i].id);
        if (operation == kNoValue || kernel_.instrs[region[i].id].dtype != instr.dtype ||
            !names_[region[i].id].empty())
            continue;
        bool all = true, from_first = false;
        for (const KValue x : kernel_.instrs[operation].operands) {
            if (x == kNoValue)
                continue;
            const Instr &operand = kernel_.instrs[x];
            uint16_t bits = 0;
            const bool is_cast = operand.op == KOp::Cast && operand.dtype == DType::F32;
            const bool from = is_cast && halves.contains(operand.operands[0]);
            const bool packed = is_cast && kernel_.instrs[operand.operands[0]].dtype == instr.dtype &&
                                (names_[operand.operands[0]].ends_with(kElement) || !names_[x].empty());
            from_first = from_first || from;
            all = all && (from || packed ||
                          (operand.op == KOp::Const && half_bits(instr.dtype, operand.bits, bits)));
        }
        if (!all || !from_first)
            continue;
        halves.insert(region[i].id);
        const KOp op = kernel_.instrs[operation].op;
        if (op != KOp::Neg && op != KOp::Abs)
            return true;
    }
    return false;
}

/// Elements first ... at of a packet's region, the last of which is a half that begins pairs; then those
/// pairs.
void PhaseEmitter::write_rounded(const Region &region, size_t first, size_t at, const Packet &p,
                                 const ElementLoop &loop, const std::function<void()> &before) {
    const KValue half = region[at].id;
    const Instr &instr = kernel_.instrs[half];
    across_ = read_behind(region, first, at);
    for (const KValue x : across_)
        w_.line("{} v{}[{}];", value_type(x), x, p.width);
    w_.line("float z{}[{}];", half, p.width);
    loop([&] {
        before();
        w_.line("z{}[e] = {};", half, value(instr.operands[0]));
    });
    across_.clear();
    w_.line("Packet<unsigned short, {}> halves{};", p.width, half);
    w_.plain("#pragma unroll");
    w_.line("for (int p = 0; p < {}; ++p)", p.width / 2);
    w_.indent();
    w_.line("halves{0}.w[p] = {1}(z{0}[2 * p], z{0}[2 * p + 1]);", half,
            instr.dtype == DType::F16 ? "to_halves" : "to_bfloats");
    w_.outdent();
    names_[half] = fmt::format("halves{}{}", half, kElement);
    write_pairs(region, p);
}

} // namespace lz::codegen::cuda
