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
    if (instr.op != KOp::Cast || !is_half(instr.dtype) || uses_[half] != 1 || names_.has(half))
        return kNoValue;
    const KValue wide = instr.operands[0];
    return kernel_.instrs[wide].dtype == DType::F32 && !holds_half(wide, instr.dtype) ? wide : kNoValue;
}

/// The word of two equal halves that an f32 is which is the same for all elements; written where it is not.
std::string PhaseEmitter::same_word(KValue x, DType half) {
    if (const Written &known = names_[x]; !known.word.empty() && known.half == half)
        return known.word;
    Written written = names_[x];
    written.word = fmt::format("both{}", words_++);
    written.half = half;
    w_.line("const unsigned {} = {}({}) * 0x10001u;", written.word,
            half == DType::F16 ? "to_half" : "to_bfloat", value(x));
    names_.give(x, written);
    return written.word;
}

/// Computes packets of those halves of the region, from statement `first` on, whose operands are packets of
/// halves or the same for all, and of those f32 that are one of two such halves. What only they use is not
/// written any more. All loads and what does not vary have been written.
void PhaseEmitter::write_pairs(const Region &region, size_t first, const Packet &p) {
    if (p.width % 2 != 0)
        return;
    /// The packet whose elements an f32 operand is; empty where there is none.
    const auto packet_of = [&](KValue x, DType half) -> std::string {
        if (const Written &known = names_[x]; !known.packet.empty())
            return known.half == half ? known.packet : "";
        const Instr &instr = kernel_.instrs[x];
        const bool is_cast = instr.op == KOp::Cast && instr.dtype == DType::F32 &&
                             kernel_.instrs[instr.operands[0]].dtype == half;
        return is_cast ? names_[instr.operands[0]].packet : "";
    };
    const auto is_same = [&](KValue x, DType half) {
        const Instr &instr = kernel_.instrs[x];
        uint16_t bits = 0;
        if (instr.op == KOp::Const)
            return half_bits(half, instr.bits, bits);
        if (!names_[x].word.empty())
            return names_[x].half == half;
        return instr.op == KOp::Cast && instr.dtype == DType::F32 &&
               kernel_.instrs[instr.operands[0]].dtype == half && names_.can_read(x) && !varies(x, p.axis);
    };
    const auto word_of = [&](KValue x, DType half) -> std::string {
        if (const std::string packet = packet_of(x, half); !packet.empty())
            return packet + ".w[p]";
        const Instr &instr = kernel_.instrs[x];
        if (uint16_t bits = 0; instr.op == KOp::Const && half_bits(half, instr.bits, bits))
            return fmt::format("0x{0:04x}{0:04x}u", bits);
        return same_word(x, half);
    };
    /// An extreme of two f32, which is a half where they are.
    const auto is_one_of_two = [&](KValue v) {
        const Instr &instr = kernel_.instrs[v];
        const bool extreme = instr.op == KOp::Minimum || instr.op == KOp::Maximum;
        return (extreme && instr.dtype == DType::F32) || limited(instr).x != kNoValue;
    };
    std::vector<std::string> packets, lines;
    const auto name_element = [&](KValue result, DType half, const std::string &packet) {
        const bool is_f32 = kernel_.instrs[result].dtype == DType::F32; // is written once, where it is read
        names_.give(
            result,
            {.name = is_f32 ? "" : packet + ".at(e)", .packet = packet, .half = half, .of_element = true});
    };
    /// Makes `result` what the f32 operation `wide` gives of pairs, if pairs have it all.
    const auto add = [&](KValue result, KValue wide, DType half) {
        const Instr &operation = kernel_.instrs[wide];
        const Limited limit = limited(operation);
        const bool is_limit = limit.x != kNoValue;
        std::vector<KValue> operands = {operation.operands[0]};
        if (is_limit)
            operands = {limit.x, limit.limit};
        else if (operation.operands[1] != kNoValue)
            operands.push_back(operation.operands[1]);
        const auto is_packet = [&](KValue x) { return !packet_of(x, half).empty(); };
        if (std::ranges::none_of(operands, is_packet) ||
            !std::ranges::all_of(operands, [&](KValue x) { return is_packet(x) || is_same(x, half); }))
            return;
        std::string words;
        for (const KValue x : operands)
            words += (words.empty() ? "" : ", ") + word_of(x, half);
        const std::string packet = fmt::format("halves{}", result);
        packets.push_back(packet);
        lines.push_back(fmt::format("{}.w[p] = {}_{}({});", packet,
                                    is_limit ? limit.name : pair_function(operation.op),
                                    half == DType::F16 ? "halves" : "bfloats", words));
        name_element(result, half, packet);
    };
    for (size_t i = first; i < region.size(); ++i) {
        const KValue v = region[i].id;
        if (region[i].kind == Stmt::Loop || names_.has(v) || !names_[v].packet.empty() || rare_.only_for(v))
            continue;
        if (const KValue wide = operation_of_half(v);
            wide != kNoValue && !names_.has(wide) && !is_dead(wide)) {
            const DType half = kernel_.instrs[v].dtype;
            if (const Written &limit = names_[wide]; !limit.packet.empty() && limit.half == half)
                name_element(v, half, std::string(limit.packet));
            else
                add(v, wide, half);
        } else if (is_one_of_two(v) && !is_dead(v)) {
            for (const DType half : {DType::F16, DType::BF16})
                if (names_[v].packet.empty())
                    add(v, v, half);
        }
    }
    if (lines.empty())
        return;
    for (const std::string &packet : packets)
        w_.line("Packet<unsigned short, {}> {};", p.width, packet);
    write_words(lines, p.width);
    leave_out_unread(region, first);
}

