#include "tests/support/cuda/ptx/machine.h"

#include "tests/support/cuda/ptx/warp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace lz::ptx {
namespace {

std::string lanes_text(uint32_t lanes) {
    return fmt::format("0x{:08x}", lanes);
}

void check_launch(const Kernel &k, const Launch &l) {
    const uint64_t threads = l.block.count();
    if (l.grid.count() == 0 || threads == 0)
        throw std::invalid_argument(k.name + ": the grid or the block is empty.");
    if (threads > 1024)
        throw std::invalid_argument(
            fmt::format("{}: a block of {} threads; 1024 is the limit.", k.name, threads));
    const std::array<uint32_t, 3> block{l.block.x, l.block.y, l.block.z};
    for (size_t i = 0; i < 3; ++i)
        if (k.max_threads[0] != 0 &&
            (k.exact_threads ? block[i] != k.max_threads[i]
                             : threads > uint64_t{k.max_threads[0]} * k.max_threads[1] * k.max_threads[2]))
            throw std::invalid_argument(fmt::format(
                "{}: a block of {}x{}x{} threads; it was compiled for {}x{}x{}.", k.name, l.block.x,
                l.block.y, l.block.z, k.max_threads[0], k.max_threads[1], k.max_threads[2]));
    if (k.shared_bytes + l.dynamic_shared > l.shared_limit)
        throw std::invalid_argument(fmt::format("{}: {} bytes of shared memory; {} is the limit.", k.name,
                                                k.shared_bytes + l.dynamic_shared, l.shared_limit));
    if (l.parameters.size() != k.parameter_bytes)
        throw std::invalid_argument(fmt::format("{}: {} bytes of parameters; it takes {}.", k.name,
                                                l.parameters.size(), k.parameter_bytes));
}

uint32_t align_up(uint32_t value, uint32_t to) {
    return (value + to - 1) / to * to;
}

} // namespace

Machine::Machine(const Kernel &kernel, const Launch &launch)
    : kernel_(kernel), launch_(launch), rng_(launch.seed),
      shared_(align_up(kernel.shared_bytes, 16) + launch.dynamic_shared) {
    check_launch(kernel, launch);
    counts_.resize(kernel.code.size());
    const auto threads = static_cast<uint32_t>(launch.block.count());
    const uint32_t warps = (threads + kWarpSize - 1) / kWarpSize;
    const size_t local = size_t{kernel.local_bytes} * kWarpSize;
    frames_.resize(warps * kernel.frame.size());
    locals_.resize(warps * local);
    warps_.resize(warps);
    for (uint32_t i = 0; i < warps; ++i) {
        Warp &w = warps_[i];
        w.frame = frames_.data() + i * kernel.frame.size();
        w.local = locals_.data() + i * local;
        std::ranges::copy(kernel.frame, w.frame);
        w.index = i;
        const uint32_t lanes = std::min(kWarpSize, threads - i * kWarpSize);
        w.exist = lanes == kWarpSize ? kAllLanes : (1u << lanes) - 1;
    }
}

Counts Machine::run() {
    const uint64_t blocks = launch_.grid.count();
    // A random order without a table of all blocks: steps of a stride that has no divisor with their number.
    uint64_t stride = blocks > 2 ? 1 + rng_() % (blocks - 1) : 1;
    while (std::gcd(stride, blocks) != 1)
        ++stride;
    uint64_t block = blocks > 1 ? rng_() % blocks : 0;
    const auto ahead = [&](unsigned steps) { // in the order
        return static_cast<uint64_t>((block + static_cast<unsigned __int128>(stride) * steps) % blocks);
    };
    block = ahead(launch_.part);
    for (uint64_t i = launch_.part; i < blocks; i += launch_.parts) {
        if (launch_.stop && *launch_.stop)
            break;
        begin_block(block);
        run_block();
        block = ahead(launch_.parts);
    }
    Counts counts;
    counts.by_name.resize(kernel_.names.size());
    for (size_t i = 0; i < counts_.size(); ++i) {
        counts.by_name[kernel_.name_of[i]] += counts_[i];
        counts.thread_instructions += counts_[i];
    }
    counts.bank_conflicts = bank_conflicts_;
    return counts;
}

