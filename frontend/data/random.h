#pragma once
/// Random numbers of the host for orders: the same on every machine, and without a sync of what is recorded.

#include "lazuli/ops/random.h"

#include <cstdint>

namespace lz::data::detail {

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
class HostRandom {
public:
    explicit HostRandom(uint64_t seed) : state_(seed) {}
    /// From where the generator stands, which it advances.
    explicit HostRandom(Generator &generator);

    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    /// Below n, each equally likely (Lemire, Fast random integer generation in an interval, 2019).
    uint64_t below(uint64_t n) {
        for (;;) {
            const unsigned __int128 product = static_cast<unsigned __int128>(next()) * n;
            const auto low = static_cast<uint64_t>(product);
            if (low >= n || low >= (0 - n) % n)
                return static_cast<uint64_t>(product >> 64);
        }
    }
    /// In (0, 1).
    double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1p-53; }

private:
    uint64_t state_;
};

} // namespace lz::data::detail
