#include "tests/support/cuda/ptx/memory.h"

#include "tests/support/cuda/ptx/arithmetic.h"
#include "tests/support/cuda/ptx/warp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lz::ptx {
namespace {

uint64_t ones(uint32_t bytes) {
    return bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
}
uint64_t sign_extended(uint64_t bits, uint32_t bytes) {
    const uint32_t shift = 64 - 8 * bytes;
    return static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
}
uint64_t load_bits(const unsigned char *from, uint32_t bytes) {
    uint64_t bits = 0;
    std::memcpy(&bits, from, bytes);
    return bits;
}

/// Words in one piece: other threads may run other blocks.
template <class T>
bool exchange(unsigned char *at, uint64_t &old, uint64_t now) {
    auto expected = static_cast<T>(old);
    const bool done = __atomic_compare_exchange_n(reinterpret_cast<T *>(at), &expected, static_cast<T>(now),
                                                  false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    old = expected;
    return done;
}
bool exchange_word(unsigned char *at, uint32_t bytes, uint64_t &old, uint64_t now) {
    switch (bytes) {
    case 2:
        return exchange<uint16_t>(at, old, now);
    case 4:
        return exchange<uint32_t>(at, old, now);
    default:
        return exchange<uint64_t>(at, old, now);
    }
}
uint64_t load_word(const unsigned char *at, uint32_t bytes) {
    switch (bytes) {
    case 2:
        return __atomic_load_n(reinterpret_cast<const uint16_t *>(at), __ATOMIC_ACQUIRE);
    case 4:
        return __atomic_load_n(reinterpret_cast<const uint32_t *>(at), __ATOMIC_ACQUIRE);
    default:
        return __atomic_load_n(reinterpret_cast<const uint64_t *>(at), __ATOMIC_ACQUIRE);
    }
}

/// Elements of a known size: the compiler makes moves of them.
template <class T>
void load_elements(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t whole = static_cast<uint32_t>(sizeof(T)) * x.vec;
    for_lanes(mask, [&](uint32_t lane) {
        const unsigned char *from = m.access(w, x, lane, x.src[0], whole, Access::Read);
        for (uint32_t e = 0; e < x.vec; ++e, from += sizeof(T))
            std::memcpy(w.lanes<T>(x.dst[e]) + lane, from, sizeof(T));
    });
}
template <class T>
void store_elements(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t whole = static_cast<uint32_t>(sizeof(T)) * x.vec;
    for_lanes(mask, [&](uint32_t lane) {
        unsigned char *to = m.access(w, x, lane, x.src[0], whole, Access::Write);
        for (uint32_t e = 0; e < x.vec; ++e, to += sizeof(T))
            std::memcpy(to, w.lanes<T>(x.src[1 + e]) + lane, sizeof(T));
    });
}

/// The lane whose value a lane gets; false: its own, for the other is outside its segment.
bool source_lane(Shuffle how, uint32_t lane, uint32_t by, uint32_t clamp_and_segment, uint32_t &from) {
    const uint32_t segment = clamp_and_segment >> 8 & 31, clamp = clamp_and_segment & 31;
    const uint32_t highest = (lane & segment) | (clamp & ~segment), lowest = lane & segment;
    by &= 31;
    bool inside = true;
    switch (how) {
    case Shuffle::Up:
        inside = static_cast<int>(lane) - static_cast<int>(by) >= static_cast<int>(highest);
        from = lane - by;
        break;
    case Shuffle::Down:
        from = lane + by;
        inside = from <= highest;
        break;
    case Shuffle::Butterfly:
        from = lane ^ by;
        inside = from <= highest;
        break;
    case Shuffle::Index:
        from = lowest | (by & ~segment);
        inside = from <= highest;
        break;
    }
    if (!inside)
        from = lane;
    return inside;
}

} // namespace

void do_nothing(Machine &, Warp &, const Instr &, uint32_t) {}

void trap(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    m.fault(Fault::Kind::Trap, w, x, static_cast<uint32_t>(std::countr_zero(mask)),
            "the kernel stopped itself");
}

void pack_lanes(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t part = size_of(x.type) / x.num_src;
    for_lanes(mask, [&](uint32_t lane) {
        uint64_t bits = 0;
        for (uint32_t i = 0; i < x.num_src; ++i)
            bits |= (w.bits(x.src[i], lane) & ones(part)) << (8 * part * i);
        w.set_bits(x.dst[0], lane, bits);
    });
}

void unpack_lanes(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t part = size_of(x.type) / x.num_dst;
    for_lanes(mask, [&](uint32_t lane) {
        const uint64_t bits = w.bits(x.src[0], lane);
        for (uint32_t i = 0; i < x.num_dst; ++i)
            w.set_bits(x.dst[i], lane, bits >> (8 * part * i) & ones(part));
    });
}

void add_constant(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    for_lanes(mask, [&](uint32_t lane) { w.set_bits(x.dst[0], lane, w.bits(x.src[0], lane) + x.constant); });
}

void map_to_block(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    for_lanes(mask, [&](uint32_t lane) {
        const uint64_t at = w.bits(x.src[0], lane), rank = w.bits(x.src[1], lane);
        const uint64_t window = x.space == Space::Generic ? kSharedWindow : 0;
        if (window != 0 && (at < kSharedWindow || at >= kLocalWindow))
            m.fault(Fault::Kind::Address, w, x, lane,
                    fmt::format("0x{:x} is no address in shared memory", at));
        // NVRTC asks for places that nobody touches then, of blocks that are not there.
        const uint64_t of = std::min(rank, uint64_t{kMostClusterBlocks}) + 1;
        w.set_bits(x.dst[0], lane, window | of * kSharedOfBlock | at % kSharedOfBlock);
    });
}

void active_mask(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    for_lanes(mask, [&](uint32_t lane) { w.set_bits(x.dst[0], lane, mask); });
}

void load_lanes(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t size = size_of(x.type);
    if (x.space == Space::Shared)
        m.count_banks(w, x, mask, size * x.vec);
    if (x.dst[0].size == size) {
        switch (size) {
        case 2:
            return load_elements<uint16_t>(m, w, x, mask);
        case 4:
            return load_elements<uint32_t>(m, w, x, mask);
        case 8:
            return load_elements<uint64_t>(m, w, x, mask);
        default:
            break;
        }
    }
    for_lanes(mask, [&](uint32_t lane) { // into wider registers
        const unsigned char *const from = m.access(w, x, lane, x.src[0], size * x.vec, Access::Read);
        for (uint32_t e = 0; e < x.vec; ++e) {
            const uint64_t bits = load_bits(from + e * size, size);
            w.set_bits(x.dst[e], lane, is_signed(x.type) ? sign_extended(bits, size) : bits);
        }
    });
}

void store_lanes(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t size = size_of(x.type);
    if (x.space == Space::Shared)
        m.count_banks(w, x, mask, size * x.vec);
    switch (x.src[1].size == size ? size : 0) {
    case 2:
        return store_elements<uint16_t>(m, w, x, mask);
    case 4:
        return store_elements<uint32_t>(m, w, x, mask);
    case 8:
        return store_elements<uint64_t>(m, w, x, mask);
    default:
        break;
    }
    for_lanes(mask, [&](uint32_t lane) { // from wider registers
        unsigned char *const to = m.access(w, x, lane, x.src[0], size * x.vec, Access::Write);
        for (uint32_t e = 0; e < x.vec; ++e) {
            const uint64_t bits = w.bits(x.src[1 + e], lane);
            std::memcpy(to + e * size, &bits, size);
        }
    });
}

void atomic(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t size = size_of(x.type);
    std::array<uint32_t, kWarpSize> order;
    uint32_t count = 0;
    for_lanes(mask, [&](uint32_t lane) { order[count++] = lane; });
    std::shuffle(order.begin(), order.begin() + count, m.rng()); // nobody promises one
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t lane = order[i];
        unsigned char *const at = m.access(w, x, lane, x.src[0], size, Access::Atomic);
        const uint64_t b = w.bits(x.src[1], lane) & ones(size);
        const auto less = [&](uint64_t p, uint64_t q) {
            return is_signed(x.type) ? static_cast<int64_t>(sign_extended(p, size)) <
                                           static_cast<int64_t>(sign_extended(q, size))
                                     : p < q;
        };
        const auto changed = [&](uint64_t old) {
            switch (static_cast<Atomic>(x.sub)) {
            case Atomic::Add:
                return old + b;
            case Atomic::Min:
                return less(b, old) ? b : old;
            case Atomic::Max:
                return less(old, b) ? b : old;
            case Atomic::And:
                return old & b;
            case Atomic::Or:
                return old | b;
            case Atomic::Xor:
                return old ^ b;
            case Atomic::Exchange:
                return b;
            case Atomic::CompareSwap:
                return old == b ? w.bits(x.src[2], lane) : old;
            case Atomic::Increment:
                return old >= b ? 0 : old + 1;
            case Atomic::Decrement:
                return old == 0 || old > b ? b : old - 1;
            case Atomic::None:
                break;
            }
            return old;
        };
        uint64_t old = load_word(at, size);
        while (!exchange_word(at, size, old, changed(old)))
            ;
        if (x.num_dst)
            w.set_bits(x.dst[0], lane, old);
    }
}

