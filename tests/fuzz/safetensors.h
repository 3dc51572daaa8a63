#pragma once
/// How the fuzzers of safetensors files change them.

#include "structured.h"

namespace lz::fuzz {

/// The length of the header is right again, most of the time.
inline std::string change_safetensors(std::string file, Random &random) {
    uint64_t length = 0;
    if (file.size() >= sizeof length)
        std::memcpy(&length, file.data(), sizeof length);
    if (file.size() < sizeof length || length > file.size() - sizeof length) {
        if (!change_digits(file, random) || random.one_in(2))
            change(file);
        return file;
    }
    std::string head = file.substr(sizeof length, length), elements = file.substr(sizeof length + length);
    switch (random.below(4)) {
    case 0:
        change_length(elements, random);
        break;
    case 1:
        change(head);
        break;
    default:
        for (size_t numbers = 1 + random.below(3); numbers > 0; --numbers)
            change_digits(head, random);
    }
    length = random.one_in(16) ? odd_number(random) : head.size();
    return std::string(reinterpret_cast<const char *>(&length), sizeof length) + head + elements;
}

} // namespace lz::fuzz
