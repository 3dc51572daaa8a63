#include "tests/support/cuda/ptx/warp.h"

#include <algorithm>
#include <array>

namespace lz::ptx {

SharedMemory::Wrong SharedMemory::touch(uint32_t at, uint32_t bytes, Access access, uint32_t thread,
                                        uint32_t warp_epoch, uint32_t &other) {
    const auto warp_of = [](uint32_t t) { return t / kWarpSize; };
    // Ordered with what another thread did: a barrier of the block since, or one of the warp that both are
    // in.
    const auto ordered = [&](uint32_t epoch, uint32_t their_warp, uint32_t their_warp_epoch) {
        return epoch != epoch_ || (their_warp == warp_of(thread) && their_warp_epoch != warp_epoch);
    };
    for (uint32_t i = at; i < at + bytes; ++i) {
        Shadow &s = shadow_[i];
        const bool written = s.block == block_;
        if (written && s.in_flight)
            return Wrong::InFlight;
        if (access != Access::Write && !written)
            return Wrong::Uninitialized;
        if (written && s.writer != thread && !(access == Access::Atomic && s.atomic) &&
            !ordered(s.write_epoch, warp_of(s.writer), s.write_warp_epoch)) {
            other = s.writer;
            return Wrong::Race;
        }
        if (access != Access::Read) {
            if (s.read_epoch == epoch_ && s.reader != thread) {
                const bool several = s.reader == kSeveralWarps;
                const uint32_t their_warp =
                    s.reader & kSeveralLanes ? s.reader & ~kSeveralLanes : warp_of(s.reader);
                if (several || !ordered(s.read_epoch, their_warp, s.read_warp_epoch)) {
                    other = several || s.reader & kSeveralLanes ? kAllLanes : s.reader;
                    return Wrong::Race;
                }
            }
            s.block = block_;
            s.write_epoch = epoch_;
            s.write_warp_epoch = warp_epoch;
            s.writer = static_cast<uint16_t>(thread);
            s.atomic = access == Access::Atomic;
            continue;
        }
        if (s.read_epoch != epoch_) {
            s.reader = static_cast<uint16_t>(thread);
        } else if (s.reader != thread && s.reader != kSeveralWarps) {
            const uint32_t their_warp =
                s.reader & kSeveralLanes ? s.reader & ~kSeveralLanes : warp_of(s.reader);
            if (their_warp != warp_of(thread))
                s.reader = kSeveralWarps;
            else if (s.read_warp_epoch != warp_epoch) // what read before the warp's barrier is ordered
                s.reader = static_cast<uint16_t>(thread);
            else
                s.reader = static_cast<uint16_t>(kSeveralLanes | warp_of(thread));
        }
        s.read_epoch = epoch_;
        s.read_warp_epoch = warp_epoch;
    }
    return Wrong::Nothing;
}

void SharedMemory::set_in_flight(uint32_t at, uint32_t bytes, bool in_flight) {
    for (uint32_t i = at; i < at + bytes; ++i)
        shadow_[i].in_flight = in_flight;
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
