#pragma once
/// Handlers of instructions that compute lane by lane.

#include "tests/support/cuda/ptx/module.h"

namespace lz::ptx {

/// What an instruction's name says, its qualifiers apart from the types.
enum class Arith : uint8_t {
    Add,
    Sub,
    MulLo,
    MulHi,
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    MinNan,
    MaxNan,
    And,
    Or,
    Xor,
    Shl,
    Shr, // of two
    Abs,
    Neg,
    Not,
    Sqrt,
    Rcp,
    Popc,
    Clz,
    Brev,
    Bfind,
    Mov, // of one
    Fma,
    MadLo,
    MadHi,
    MadWide,
    Bfe,
    Prmt,
    Lop3,
    ShfLeftWrap,
    ShfRightWrap,
    ShfLeftClamp,
    ShfRightClamp,
    Dp4a,
    Dp4aMixed, // of three
    Bfi,
    CopySign,
    Selp,
    SetEq,
};

/// Of pairs of halves: what NVRTC is asked for. nullptr as below.
Handler find_pair_arithmetic(Arith op, Type type);
/// nullptr: there is no such instruction for the type, or the interpreter does not know it.
Handler find_arithmetic(Arith op, Type type);

enum class Compare : uint8_t { Eq, Ne, Lt, Le, Gt, Ge, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, Nan };
/// Compares operands 0 and 1 and sets a predicate; nullptr as above. Instr::sub: how operand 2, if there is
/// one, joins.
Handler find_compare(Compare op, Type type);
enum class Join : uint8_t { None, And, Or, Xor };

enum class Rounding : uint8_t { None, Nearest, ToIntegerNearest, ToIntegerZero, ToIntegerDown, ToIntegerUp };
/// Conversions; nullptr as above. Instr::constant is what the handler calls on each lane's bits.
Handler find_conversion(Type to, Type from, Rounding rounding, bool saturate, uint64_t &constant);
/// Two f32 to a pair of f16 or bf16: operand 0 becomes the upper half.
Handler find_pair_conversion(Type to);

} // namespace lz::ptx