void Machine::begin_block(uint64_t block) {
    block_ = {static_cast<uint32_t>(block % launch_.grid.x),
              static_cast<uint32_t>(block / launch_.grid.x % launch_.grid.y),
              static_cast<uint32_t>(block / launch_.grid.x / launch_.grid.y)};
    shared_.begin_block();
    for (Warp &w : warps_) {
        w.written.assign(kernel_.registers.size(), 0);
        w.fragments.assign(1, {0, w.exist, Fragment::Wait::None, 0});
        w.copies.clear();
        w.groups.fill(0);
        w.ended = 0;
        w.epoch = 0;
        w.executed = 0;
        for (const auto &[operand, which] : kernel_.specials)
            set_special(w, operand, which, launch_, block_);
    }
}

void Machine::run_block() {
    std::vector<uint32_t> order(warps_.size());
    std::iota(order.begin(), order.end(), 0u);
    for (;;) {
        std::ranges::shuffle(order, rng_);
        for (const uint32_t i : order)
            run_warp(warps_[i]);
        const bool done = std::ranges::all_of(warps_, [](const Warp &w) { return w.fragments.empty(); });
        if (done)
            return;
        release_barrier();
    }
}

void Machine::run_warp(Warp &w) {
    for (;;) {
        size_t best = w.fragments.size();
        for (size_t i = 0; i < w.fragments.size(); ++i)
            if (w.fragments[i].wait == Fragment::Wait::None &&
                (best == w.fragments.size() || w.fragments[i].pc < w.fragments[best].pc))
                best = i;
        if (best == w.fragments.size())
            return;
        run_fragment(w, best);
    }
}

void Machine::check_sources(Warp &w, const Instr &x, uint32_t mask) {
    const auto check = [&](const Operand &o) {
        if (o.reg == Operand::kNoRegister)
            return;
        if (const uint32_t never = mask & ~w.written[o.reg]) [[unlikely]]
            fault(Fault::Kind::Uninitialized, w, x, static_cast<uint32_t>(std::countr_zero(never)),
                  fmt::format("register {} is read before it was written", kernel_.registers[o.reg]));
    };
    for (uint32_t i = 0; i < x.num_src; ++i)
        check(x.src[i]);
}