void copy_async(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    const auto bytes = static_cast<uint32_t>(x.constant);
    for_lanes(mask, [&](uint32_t lane) {
        const uint32_t read = x.num_src == 3 ? static_cast<uint32_t>(w.bits(x.src[2], lane)) : bytes;
        if (read > bytes)
            m.fault(Fault::Kind::Address, w, x, lane,
                    fmt::format("{} of {} bytes are to be read", read, bytes));
        const auto value = [&](const Operand &o) {
            return w.bits(o, lane) + static_cast<uint64_t>(o.offset);
        };
        unsigned char *const to = m.resolve(w, x, lane, Space::Shared, value(x.src[0]), bytes, Access::Write);
        const unsigned char *from = nullptr;
        if (read != 0)
            from = m.resolve(w, x, lane, Space::Global, value(x.src[1]), bytes, Access::Read);
        SharedMemory &shared = m.shared_of(w);
        const auto at = static_cast<uint32_t>(to - shared.data());
        shared.shadows().set_in_flight(at, bytes, true);
        w.copies.push_back({lane, w.groups[lane], at, bytes, read, from});
    });
}

void commit_copies(Machine &, Warp &w, const Instr &, uint32_t mask) {
    for_lanes(mask, [&](uint32_t lane) { ++w.groups[lane]; });
}

