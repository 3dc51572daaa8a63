#include "tests/support/cuda/ptx/decode.h"

#include "tests/support/cuda/ptx/decode_name.h"
#include "tests/support/cuda/ptx/special.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lz::ptx {

Type type_named(std::string_view name) {
    // Never destroyed: threads may launch when main has been left.
    static const auto &types = *new std::unordered_map<std::string_view, Type>{
        {"pred", Type::Pred}, {"b8", Type::B8},       {"b16", Type::B16},      {"b32", Type::B32},
        {"b64", Type::B64},   {"u8", Type::U8},       {"u16", Type::U16},      {"u32", Type::U32},
        {"u64", Type::U64},   {"s8", Type::S8},       {"s16", Type::S16},      {"s32", Type::S32},
        {"s64", Type::S64},   {"f16", Type::F16},     {"bf16", Type::BF16},    {"f32", Type::F32},
        {"f64", Type::F64},   {"f16x2", Type::F16x2}, {"bf16x2", Type::BF16x2}};
    const auto found = types.find(name);
    return found == types.end() ? Type::None : found->second;
}

// --- places in the frame

uint32_t Decoder::place(size_t bytes) {
    const size_t at = (kernel_.frame.size() + 63) / 64 * 64;
    kernel_.frame.resize(at + bytes);
    return static_cast<uint32_t>(at);
}

void Decoder::add_register(std::string_view name, Type type) {
    Operand o;
    o.size = bytes(type);
    o.at = place(type == Type::Pred ? sizeof(uint32_t) : size_t{o.size} * kWarpSize);
    o.reg = static_cast<uint32_t>(kernel_.registers.size());
    kernel_.registers.emplace_back(name);
    registers_[std::string(name)] = o;
}

Operand Decoder::constant(uint64_t bits, uint8_t size) {
    const auto [found, added] = constants_.try_emplace({bits, size});
    if (added) {
        Operand &o = found->second;
        o.size = size;
        o.at = place(size == 0 ? sizeof(uint32_t) : size_t{size} * kWarpSize);
        if (size == 0) {
            const uint32_t all = bits != 0 ? ~0u : 0u;
            std::memcpy(kernel_.frame.data() + o.at, &all, sizeof all);
        }
        for (uint32_t lane = 0; lane < kWarpSize && size != 0; ++lane)
            std::memcpy(kernel_.frame.data() + o.at + lane * size, &bits, size);
    }
    return found->second;
}

Operand Decoder::special(std::string_view name) {
    const auto [found, added] = specials_.try_emplace(std::string(name));
    if (added) {
        Operand &o = found->second;
        o.size = 4;
        o.at = place(4 * kWarpSize);
        kernel_.specials.emplace_back(o, *special_number(name));
    }
    return found->second;
}

Operand Decoder::value(const RawOperand &raw, uint8_t size, uint32_t line) {
    const auto fail = [&](const std::string &what) {
        throw ParseError(fmt::format("line {} of the PTX: {}.", line, what));
    };
    Operand o;
    if (raw.kind == RawOperand::Kind::Float32 && size == 8) { // a constant of another width
        fail("a constant of f32 where f64 is wanted");
    } else if (raw.kind != RawOperand::Kind::Name) {
        o = constant(size == 0 || size == 8 ? raw.bits : raw.bits & ((uint64_t{1} << (8 * size)) - 1), size);
    } else if (const auto r = registers_.find(std::string(raw.name)); r != registers_.end()) {
        o = r->second;
    } else if (special_number(raw.name)) {
        o = special(raw.name);
    } else if (const auto s = symbols_.find(std::string(raw.name)); s != symbols_.end()) {
        o = constant(s->second, size);
    } else if (const auto g = globals_.find(raw.name); g != globals_.end()) {
        o = constant(g->second, 8);
    } else {
        fail(fmt::format("`{}` is not declared", raw.name));
    }
    if (o.size < size || (size == 0) != (o.size == 0))
        fail(fmt::format("`{}` has {} bytes, and the instruction wants {}", raw.name, o.size, size));
    o.negated = raw.negated;
    return o;
}

