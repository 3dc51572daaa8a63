#pragma once
/// What an instruction of PTX is in machine code.

#include <string_view>

namespace lz::ptx {

/// Turns in which an SM issues an instruction of that name (`add.rn.f32`) for a warp. Registers have no types
/// there, so moves are none; signs are parts of what reads them, and what is made of two conditions of the
/// second one; a branch has two beside it that part the lanes and join them again; a division is ten where it
/// needs no correction. (sm_90, code of NVRTC 13.0 that was disassembled.)
constexpr int issue_slots(std::string_view name) {
    const std::string_view operation = name.substr(0, name.find('.'));
    if (operation == "mov" || operation == "abs" || operation == "neg" || name == "and.pred" ||
        name == "or.pred")
        return 0;
    if (operation == "div" || operation == "rcp")
        return 10;
    return operation == "bra" ? 3 : 1;
}

} // namespace lz::ptx
