#pragma once
/// From the text of one instruction to an Instr: its handler, its operands' places in the frame.

#include "tests/support/cuda/ptx/module.h"

#include <unordered_map>

namespace lz::ptx {

/// The type that is written so, without its dot; None if there is none.
Type type_named(std::string_view name);

/// An operand as it is written.
struct RawOperand {
    enum class Kind : uint8_t { Name, Integer, Float32, Float64 } kind = Kind::Name;
    std::string_view name; ///< a register, symbol, label or lane's own number
    uint64_t bits = 0;     ///< of a constant
    int64_t offset = 0;    ///< [name + offset]
    bool address = false, negated = false;
};

struct RawInstr {
    std::string_view name;
    std::string_view guard; ///< a predicate, or nothing
    bool guard_negated = false;
    std::vector<std::vector<RawOperand>> groups; ///< {a, b} is a group, and so are a|b and a lone operand
    uint32_t line = 0;
    uint32_t used_bytes = UINT32_MAX; ///< of what it loads, a bit each: padding within a struct is not
};

/// Decodes the instructions of one kernel.
class Decoder {
public:
    Decoder(Kernel &kernel, const std::unordered_map<std::string_view, uint64_t> &globals)
        : kernel_(kernel), globals_(globals) {}

    void add_register(std::string_view name, Type type);
    /// Variables in shared, local and parameter memory: their offset there.
    void add_symbol(std::string_view name, uint64_t offset) { symbols_[std::string(name)] = offset; }
    void add_label(std::string_view name) {
        labels_[std::string(name)] = static_cast<uint32_t>(kernel_.code.size());
    }
    void add_table(std::string_view name, std::vector<std::string_view> targets);
    void add(const RawInstr &raw);
    /// After the last instruction: branches get their targets.
    void finish();

private:
    class Name;
    Operand value(const RawOperand &raw, uint8_t size, uint32_t line);
    Operand destination(const RawOperand &raw, uint8_t size, uint32_t line);
    Operand address(const RawOperand &raw, uint32_t line);
    Operand constant(uint64_t bits, uint8_t size);
    Operand special(std::string_view name);
    uint32_t place(size_t bytes);
    void decode(Instr &x, const RawInstr &raw, Name &name);
    bool decode_arithmetic(Instr &x, const RawInstr &raw, Name &name);
    bool decode_memory(Instr &x, const RawInstr &raw, Name &name);
    bool decode_control(Instr &x, const RawInstr &raw, Name &name);
    void decode_move(Instr &x, const RawInstr &raw, Name &name);
    void take_sources(Instr &x, const RawInstr &raw, size_t first, std::initializer_list<uint8_t> sizes);

    Kernel &kernel_;
    const std::unordered_map<std::string_view, uint64_t> &globals_;
    std::unordered_map<std::string, Operand> registers_;
    std::unordered_map<std::string, uint64_t> symbols_;
    std::unordered_map<std::string, uint32_t> labels_;
    std::map<std::pair<uint64_t, uint8_t>, Operand> constants_;
    std::unordered_map<std::string, Operand> specials_;
    std::unordered_map<std::string, uint32_t> names_;
    std::unordered_map<std::string, uint32_t> table_of_;
    std::vector<std::vector<std::string>> tables_;
    struct Fixup {
        uint32_t instr;
        std::string label;
        uint32_t line;
    };
    std::vector<Fixup> fixups_;
    Operand sink_;
};

} // namespace lz::ptx