Operand Decoder::destination(const RawOperand &raw, uint8_t size, uint32_t line) {
    if (raw.kind == RawOperand::Kind::Name && raw.name == "_") {
        if (sink_.at == 0)
            sink_.at = place(8 * kWarpSize);
        Operand o = sink_;
        o.size = size;
        return o;
    }
    const Operand o = value(raw, size, line);
    if (o.reg == Operand::kNoRegister)
        throw ParseError(
            fmt::format("line {} of the PTX: a result goes to `{}`, which is no register.", line, raw.name));
    return o;
}

Operand Decoder::address(const RawOperand &raw, uint32_t line) {
    if (!raw.address)
        throw ParseError(fmt::format("line {} of the PTX: an address in brackets was expected.", line));
    RawOperand inner = raw;
    inner.address = false;
    const auto r =
        raw.kind == RawOperand::Kind::Name ? registers_.find(std::string(raw.name)) : registers_.end();
    Operand o = value(inner, r != registers_.end() && r->second.size == 4 ? 4 : 8, line);
    o.offset = raw.offset;
    return o;
}

void Decoder::take_sources(Instr &x, const RawInstr &raw, size_t first,
                           std::initializer_list<uint8_t> sizes) {
    size_t at = first;
    for (const uint8_t size : sizes) {
        if (at >= raw.groups.size() || raw.groups[at].size() != 1)
            throw ParseError(
                fmt::format("line {} of the PTX: `{}` has too few operands.", raw.line, raw.name));
        x.src.at(x.num_src++) = value(raw.groups[at++][0], size, raw.line);
    }
    if (at != raw.groups.size())
        throw ParseError(fmt::format("line {} of the PTX: `{}` has too many operands.", raw.line, raw.name));
}

// --- instructions

void Decoder::add_table(std::string_view name, std::vector<std::string_view> targets) {
    table_of_[std::string(name)] = static_cast<uint32_t>(tables_.size());
    tables_.emplace_back(targets.begin(), targets.end());
}

void Decoder::add(const RawInstr &raw) {
    Instr x;
    x.line = raw.line;
    x.used_bytes = raw.used_bytes;
    if (!raw.guard.empty()) {
        x.guarded = true;
        x.guard = value({.name = raw.guard, .negated = raw.guard_negated}, 0, raw.line);
        if (x.guard.reg == Operand::kNoRegister)
            throw ParseError(fmt::format("line {} of the PTX: `{}` is no predicate.", raw.line, raw.guard));
    }
    Name name(raw.name, raw.line);
    decode(x, raw, name);
    name.expect_all_taken();
    const auto [found, added] =
        names_.try_emplace(std::string(raw.name), static_cast<uint32_t>(kernel_.names.size()));
    if (added)
        kernel_.names.emplace_back(raw.name);
    kernel_.name_of.push_back(found->second);
    kernel_.code.push_back(x);
}

void Decoder::finish() {
    const auto label = [&](const std::string &name, uint32_t line) {
        const auto found = labels_.find(name);
        if (found == labels_.end())
            throw ParseError(fmt::format("line {} of the PTX: there is no label `{}`.", line, name));
        return found->second;
    };
    for (const auto &targets : tables_) {
        auto &table = kernel_.tables.emplace_back();
        for (const std::string &target : targets)
            table.push_back(label(target, 0));
    }
    for (const Fixup &f : fixups_) {
        Instr &x = kernel_.code[f.instr];
        if (x.flow == Flow::BranchTable) {
            const auto found = table_of_.find(f.label);
            if (found == table_of_.end())
                throw ParseError(fmt::format("line {} of the PTX: there is no table `{}`.", f.line, f.label));
            x.target = found->second;
        } else {
            x.target = label(f.label, f.line);
        }
    }
    kernel_.frame.resize((kernel_.frame.size() + 63) / 64 * 64);
}

} // namespace lz::ptx
