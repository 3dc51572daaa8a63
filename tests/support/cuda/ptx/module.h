#pragma once
/// A PTX module, decoded for the interpreter: what a driver makes of the text that NVRTC writes.
///
/// Source: "Parallel Thread Execution ISA", version 9.0, NVIDIA. Instructions are those that NVRTC emits for
/// the engine's kernels; any other, and each that computes an approximation, is refused by name when it is
/// parsed, with the line of the text.

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lz::ptx {

constexpr uint32_t kWarpSize = 32;

/// The text is not PTX that the interpreter knows. Names the line and what stands there.
struct ParseError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class Type : uint8_t {
    None,
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    BF16,
    F16x2,
    BF16x2,
    F32,
    F64
};

/// Bytes of a value; 0 for predicates, which are a bit a lane.
constexpr uint32_t size_of(Type t) {
    switch (t) {
    case Type::B8:
    case Type::U8:
    case Type::S8:
        return 1;
    case Type::B16:
    case Type::U16:
    case Type::S16:
    case Type::F16:
    case Type::BF16:
        return 2;
    case Type::B32:
    case Type::U32:
    case Type::S32:
    case Type::F32:
    case Type::F16x2:
    case Type::BF16x2:
        return 4;
    case Type::B64:
    case Type::U64:
    case Type::S64:
    case Type::F64:
        return 8;
    case Type::None:
    case Type::Pred:
        return 0;
    }
    return 0;
}
constexpr bool is_signed(Type t) {
    return t >= Type::S8 && t <= Type::S64;
}
constexpr bool is_float(Type t) {
    return t >= Type::F16;
}

/// Where an address points. Generic addresses tell the space by their value (see machine.h).
enum class Space : uint8_t {
    Generic,
    Global,
    Shared,        ///< of the thread's own block
    SharedCluster, ///< of any block of its cluster
    Local,
    Param
};

struct Warp;
struct Instr;
class Machine;

/// Computes one instruction for the lanes of a mask.
using Handler = void (*)(Machine &, Warp &, const Instr &, uint32_t mask);

/// A register, a constant, or a lane's own number: a place in a warp's frame, which holds 32 lanes of each
/// register side by side.
struct Operand {
    uint32_t at = 0;            ///< bytes from the frame's begin
    uint32_t reg = kNoRegister; ///< which register, for the check that it has been written
    int64_t offset = 0;         ///< of an address
    uint8_t size = 0;           ///< bytes of a lane; 0: a predicate
    bool negated = false;       ///< a predicate written as !p
    static constexpr uint32_t kNoRegister = ~0u;
};

/// What the loop over instructions does by itself; all else is Plain and done by its handler.
enum class Flow : uint8_t {
    Plain,
    Move, ///< of registers that may be written in part, and are used where it goes
    Branch,
    BranchTable,
    Exit,
    Barrier,
    BarrierReduce,
    WarpSync,
    WaitCopies,
    ClusterArrive,
    ClusterWait
};

struct Instr {
    Handler run = nullptr;
    Flow flow = Flow::Plain;
    Type type = Type::None, from = Type::None; ///< the first and the second type of the name
    Space space = Space::Generic;
    uint8_t sub = 0; ///< which comparison, atomic operation, shuffle ...; see decode.cpp
    uint8_t vec = 1; ///< elements of a vector access
    uint8_t num_dst = 0, num_src = 0;
    bool guarded = false;
    Operand guard;
    uint32_t line = 0;                ///< of the PTX
    uint32_t target = 0;              ///< of a branch; the table of a BranchTable
    uint32_t used_bytes = UINT32_MAX; ///< of what it loads, a bit each
    uint64_t constant = 0;
    std::array<Operand, 8> dst;
    std::array<Operand, 10> src;
};

struct Parameter {
    uint32_t at, bytes;
};

struct Kernel {
    std::string name;
    std::vector<Instr> code;
    std::vector<std::string> names;            ///< of instructions, for counts and messages: "add.rn.f32"
    std::vector<uint32_t> name_of;             ///< instruction -> its name
    std::vector<std::vector<uint32_t>> tables; ///< of indirect branches
    std::vector<std::string> registers;        ///< their names
    /// The frame of a warp as it is before the first instruction: constants are in their places.
    std::vector<unsigned char> frame;
    std::vector<std::pair<Operand, uint32_t>> specials; ///< registers of lanes' own numbers, and which
    std::vector<Parameter> parameters;
    uint32_t parameter_bytes = 0;
    uint32_t shared_bytes = 0; ///< declared with a size; what a launch adds comes after it, 16-byte aligned
    uint32_t local_bytes = 0;  ///< of a thread
    bool dynamic_shared = false;
    std::array<uint32_t, 3> max_threads{}; ///< .maxntid; 0: not given
    bool exact_threads = false;            ///< .reqntid
    std::array<uint32_t, 3> cluster{};     ///< .reqnctapercluster; 0: not given
};

/// A variable of the module, in global memory.
struct Variable {
    std::string name;
    uint32_t align = 1;
    std::vector<unsigned char> bytes; ///< its initial value
    uint64_t address = 0;             ///< given by whoever loads the module
};

struct Module {
    std::string target; ///< "sm_90"
    std::map<std::string, Kernel, std::less<>> kernels;
    std::vector<Variable> variables;
};

/// Reads PTX. `place` is called for each variable of the module before code is decoded, and sets its address.
/// Throws ParseError.
Module parse(std::string_view text, void (*place)(Variable &, void *context), void *context);

} // namespace lz::ptx
