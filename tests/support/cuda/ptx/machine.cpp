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
    const std::array<uint32_t, 3> grid{l.grid.x, l.grid.y, l.grid.z},
        cluster{l.cluster.x, l.cluster.y, l.cluster.z};
    for (size_t i = 0; i < 3; ++i)
        if (cluster[i] == 0 || grid[i] % cluster[i] != 0 || l.cluster.count() > kMostClusterBlocks)
            throw std::invalid_argument(fmt::format(
                "{}: clusters of {}x{}x{} blocks in a grid of {}x{}x{}; they fill it, and {} is the limit.",
                k.name, l.cluster.x, l.cluster.y, l.cluster.z, l.grid.x, l.grid.y, l.grid.z,
                kMostClusterBlocks));
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
    : kernel_(kernel), launch_(launch), rng_(launch.seed) {
    check_launch(kernel, launch);
    counts_.resize(kernel.code.size());
    const auto threads = static_cast<uint32_t>(launch.block.count());
    const uint32_t warps = (threads + kWarpSize - 1) / kWarpSize;
    const auto blocks = static_cast<uint32_t>(launch.cluster.count());
    const size_t local = size_t{kernel.local_bytes} * kWarpSize;
    frames_.resize(blocks * warps * kernel.frame.size());
    locals_.resize(blocks * warps * local);
    warps_.resize(blocks * warps);
    for (uint32_t i = 0; i < warps_.size(); ++i) {
        Warp &w = warps_[i];
        w.frame = frames_.data() + i * kernel.frame.size();
        w.local = locals_.data() + i * local;
        std::ranges::copy(kernel.frame, w.frame);
        w.block = i / warps;
        w.index = i % warps;
        const uint32_t lanes = std::min(kWarpSize, threads - w.index * kWarpSize);
        w.exist = lanes == kWarpSize ? kAllLanes : (1u << lanes) - 1;
    }
    for (uint32_t b = 0; b < blocks; ++b)
        blocks_.push_back({{},
                           SharedMemory(align_up(kernel.shared_bytes, 16) + launch.dynamic_shared),
                           std::span(warps_).subspan(size_t{b} * warps, warps)});
}