void Machine::run_fragment(Warp &w, size_t index) {
    Fragment now = w.fragments[index];
    w.fragments.erase(w.fragments.begin() + static_cast<ptrdiff_t>(index));
    // The next place at which other lanes are, that these would meet.
    uint32_t meet = ~0u;
    const auto find_meeting = [&] {
        meet = ~0u;
        for (const Fragment &f : w.fragments)
            if (f.pc >= now.pc && f.pc < meet)
                meet = f.pc;
    };
    const auto wait = [&](Fragment::Wait how, uint32_t lanes, uint32_t missing) {
        w.fragments.push_back({now.pc, lanes, how, missing});
    };
    find_meeting();
    const auto end = static_cast<uint32_t>(kernel_.code.size());
    for (;;) {
        if (now.pc == meet) {
            std::erase_if(w.fragments, [&](const Fragment &f) {
                if (f.pc != now.pc || f.wait == Fragment::Wait::Block)
                    return false;
                now.lanes |= f.lanes;
                return true;
            });
            find_meeting();
            if (meet == now.pc) // others of the warp wait at the block's barrier here: so will these
                meet = ~0u;
        }
        if (now.pc >= end) {
            w.ended |= now.lanes;
            return;
        }
        const Instr &x = at(now.pc);
        uint32_t mask = now.lanes;
        if (x.guarded) {
            if (const uint32_t never = mask & ~w.written[x.guard.reg]) [[unlikely]]
                fault(
                    Fault::Kind::Uninitialized, w, x, static_cast<uint32_t>(std::countr_zero(never)),
                    fmt::format("register {} is read before it was written", kernel_.registers[x.guard.reg]));
            mask &= w.predicate(x.guard);
        }
        counts_[now.pc] += static_cast<uint64_t>(std::popcount(mask));
        if (++w.executed > launch_.max_instructions) [[unlikely]]
            fault(Fault::Kind::Endless, w, x, static_cast<uint32_t>(std::countr_zero(now.lanes)),
                  fmt::format("the warp has run {} instructions and does not end", launch_.max_instructions));
        switch (x.flow) {
        case Flow::Plain:
            if (mask) {
                check_sources(w, x, mask);
                x.run(*this, w, x, mask);
                for (uint32_t i = 0; i < x.num_dst; ++i)
                    if (x.dst[i].reg != Operand::kNoRegister)
                        w.written[x.dst[i].reg] |= mask;
            }
            ++now.pc;
            break;
        case Flow::Branch:
        case Flow::BranchTable: {
            if (!mask) {
                ++now.pc;
                break;
            }
            uint32_t target = x.target;
            uint32_t taken = mask;
            if (x.flow == Flow::BranchTable) { // the first lane's way, and the others with it
                check_sources(w, x, mask);
                const auto &table = kernel_.tables[x.target];
                const auto first = static_cast<uint32_t>(std::countr_zero(mask));
                const uint64_t which = w.bits(x.src[0], first);
                if (which >= table.size())
                    fault(Fault::Kind::Trap, w, x, first,
                          fmt::format("an indirect branch to entry {} of {}", which, table.size()));
                target = table[which];
                taken = 0;
                for_lanes(mask, [&](uint32_t lane) {
                    if (w.bits(x.src[0], lane) == which)
                        taken |= 1u << lane;
                });
            }
            const bool all_go_somewhere = x.flow == Flow::BranchTable;
            const uint32_t rest = now.lanes & ~taken;
            if (rest == 0) {
                now.pc = target;
                if (w.fragments.empty())
                    break;
                w.fragments.push_back(now); // others may be behind them now
                return;
            }
            // Two ways: those furthest behind go first.
            w.fragments.push_back({target, taken, Fragment::Wait::None, 0});
            w.fragments.push_back({all_go_somewhere ? now.pc : now.pc + 1, rest, Fragment::Wait::None, 0});
            return;
        }
        case Flow::Exit:
            w.ended |= mask;
            now.lanes &= ~mask;
            if (!now.lanes)
                return;
            ++now.pc;
            break;
        case Flow::Barrier:
        case Flow::BarrierReduce:
            if (mask) {
                check_sources(w, x, mask);
                wait(Fragment::Wait::Block, mask, 0);
                now.lanes &= ~mask;
                if (!now.lanes)
                    return;
            }
            ++now.pc;
            find_meeting();
            break;
        case Flow::WarpSync: {
            if (!mask) {
                ++now.pc;
                break;
            }
            check_sources(w, x, mask);
            uint32_t missing = 0;
            const uint32_t passed = pass_warp_sync(w, x, mask, missing);
            for (uint32_t i = 0; i < x.num_dst; ++i)
                if (x.dst[i].reg != Operand::kNoRegister)
                    w.written[x.dst[i].reg] |= passed;
            if (passed != mask) {
                const uint32_t waiting = mask & ~passed;
                wait(Fragment::Wait::Warp, waiting, missing);
                now.lanes &= ~waiting;
                if (!now.lanes)
                    return;
            }
            ++now.pc;
            find_meeting();
            break;
        }
        case Flow::WaitCopies:
            if (mask)
                wait_copies(w, x, mask);
            ++now.pc;
            break;
        }
    }
}

uint32_t Machine::pass_warp_sync(Warp &w, const Instr &x, uint32_t mask, uint32_t &missing) {
    const Operand &members = x.src[x.num_src - 1];
    uint32_t passed = 0, left = mask;
    while (left) {
        const auto lane = static_cast<uint32_t>(std::countr_zero(left));
        const auto need = static_cast<uint32_t>(w.bits(members, lane));
        uint32_t same = 0;
        for_lanes(left, [&](uint32_t l) {
            if (static_cast<uint32_t>(w.bits(members, l)) == need)
                same |= 1u << l;
        });
        left &= ~same;
        if (const uint32_t left_out = same & ~need)
            fault(Fault::Kind::Synchronization, w, x, static_cast<uint32_t>(std::countr_zero(left_out)),
                  fmt::format("the lane is not in its own mask {}", lanes_text(need)));
        if (const uint32_t gone = need & (w.ended | ~w.exist))
            fault(Fault::Kind::Synchronization, w, x, lane,
                  fmt::format("lanes {} of the mask {} have ended", lanes_text(gone), lanes_text(need)));
        if (need == same) {
            x.run(*this, w, x, same);
            passed |= same;
        } else {
            missing |= need & ~same;
        }
    }
    return passed;
}

