// Where an address of an access is for the host, and what is wrong with it.
#include "tests/support/cuda/ptx/warp.h"

#include <fmt/format.h>

namespace lz::ptx {

void Machine::touch(Warp &w, const Instr &x, uint32_t lane, Shadows &shadows, uint64_t at, uint32_t bytes,
                    Access kind, std::string_view memory, uint64_t address) {
    Shadows::Other other;
    switch (shadows.touch(barriers_, at, bytes, kind == Access::Read ? x.used_bytes : UINT32_MAX, kind, w,
                          lane, other)) {
    case Shadows::Wrong::Nothing:
        return;
    case Shadows::Wrong::Uninitialized:
        fault(Fault::Kind::Uninitialized, w, x, lane,
              fmt::format("{} memory at {} is read before the block wrote it", memory, address));
    case Shadows::Wrong::InFlight:
        fault(Fault::Kind::Race, w, x, lane,
              fmt::format("{} memory at {} is touched before an asynchronous copy into it was waited for",
                          memory, address));
    case Shadows::Wrong::Race:
        if (!other.is_of_these)
            fault(Fault::Kind::Race, w, x, lane,
                  fmt::format("{} memory at {} is touched by another block as well", memory, address));
        if (!other.is_known)
            fault(Fault::Kind::Race, w, x, lane,
                  fmt::format("{} memory at {} is written while other threads read it: no barrier is between",
                              memory, address));
        const Dim t = thread_index(other.thread);
        fault(Fault::Kind::Race, w, x, lane,
              fmt::format(
                  "{} memory at {} is touched by thread ({},{},{}){} as well, and no barrier is between",
                  memory, address, t.x, t.y, t.z,
                  other.block == w.block ? "" : fmt::format(" of block {} of the cluster", other.block)));
    }
}

unsigned char *Machine::resolve_shared(Warp &w, const Instr &x, uint32_t lane, Space space, uint64_t address,
                                       uint32_t bytes, Access kind) {
    uint32_t rank = w.block;
    uint64_t at = address;
    if (const uint64_t of = address / kSharedOfBlock;
        space == Space::SharedCluster && of > 0 && of <= kMostClusterBlocks + 1) {
        rank = static_cast<uint32_t>(of) - 1;
        at = address % kSharedOfBlock;
        if (rank >= blocks_.size())
            fault(Fault::Kind::Address, w, x, lane,
                  fmt::format("shared memory of block {} of a cluster of {}", rank, blocks_.size()));
    }
    SharedMemory &shared = blocks_[rank].shared;
    if (at > shared.size() || shared.size() - at < bytes)
        fault(Fault::Kind::Address, w, x, lane,
              fmt::format("{} bytes at {} of {} bytes of shared memory", bytes, static_cast<int64_t>(at),
                          shared.size()));
    if ((w.arrived | w.released) >> lane & 1)
        fault(Fault::Kind::Race, w, x, lane,
              fmt::format(
                  "shared memory at {} is touched between the arrival at a barrier of the cluster and the "
                  "wait for it",
                  at));
    if (rank != w.block) {
        if (barriers_.cluster == barriers_.begin)
            fault(Fault::Kind::Race, w, x, lane,
                  fmt::format(
                      "shared memory of block {} of the cluster is touched, and it may not have begun: no "
                      "barrier of the cluster comes before",
                      rank));
        if (!remote_.warp)
            remote_ = {&w, &x, lane, rank};
    }
    touch(w, x, lane, shared.shadows(), at, bytes, kind, "shared", at);
    return shared.data() + at;
}

const Machine::FoundRange &Machine::find_range(Warp &w, const Instr &x, uint32_t lane, uint64_t address,
                                               uint32_t bytes) {
    const auto holds = [&](const Range &r) { return address >= r.begin && address + bytes <= r.end; };
    for (const FoundRange &r : ranges_)
        if (holds(r.range)) [[likely]]
            return r;
    FoundRange &found = ranges_[next_range_++ % ranges_.size()];
    found = {};
    Range &range = found.range;
    if (!launch_.find(address, range) || !holds(range)) {
        const bool reaches_out = address >= range.begin && address < range.end;
        const uint64_t begin = range.begin, stop = range.end;
        found = {};
        fault(
            Fault::Kind::Address, w, x, lane,
            reaches_out
                ? fmt::format("{} bytes at 0x{:x} reach beyond the end of their allocation, 0x{:x} to 0x{:x}",
                              bytes, address, begin, stop)
                : fmt::format("global address 0x{:x} is in no live allocation of this device", address));
    }
    if (launch_.check_global_races)
        found.shadows = &shadows_.try_emplace(range.begin, range.end - range.begin, false).first->second;
    return found;
}

unsigned char *Machine::resolve(Warp &w, const Instr &x, uint32_t lane, Space space, uint64_t address,
                                uint32_t bytes, Access kind) {
    if (address % bytes) [[unlikely]]
        fault(Fault::Kind::Misaligned, w, x, lane,
              fmt::format("address 0x{:x} is no multiple of {}, the bytes of the access", address, bytes));
    if (space == Space::Generic && address >= kSharedWindow) {
        space = address >= kParamWindow   ? Space::Param
                : address >= kLocalWindow ? Space::Local
                                          : Space::SharedCluster;
        address &= kSharedWindow - 1;
    }
    const auto inside = [&](uint64_t size, const char *what) {
        if (address > size || size - address < bytes)
            fault(Fault::Kind::Address, w, x, lane,
                  fmt::format("{} bytes at {} of {} bytes of {}", bytes, static_cast<int64_t>(address), size,
                              what));
    };
    switch (space) {
    case Space::Shared:
    case Space::SharedCluster:
        return resolve_shared(w, x, lane, space, address, bytes, kind);
    case Space::Local:
        inside(kernel_.local_bytes, "local memory");
        return w.local + size_t{lane} * kernel_.local_bytes + address;
    case Space::Param:
        inside(kernel_.parameter_bytes, "parameters");
        if (kind != Access::Read)
            fault(Fault::Kind::Address, w, x, lane, "a parameter is written");
        return const_cast<unsigned char *>(launch_.parameters.data()) + address;
    case Space::Generic:
    case Space::Global:
        break;
    }
    const FoundRange &found = find_range(w, x, lane, address, bytes);
    if (kind != Access::Read && !found.range.writable) [[unlikely]]
        fault(Fault::Kind::Address, w, x, lane,
              fmt::format("global address 0x{:x} may not be written", address));
    const uint64_t at = address - found.range.begin;
    if (found.shadows)
        touch(w, x, lane, *found.shadows, at, bytes, kind, "global", address);
    return found.range.host + at;
}

} // namespace lz::ptx