Counts Machine::run() {
    const uint64_t all = launch_.grid.count() / launch_.cluster.count();
    const uint64_t clusters = all - std::min(launch_.first, all);
    // A random order without a table of all of them: steps of a stride that has no divisor with their number.
    uint64_t stride = clusters > 2 ? 1 + rng_() % (clusters - 1) : 1;
    while (std::gcd(stride, clusters) != 1)
        ++stride;
    uint64_t cluster = clusters > 1 ? rng_() % clusters : 0;
    const auto ahead = [&](unsigned steps) { // in the order
        return static_cast<uint64_t>((cluster + static_cast<unsigned __int128>(stride) * steps) % clusters);
    };
    cluster = ahead(launch_.part);
    for (uint64_t i = launch_.part; i < clusters; i += launch_.parts) {
        if (launch_.stop && *launch_.stop)
            break;
        begin_blocks(launch_.first + cluster);
        run_blocks();
        cluster = ahead(launch_.parts);
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

void Machine::begin_blocks(uint64_t cluster) {
    const Dim size = launch_.cluster;
    const uint64_t x = launch_.grid.x / size.x, y = launch_.grid.y / size.y;
    const Dim first{static_cast<uint32_t>(cluster % x) * size.x,
                    static_cast<uint32_t>(cluster / x % y) * size.y,
                    static_cast<uint32_t>(cluster / x / y) * size.z};
    barriers_.begin_blocks();
    for (uint32_t b = 0; b < blocks_.size(); ++b)
        blocks_[b].index = {first.x + b % size.x, first.y + b / size.x % size.y,
                            first.z + b / size.x / size.y};
    for (Warp &w : warps_) {
        w.written.assign(kernel_.registers.size(), 0);
        w.partly.clear();
        w.fragments.assign(1, {0, w.exist, Fragment::Wait::None, 0});
        w.copies.clear();
        w.groups.fill(0);
        w.ended = w.arrived = w.released = 0;
        w.executed = 0;
        for (const auto &[operand, which] : kernel_.specials)
            set_special(w, operand, which, launch_, blocks_[w.block].index);
    }
}

void Machine::run_blocks() {
    std::vector<uint32_t> order(warps_.size());
    std::iota(order.begin(), order.end(), 0u);
    for (;;) {
        std::ranges::shuffle(order, rng_);
        for (const uint32_t i : order)
            run_warp(warps_[i]);
        if (std::ranges::all_of(warps_, [](const Warp &w) { return w.fragments.empty(); }))
            break;
        bool goes_on = false;
        for (Block &block : blocks_)
            goes_on = release_block(block) || goes_on;
        if (!goes_on && !release_cluster())
            stuck();
    }
    if (remote_.warp)
        fault(Fault::Kind::Race, *remote_.warp, *remote_.instr, remote_.lane,
              fmt::format(
                  "shared memory of block {} of the cluster is touched, and it may have ended: no barrier "
                  "of the cluster comes after",
                  remote_.block));
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

void Machine::note_move(Warp &w, const Instr &x, uint32_t mask) {
    const auto whole = [&](const Operand &o) {
        return o.reg == Operand::kNoRegister ? kAllLanes : w.written[o.reg];
    };
    const auto note_all = [&] {
        for (uint32_t i = 0; i < x.num_dst; ++i)
            if (x.dst[i].reg != Operand::kNoRegister)
                w.written[x.dst[i].reg] |= mask;
    };
    uint32_t all = mask;
    for (uint32_t i = 0; i < x.num_src; ++i)
        all &= whole(x.src[i]);
    if (all == mask) [[likely]]
        return note_all();
    // The 16 bits of all sources, side by side, are those of all results.
    Warp::Parts parts{};
    const uint32_t count = size_of(x.type) / 2;
    uint32_t any = 0;
    for (uint32_t p = 0; p < count; ++p) {
        const uint32_t of_each = count / x.num_src;
        const Operand &from = x.src[p / of_each];
        parts[p] = whole(from);
        if (const auto found = w.partly.find(from.reg); found != w.partly.end())
            parts[p] |= found->second[p % of_each];
        any |= parts[p];
    }
    if (const uint32_t never = mask & ~any)
        fault(Fault::Kind::Uninitialized, w, x, static_cast<uint32_t>(std::countr_zero(never)),
              fmt::format("register {} is read before it was written", kernel_.registers[x.src[0].reg]));
    const uint32_t of_each = count / x.num_dst;
    for (uint32_t i = 0; i < x.num_dst; ++i) {
        if (x.dst[i].reg == Operand::kNoRegister)
            continue;
        Warp::Parts &to = w.partly[x.dst[i].reg];
        uint32_t &written = w.written[x.dst[i].reg];
        uint32_t whole_now = mask;
        for (uint32_t p = 0; p < of_each; ++p) {
            const uint32_t now = parts[i * of_each + p];
            to[p] = (to[p] & ~mask) | (now & mask);
            whole_now &= now;
        }
        written = (written & ~mask) | whole_now;
    }
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
                if (f.pc != now.pc || f.wait == Fragment::Wait::Block || f.wait == Fragment::Wait::Cluster)
                    return false;
                now.lanes |= f.lanes;
                return true;
            });
            find_meeting();
            if (meet == now.pc) // others of the warp wait at a barrier of more than it here: so will these
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
        case Flow::Move:
            if (mask) {
                note_move(w, x, mask);
                x.run(*this, w, x, mask);
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
        case Flow::ClusterArrive:
            if (mask)
                arrive(w, x, mask);
            ++now.pc;
            break;
        case Flow::ClusterWait: {
            const uint32_t waiting = mask & ~pass_cluster_wait(w, x, mask);
            if (waiting) {
                wait(Fragment::Wait::Cluster, waiting, 0);
                now.lanes &= ~waiting;
                if (!now.lanes)
                    return;
            }
            ++now.pc;
            find_meeting();
            break;
        }
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

bool Machine::release_block(Block &block) {
    // All threads that have not ended have to be at one barrier.
    const Instr *barrier = nullptr;
    uint32_t pc = 0;
    for (const Warp &w : block.warps)
        for (const Fragment &f : w.fragments) {
            if (f.wait != Fragment::Wait::Block || (barrier && f.pc != pc))
                return false;
            barrier = &at(f.pc);
            pc = f.pc;
        }
    if (!barrier)
        return false;
    uint64_t counted = 0, all = 0;
    if (barrier->flow == Flow::BarrierReduce)
        for (Warp &w : block.warps)
            for (const Fragment &f : w.fragments) {
                counted += static_cast<uint64_t>(std::popcount(w.predicate(barrier->src[0]) & f.lanes));
                all += static_cast<uint64_t>(std::popcount(f.lanes));
            }
    for (Warp &w : block.warps) {
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
    }
    barriers_.pass_block(static_cast<uint32_t>(&block - blocks_.data()));
    return true;
}

void Machine::arrive(Warp &w, const Instr &x, uint32_t mask) {
    if (const uint32_t again = mask & (w.arrived | w.released))
        fault(Fault::Kind::Synchronization, w, x, static_cast<uint32_t>(std::countr_zero(again)),
              "it arrives at a barrier of the cluster and has not waited at the one before");
    w.arrived |= mask;
}

uint32_t Machine::pass_cluster_wait(Warp &w, const Instr &x, uint32_t mask) {
    if (const uint32_t never = mask & ~(w.arrived | w.released))
        fault(Fault::Kind::Synchronization, w, x, static_cast<uint32_t>(std::countr_zero(never)),
              "it waits at a barrier of the cluster and has not arrived there");
    const uint32_t passed = mask & w.released;
    w.released &= ~passed;
    return passed;
}

bool Machine::release_cluster() {
    // Nobody can go on: whoever has not ended has arrived by now, or never will.
    for (const Warp &w : warps_)
        if ((w.exist & ~w.ended & ~w.arrived) != 0)
            return false;
    bool goes_on = false;
    for (Warp &w : warps_) {
        w.released = w.arrived & ~w.ended;
        w.arrived = 0;
        for (Fragment &f : w.fragments)
            if (f.wait == Fragment::Wait::Cluster) {
                w.released &= ~f.lanes;
                f.wait = Fragment::Wait::None;
                ++f.pc;
                goes_on = true;
            }
    }
    barriers_.pass_cluster();
    remote_ = {};
    return goes_on;
}

void Machine::stuck() {
    std::string text = "threads wait apart, and none can go on:";
    const Warp *first_warp = nullptr;
    const Fragment *first = nullptr;
    int told = 0;
    for (const Warp &w : warps_)
        for (const Fragment &f : w.fragments) {
            // Those that wait for lanes of their warp are the reason; those at a barrier are not.
            if (!first || (first->wait != Fragment::Wait::Warp && f.wait == Fragment::Wait::Warp)) {
                first = &f;
                first_warp = &w;
            }
            if (++told > 6)
                continue;
            text += fmt::format(" lanes {} of warp {}{} at {} (line {})", lanes_text(f.lanes), w.index,
                                blocks_.size() == 1 ? "" : fmt::format(" of block {}", w.block),
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
        SharedMemory &shared = shared_of(w);
        shared.shadows().set_in_flight(c.to, c.bytes, false);
        Shadows::Other other;
        shared.shadows().touch(barriers_, c.to, c.bytes, UINT32_MAX, Access::Write, w, c.lane, other);
        std::memcpy(shared.data() + c.to, c.from, c.bytes_read);
        std::memset(shared.data() + c.to + c.bytes_read, 0, c.bytes - c.bytes_read);
        return true;
    });
}

Dim Machine::thread_index(uint32_t thread) const {
    return {thread % launch_.block.x, thread / launch_.block.x % launch_.block.y,
            thread / launch_.block.x / launch_.block.y};
}

void Machine::fault(Fault::Kind kind, const Warp &w, const Instr &x, uint32_t lane,
                    const std::string &what) const {
    const Dim t = thread_index(thread_of(w, lane)), block = blocks_[w.block].index;
    const auto pc = static_cast<size_t>(&x - kernel_.code.data());
    throw Fault(kind, fmt::format("{}: `{}` at line {} of the PTX, block ({},{},{}), thread ({},{},{}): {}.",
                                  kernel_.name, kernel_.names[kernel_.name_of[pc]], x.line, block.x, block.y,
                                  block.z, t.x, t.y, t.z, what));
}

Counts run(const Kernel &kernel, const Launch &launch) {
    if (kernel.cluster[0] == 0)
        return Machine(kernel, launch).run();
    Launch with_clusters = launch;
    with_clusters.cluster = {kernel.cluster[0], kernel.cluster[1], kernel.cluster[2]};
    return Machine(kernel, with_clusters).run();
}

} // namespace lz::ptx
