#pragma once
/// What every reader of files promises of any bytes: tensors whose elements can be read, or an IoError.

#include "frontend/io/formats.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

namespace lz::test {

/// Reads bytes as `load` reads a file. What it refuses, it says; empty where it accepts. Lets everything but
/// IoError through.
inline std::string refusal_of(std::span<const std::byte> bytes) {
    // A copy that ends where the bytes end, so that AddressSanitizer sees who reads on.
    const std::unique_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
    if (!bytes.empty())
        std::memcpy(copy.get(), bytes.data(), bytes.size());
    const io::Source source{"input", {copy.get(), bytes.size()}, nullptr, "load", {}};
    try {
        const StateDict tensors = io::read_any(source, {.max_unpacked_bytes = 1 << 20});
        unsigned sum = 0;
        for (const auto &[name, tensor] : tensors) {
            const int64_t size = tensor.numel() * size_of(tensor.dtype());
            if (size == 0 || size > 4096)
                continue;
            const auto *const elements = tensor.data<std::byte>();
            for (int64_t i = 0; i < size; ++i)
                sum += static_cast<unsigned>(elements[i]);
        }
        [[maybe_unused]] static volatile unsigned seen;
        seen = sum;
        return {};
    } catch (const IoError &error) {
        return error.what();
    }
}

} // namespace lz::test
