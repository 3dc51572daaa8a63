#include "tests/support/cuda/ptx/warp.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace lz::ptx {

void Warp::meet(uint32_t mask) {
    ++time;
    if (mask == exist) {
        all_met = time;
        return;
    }
    Times known{};
    for_lanes(mask, [&](uint32_t lane) {
        for (uint32_t other = 0; other < kWarpSize; ++other)
            known[other] = std::max({known[other], met[lane][other], all_met});
    });
    for_lanes(mask, [&](uint32_t lane) { known[lane] = time; });
    for_lanes(mask, [&](uint32_t lane) { met[lane] = known; });
}

bool Shadows::is_write_ordered(const Barriers &barriers, const Byte &b, const Warp &w, uint32_t lane) const {
    if (b.write_barrier == 0)
        return true;
    if (b.write_barrier < barriers.begin) // by a block that ran before
        return is_shared_;
    const uint32_t block = b.writer / kMostThreads, thread = b.writer % kMostThreads;
    if (block != w.block)
        return b.write_barrier < barriers.cluster;
    return b.writer == thread_number(w, lane) || b.write_barrier < barriers.block[block] ||
           (thread / kWarpSize == w.index && w.knows(lane, thread % kWarpSize, b.write_time));
}

bool Shadows::are_reads_ordered(const Barriers &barriers, const Byte &b, const Warp &w, uint32_t lane) const {
    if (b.read_barrier < barriers.begin)
        return true;
    constexpr uint32_t kWarps = kMostThreads / kWarpSize;
    const uint32_t block = b.reader_warp / kWarps;
    if (b.readers == Readers::Blocks || block != w.block)
        return b.read_barrier < barriers.cluster;
    if (b.read_barrier < barriers.block[block])
        return true;
    if (b.readers == Readers::Warps || b.reader_warp != warp_number(w))
        return false;
    bool all = true;
    for_lanes(b.read_lanes & ~(1u << lane),
              [&](uint32_t other) { all = all && w.knows(lane, other, b.read_time); });
    return all;
}

/// Reads that are ordered before this one are forgotten: what comes after this one comes after them.
void Shadows::note_read(const Barriers &barriers, Byte &b, const Warp &w, uint32_t lane, bool ordered) {
    constexpr uint32_t kWarps = kMostThreads / kWarpSize;
    if (ordered) {
        b.readers = Readers::Lanes;
        b.read_lanes = 1u << lane;
    } else if (b.readers == Readers::Lanes && b.reader_warp == warp_number(w)) {
        for_lanes(b.read_lanes, [&](uint32_t other) {
            if (w.knows(lane, other, b.read_time))
                b.read_lanes &= ~(1u << other);
        });
        b.read_lanes |= 1u << lane;
    } else if (b.readers != Readers::Blocks && b.reader_warp / kWarps == w.block) {
        b.readers = Readers::Warps;
    } else {
        b.readers = Readers::Blocks;
    }
    b.reader_warp = warp_number(w);
    b.read_barrier = std::max(ordered ? 0 : b.read_barrier, barriers.block[w.block]);
    b.read_time = w.time;
}

Shadows::Wrong Shadows::touch(const Barriers &barriers, Byte &b, Access access, const Warp &w, uint32_t lane,
                              Other &other) const {
    const bool written = b.write_barrier >= barriers.begin;
    if (written && b.in_flight)
        return Wrong::InFlight;
    if (is_shared_ && access != Access::Write && !written)
        return Wrong::Uninitialized;
    if (!(access == Access::Atomic && b.atomic) && !is_write_ordered(barriers, b, w, lane)) {
        other = {.is_known = written,
                 .is_of_these = written,
                 .block = b.writer / kMostThreads,
                 .thread = b.writer % kMostThreads};
        return Wrong::Race;
    }
    const bool read_before = !is_shared_ && b.read_barrier != 0 && b.read_barrier < barriers.begin;
    b.read_before = b.read_before || read_before;
    const bool ordered = are_reads_ordered(barriers, b, w, lane);
    if (access == Access::Read) {
        note_read(barriers, b, w, lane, ordered);
        return Wrong::Nothing;
    }
    if (!ordered || b.read_before) {
        const bool one = !ordered && b.readers == Readers::Lanes && std::has_single_bit(b.read_lanes);
        constexpr uint32_t kWarps = kMostThreads / kWarpSize;
        other = {.is_known = one,
                 .is_of_these = !ordered,
                 .block = b.reader_warp / kWarps,
                 .thread = b.reader_warp % kWarps * kWarpSize +
                           static_cast<uint32_t>(std::countr_zero(b.read_lanes))};
        return Wrong::Race;
    }
    b.write_barrier = barriers.block[w.block];
    b.write_time = w.time;
    b.writer = thread_number(w, lane);
    b.atomic = access == Access::Atomic;
    b.read_barrier = 0;
    return Wrong::Nothing;
}

Shadows::Wrong Shadows::touch(const Barriers &barriers, uint64_t at, uint32_t bytes, uint32_t used,
                              Access access, const Warp &w, uint32_t lane, Other &other) {
    // The bytes of a word mostly have one past, and then this access does to each what it does to the first.
    static_assert(std::has_unique_object_representations_v<Byte>);
    Byte before{}, after{};
    bool has_before = false;
    for (uint64_t i = at; i < at + bytes; ++i) {
        if (!(used >> (i - at) & 1))
            continue;
        Byte &b = bytes_[i];
        if (has_before && std::memcmp(&b, &before, sizeof b) == 0) {
            b = after;
            continue;
        }
        before = b;
        has_before = true;
        if (const Wrong wrong = touch(barriers, b, access, w, lane, other); wrong != Wrong::Nothing)
            return wrong;
        after = b;
    }
    return Wrong::Nothing;
}

void Shadows::set_in_flight(uint64_t at, uint32_t bytes, bool in_flight) {
    for (uint64_t i = at; i < at + bytes; ++i)
        bytes_[i].in_flight = in_flight;
}

void Machine::count_banks(Warp &w, const Instr &x, uint32_t mask, uint32_t bytes) {
    if (!launch_.count_bank_conflicts)
        return;
    constexpr uint32_t kBanks = 32, kWord = 4;
    const Operand &address = x.src[0];
    const uint32_t words = std::max(bytes / kWord, 1u), together = kWarpSize / words;
    for (uint32_t first = 0; first < kWarpSize; first += together) {
        std::array<uint64_t, kWarpSize> seen{}; // words that this turn's lanes want, each once
        std::array<uint32_t, kBanks> wanted{};
        uint32_t count = 0;
        for (uint32_t lane = first; lane < first + together; ++lane) {
            if ((mask >> lane & 1) == 0)
                continue;
            const uint64_t base =
                address.size == 4 ? w.lanes<uint32_t>(address)[lane] : w.lanes<uint64_t>(address)[lane];
            const uint64_t word = (base + static_cast<uint64_t>(address.offset)) / kWord;
            for (uint64_t i = word; i < word + words; ++i)
                if (std::find(seen.begin(), seen.begin() + count, i) == seen.begin() + count) {
                    seen[count++] = i;
                    ++wanted[i % kBanks];
                }
        }
        if (count > 0)
            bank_conflicts_ += *std::ranges::max_element(wanted) - 1;
    }
}

} // namespace lz::ptx