void Machine::release_barrier() {
    // All threads that have not ended have to be at one barrier.
    const Instr *barrier = nullptr;
    uint32_t pc = 0;
    for (Warp &w : warps_)
        for (const Fragment &f : w.fragments) {
            if (f.wait != Fragment::Wait::Block || (barrier && f.pc != pc))
                stuck();
            barrier = &at(f.pc);
            pc = f.pc;
        }
    uint64_t counted = 0, all = 0;
    if (barrier->flow == Flow::BarrierReduce)
        for (Warp &w : warps_)
            for (const Fragment &f : w.fragments) {
                counted += static_cast<uint64_t>(std::popcount(w.predicate(barrier->src[0]) & f.lanes));
                all += static_cast<uint64_t>(std::popcount(f.lanes));
            }
    for (Warp &w : warps_) {
        if (w.fragments.empty())
            continue;
        uint32_t lanes = 0;
        for (const Fragment &f : w.fragments)
            lanes |= f.lanes;
        if (barrier->flow == Flow::BarrierReduce) {
            const Operand &to = barrier->dst[0];
            // sub: 0 how many, 1 all, 2 any
            if (barrier->sub == 0)
                for_lanes(lanes, [&](uint32_t lane) { w.set_bits(to, lane, counted); });
            else
                w.set_predicate(to, (barrier->sub == 1 ? counted == all : counted != 0) ? kAllLanes : 0,
                                lanes);
            if (to.reg != Operand::kNoRegister)
                w.written[to.reg] |= lanes;
        }
        w.fragments.assign(1, {pc + 1, lanes, Fragment::Wait::None, 0});
        w.epoch = 0;
    }
    shared_.barrier();
}

void Machine::stuck() {
    std::string text = "threads wait apart, and none can go on:";
    const Warp *first_warp = nullptr;
    const Fragment *first = nullptr;
    int told = 0;
    for (const Warp &w : warps_)
        for (const Fragment &f : w.fragments) {
            // Those that wait for lanes of their warp are the reason; those at a barrier are not.
            if (!first || (first->wait == Fragment::Wait::Block && f.wait == Fragment::Wait::Warp)) {
                first = &f;
                first_warp = &w;
            }
            if (++told > 6)
                continue;
            text += fmt::format(" lanes {} of warp {} at {} (line {})", lanes_text(f.lanes), w.index,
                                kernel_.names[kernel_.name_of[f.pc]], at(f.pc).line);
            if (f.wait == Fragment::Wait::Warp)
                text += fmt::format(", which wants lanes {} too", lanes_text(f.missing));
            if (const uint32_t gone = f.missing & w.ended)
                text += fmt::format(" (of them {} have ended)", lanes_text(gone));
            text += told == 6 ? " ..." : ";";
        }
    text.pop_back();
    fault(Fault::Kind::Synchronization, *first_warp, at(first->pc),
          static_cast<uint32_t>(std::countr_zero(first->lanes)), text);
}

void Machine::wait_copies(Warp &w, const Instr &x, uint32_t mask) {
    std::erase_if(w.copies, [&](const PendingCopy &c) {
        if (!(mask >> c.lane & 1) || (x.constant != ~uint64_t{0} && c.group + x.constant >= w.groups[c.lane]))
            return false;
        shared_.set_in_flight(c.to, c.bytes, false);
        uint32_t other = 0;
        shared_.touch(c.to, c.bytes, SharedMemory::Access::Write, thread_of(w, c.lane), w.epoch, other);
        std::memcpy(shared_.data() + c.to, c.from, c.bytes_read);
        std::memset(shared_.data() + c.to + c.bytes_read, 0, c.bytes - c.bytes_read);
        return true;
    });
}

Dim Machine::thread_index(uint32_t thread) const {
    return {thread % launch_.block.x, thread / launch_.block.x % launch_.block.y,
            thread / launch_.block.x / launch_.block.y};
}

void Machine::fault(Fault::Kind kind, const Warp &w, const Instr &x, uint32_t lane,
                    const std::string &what) const {
    const Dim t = thread_index(thread_of(w, lane));
    const auto pc = static_cast<size_t>(&x - kernel_.code.data());
    throw Fault(kind, fmt::format("{}: `{}` at line {} of the PTX, block ({},{},{}), thread ({},{},{}): {}.",
                                  kernel_.name, kernel_.names[kernel_.name_of[pc]], x.line, block_.x,
                                  block_.y, block_.z, t.x, t.y, t.z, what));
}

