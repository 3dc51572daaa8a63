#pragma once
/// What results that are no numbers look like.

#include <bit>
#include <concepts>
#include <cstdint>

namespace lz::ptx {

/// The canonical one of f32; f64 keeps what an operand held.
template <class T>
T canonical(T value) {
    if constexpr (std::same_as<T, float>) // f64 keeps what the operand held
        return value != value ? std::bit_cast<float>(0x7fffffffu) : value;
    else
        return value;
}

} // namespace lz::ptx