/// Statements for each word p of a packet, in a loop where it has several.
void PhaseEmitter::write_words(std::vector<std::string> lines, int width) {
    if (lines.empty())
        return;
    if (width > 2) {
        w_.plain("#pragma unroll");
        open("for (int p = 0; p < {}; ++p)", width / 2);
    }
    for (std::string &line : lines) {
        for (const auto &[index, first] :
             {std::pair("[p]", "[0]"), {"[2 * p]", "[0]"}, {"[2 * p + 1]", "[1]"}})
            for (size_t at = 0; width == 2 && (at = line.find(index, at)) != std::string::npos;)
                line.replace(at, std::string_view(index).size(), first);
        w_.line("{}", line);
    }
    if (width > 2)
        close();
}

/// Whatever of a region, from statement `first` on, nothing reads any more is not written.
void PhaseEmitter::leave_out_unread(const Region &region, size_t first) {
    std::set<KValue> read;
    const auto mark = [&](KValue x) { read.insert(x); };
    for (const Loop &loop : kernel_.loops)
        for (const Reduction &r : loop.reductions)
            read.insert({r.value, r.index});
    const std::function<void(const Region &)> mark_all = [&](const Region &of) {
        for (const Stmt &stmt : of) {
            if (stmt.kind == Stmt::Instruction) {
                for_each_read(stmt.id, mark);
                continue;
            }
            const Loop &loop = kernel_.loops[stmt.id];
            read.insert({loop.begin, loop.end});
            mark_all(loop.body);
        }
    };
    for (size_t i = region.size(); i-- > first;) {
        const Stmt &stmt = region[i];
        if (stmt.kind == Stmt::Loop)
            mark_all({stmt});
        else if (!has_effect(stmt.id) && !read.contains(stmt.id)) {
            const KOpClass cls = info(kernel_.instrs[stmt.id].op).cls;
            if (!names_.has(stmt.id) && cls != KOpClass::Leaf && cls != KOpClass::Control)
                names_.leave_unread(stmt.id);
        } else if (names_[stmt.id].packet.empty()) {
            for_each_read(stmt.id, mark);
            if (rounded(kernel_.instrs[stmt.id]) != kNoValue) // pairs may begin with the half
                mark(kernel_.instrs[stmt.id].operands[0]);
        }
    }
}

/// Whether a half that an element rounds from an f32 is what pairs compute from, by more than signs: then two
/// are rounded at once, and what follows is done two at a time.
bool PhaseEmitter::begins_pairs(const Region &region, size_t at) const {
    const KValue first = region[at].id;
    const Instr &instr = kernel_.instrs[first];
    if (instr.op != KOp::Cast || !is_half(instr.dtype) || names_.has(first) || rare_.only_for(first))
        return false;
    const Instr &wide = kernel_.instrs[instr.operands[0]];
    if (wide.dtype != DType::F32 || info(wide.op).cls != KOpClass::Arith || is_dead(instr.operands[0]) ||
        names_.has(instr.operands[0]) || holds_half(instr.operands[0], instr.dtype))
        return false;
    std::set<KValue> halves = {first};
    for (size_t i = at + 1; i < region.size(); ++i) {
        const KValue operation = operation_of_half(region[i].id);
        if (operation == kNoValue || is_dead(operation) ||
            kernel_.instrs[region[i].id].dtype != instr.dtype || names_.has(region[i].id))
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
                                (!names_[operand.operands[0]].packet.empty() ||
                                 (names_.can_read(x) && !names_[x].of_element));
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

/// Statements first ... at of a packet's region, the last of which is a half that begins pairs; then those
/// pairs.
void PhaseEmitter::write_rounded(const Region &region, size_t first, size_t at, const Packet &p,
                                 const ElementLoop &loop, const std::function<void()> &before) {
    const KValue half = region[at].id;
    const Instr &instr = kernel_.instrs[half];
    w_.line("float z{}[{}];", half, p.width);
    write_segment(region, first, at, p.width, loop, [&] {
        before();
        w_.line("z{}[e] = {};", half, value(instr.operands[0]));
    });
    const std::string packet = fmt::format("halves{}", half);
    w_.line("Packet<unsigned short, {}> {};", p.width, packet);
    write_words({fmt::format("{1}.w[p] = {2}(z{0}[2 * p], z{0}[2 * p + 1]);", half, packet,
                             instr.dtype == DType::F16 ? "to_halves" : "to_bfloats")},
                p.width);
    names_.give(half, {.name = packet + ".at(e)", .packet = packet, .half = instr.dtype, .of_element = true});
    write_pairs(region, at + 1, p);
}

} // namespace lz::codegen::cuda
