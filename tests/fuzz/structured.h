#pragma once
/// What the fuzzers of readers share: changes of a file that leave its frame right, so that inputs get past
/// the first check.

#include "tests/support/files/memory_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>
#include <zlib.h>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace lz::fuzz {

using lz::test::MemoryFile;
using lz::test::packed;

class Random {
public:
    explicit Random(unsigned seed) : engine_(seed) {}
    /// Below n, which is above 0.
    size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(engine_); }
    bool one_in(size_t n) { return below(n) == 0; }

private:
    std::minstd_rand engine_;
};

/// Numbers at which sizes and offsets go wrong.
inline uint64_t odd_number(Random &random) {
    constexpr uint64_t kNumbers[] = {0,          1,          2,          7,          8,        255,
                                     256,        0x7fff,     0xffff,     0x7fffffff, 1U << 31, 0xffffffff,
                                     1ULL << 32, 1ULL << 40, 1ULL << 62, ~0ULL >> 1, ~0ULL,    ~0ULL - 7};
    return kNumbers[random.below(std::size(kNumbers))];
}

/// As libFuzzer changes bytes.
inline void change(std::string &bytes, size_t room = 64) {
    const size_t size = bytes.size();
    bytes.resize(size + room);
    bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(bytes.data()), size, bytes.size()));
}

/// Another number in place of one that is written in digits; false where there is none.
inline bool change_digits(std::string &text, Random &random) {
    if (text.empty())
        return false;
    const size_t begin = text.find_first_of("0123456789", random.below(text.size()));
    if (begin == std::string::npos)
        return false;
    const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    const uint64_t number = std::strtoull(text.substr(begin, end - begin).c_str(), nullptr, 10);
    const uint64_t others[] = {number + 1, number - 1, number * 2, number / 2, odd_number(random)};
    text.replace(begin, end - begin, std::to_string(others[random.below(std::size(others))]));
    return true;
}

/// Bytes at the end more or less.
inline void change_length(std::string &bytes, Random &random) {
    if (random.one_in(2))
        bytes.resize(bytes.size() - std::min(bytes.size(), random.below(17)));
    else
        bytes.append(random.below(17), static_cast<char>(random.below(256)));
}

/// What LLVMFuzzerCustomMutator is: `changed(std::string file, Random &)` gives the file with its frame
/// right; now and then libFuzzer has its way with the whole.
template <class F>
size_t mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed, F &&changed) {
    Random random(seed);
    if (random.one_in(8))
        return LLVMFuzzerMutate(data, size, max_size);
    const std::string made = changed(std::string(reinterpret_cast<const char *>(data), size), random);
    if (made.empty() || made.size() > max_size)
        return LLVMFuzzerMutate(data, size, max_size);
    std::memcpy(data, made.data(), made.size());
    return made.size();
}

// --- gzip

/// As it is where it is not packed; at most `limit` bytes.
inline std::string unpacked(const std::string &bytes, size_t limit = 1 << 16) {
    if (!bytes.starts_with("\x1f\x8b"))
        return bytes;
    z_stream stream{};
    if (inflateInit2(&stream, 15 + 16) != Z_OK)
        std::abort();
    std::string out(limit, '\0');
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef *>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    inflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    inflateEnd(&stream);
    return out;
}

/// `changed` of what is packed, and packed again, or no more, or now.
template <class F>
std::string change_packed(const std::string &file, Random &random, F &&changed) {
    const bool was_packed = file.starts_with("\x1f\x8b");
    std::string plain = unpacked(file);
    changed(plain);
    return was_packed != random.one_in(8) ? packed(plain) : plain;
}

} // namespace lz::fuzz