void warp_barrier(Machine &, Warp &w, const Instr &, uint32_t mask) {
    w.meet(mask);
}

void shuffle(Machine &m, Warp &w, const Instr &x, uint32_t mask) {
    std::array<uint32_t, kWarpSize> values;
    std::copy_n(w.lanes<uint32_t>(x.src[0]), kWarpSize, values.begin());
    uint32_t inside = 0;
    for_lanes(mask, [&](uint32_t lane) {
        uint32_t from = lane;
        if (source_lane(static_cast<Shuffle>(x.sub), lane, static_cast<uint32_t>(w.bits(x.src[1], lane)),
                        static_cast<uint32_t>(w.bits(x.src[2], lane)), from))
            inside |= 1u << lane;
        if (!(mask >> from & 1))
            m.fault(Fault::Kind::Synchronization, w, x, lane,
                    fmt::format("it reads lane {}, which is not in its mask 0x{:08x}", from, mask));
        w.lanes<uint32_t>(x.dst[0])[lane] = values[from];
    });
    if (x.num_dst == 2)
        w.set_predicate(x.dst[1], inside, mask);
}

void vote(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t yes = w.predicate(x.src[0]) & mask;
    switch (static_cast<Vote>(x.sub)) {
    case Vote::Ballot:
        for_lanes(mask, [&](uint32_t lane) { w.set_bits(x.dst[0], lane, yes); });
        break;
    case Vote::Any:
        w.set_predicate(x.dst[0], yes ? kAllLanes : 0, mask);
        break;
    case Vote::All:
        w.set_predicate(x.dst[0], yes == mask ? kAllLanes : 0, mask);
        break;
    case Vote::Uniform:
        w.set_predicate(x.dst[0], yes == mask || yes == 0 ? kAllLanes : 0, mask);
        break;
    }
}

void match(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    std::array<uint32_t, kWarpSize> equal{};
    for_lanes(mask, [&](uint32_t lane) {
        for_lanes(mask, [&](uint32_t other) {
            equal[lane] |= uint32_t{w.bits(x.src[0], lane) == w.bits(x.src[0], other)} << other;
        });
    });
    for_lanes(mask, [&](uint32_t lane) {
        w.set_bits(x.dst[0], lane, x.sub == 0 || equal[lane] == mask ? equal[lane] : 0);
    });
    if (x.num_dst == 2) {
        const auto first = static_cast<uint32_t>(std::countr_zero(mask));
        w.set_predicate(x.dst[1], equal[first] == mask ? kAllLanes : 0, mask);
    }
}

void reduce_lanes(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    const auto op = static_cast<Arith>(x.sub);
    const uint32_t *const v = w.lanes<uint32_t>(x.src[0]);
    const auto first = static_cast<uint32_t>(std::countr_zero(mask));
    uint32_t r = v[first];
    const auto less = [&](uint32_t a, uint32_t b) {
        return is_signed(x.type) ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
    };
    for_lanes(mask & (mask - 1), [&](uint32_t lane) {
        const uint32_t b = v[lane];
        switch (op) {
        case Arith::Add:
            r += b;
            break;
        case Arith::Min:
            r = less(b, r) ? b : r;
            break;
        case Arith::Max:
            r = less(r, b) ? b : r;
            break;
        case Arith::And:
            r &= b;
            break;
        case Arith::Or:
            r |= b;
            break;
        default:
            r ^= b;
            break;
        }
    });
    for_lanes(mask, [&](uint32_t lane) { w.set_bits(x.dst[0], lane, r); });
}

} // namespace lz::ptx