unsigned char *Machine::resolve(Warp &w, const Instr &x, uint32_t lane, Space space, uint64_t address,
                                uint32_t bytes, SharedMemory::Access kind) {
    if (address % bytes) [[unlikely]]
        fault(Fault::Kind::Misaligned, w, x, lane,
              fmt::format("address 0x{:x} is no multiple of {}, the bytes of the access", address, bytes));
    if (space == Space::Generic && address >= kSharedWindow) {
        space = address >= kParamWindow   ? Space::Param
                : address >= kLocalWindow ? Space::Local
                                          : Space::Shared;
        address &= kSharedWindow - 1;
    }
    const auto inside = [&](uint64_t size, const char *what) {
        if (address > size || size - address < bytes)
            fault(Fault::Kind::Address, w, x, lane,
                  fmt::format("{} bytes at {} of {} bytes of {}", bytes, static_cast<int64_t>(address), size,
                              what));
    };
    switch (space) {
    case Space::Shared: {
        inside(shared_.size(), "shared memory");
        uint32_t other = 0;
        const auto at = static_cast<uint32_t>(address);
        switch (shared_.touch(at, bytes, kind, thread_of(w, lane), w.epoch, other)) {
        case SharedMemory::Wrong::Nothing:
            break;
        case SharedMemory::Wrong::Uninitialized:
            fault(Fault::Kind::Uninitialized, w, x, lane,
                  fmt::format("shared memory at {} is read before the block wrote it", at));
        case SharedMemory::Wrong::InFlight:
            fault(
                Fault::Kind::Race, w, x, lane,
                fmt::format(
                    "shared memory at {} is touched before an asynchronous copy into it was waited for", at));
        case SharedMemory::Wrong::Race:
            if (other == kAllLanes)
                fault(Fault::Kind::Race, w, x, lane,
                      fmt::format(
                          "shared memory at {} is written while other threads read it: no barrier is between",
                          at));
            const Dim t = thread_index(other);
            fault(
                Fault::Kind::Race, w, x, lane,
                fmt::format(
                    "shared memory at {} is touched by thread ({},{},{}) as well, and no barrier is between",
                    at, t.x, t.y, t.z));
        }
        return shared_.data() + at;
    }
    case Space::Local:
        inside(kernel_.local_bytes, "local memory");
        return w.local + size_t{lane} * kernel_.local_bytes + address;
    case Space::Param:
        inside(kernel_.parameter_bytes, "parameters");
        if (kind != SharedMemory::Access::Read)
            fault(Fault::Kind::Address, w, x, lane, "a parameter is written");
        return const_cast<unsigned char *>(launch_.parameters.data()) + address;
    case Space::Generic:
    case Space::Global:
        break;
    }
    const auto holds = [&](const Range &r) { return address >= r.begin && address + bytes <= r.end; };
    const Range *range = nullptr;
    for (const Range &r : ranges_)
        if (holds(r)) {
            range = &r;
            break;
        }
    if (!range) [[unlikely]] {
        Range &found = ranges_[next_range_++ % ranges_.size()];
        found = {};
        if (!launch_.find(address, found) || !holds(found)) {
            const bool reaches_out = address >= found.begin && address < found.end;
            const uint64_t begin = found.begin, stop = found.end;
            found = {};
            fault(
                Fault::Kind::Address, w, x, lane,
                reaches_out
                    ? fmt::format(
                          "{} bytes at 0x{:x} reach beyond the end of their allocation, 0x{:x} to 0x{:x}",
                          bytes, address, begin, stop)
                    : fmt::format("global address 0x{:x} is in no live allocation of this device", address));
        }
        range = &found;
    }
    if (kind != SharedMemory::Access::Read && !range->writable) [[unlikely]]
        fault(Fault::Kind::Address, w, x, lane,
              fmt::format("global address 0x{:x} may not be written", address));
    return range->host + (address - range->begin);
}

Counts run(const Kernel &kernel, const Launch &launch) {
    return Machine(kernel, launch).run();
}

} // namespace lz::ptx
