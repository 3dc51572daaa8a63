#include "passes/memory/allocations.h"

#include "passes/hashed.h"
#include "passes/memory/plan_memory.h"
#include "passes/memory/reuse/donors.h"

#include <limits>
#include <map>
#include <tuple>

namespace lz::passes {

using namespace ir;

namespace {

size_t device_index(Device d) {
    return d.kind == DeviceKind::Cpu ? 0 : size_t{1} + d.index;
}

int64_t aligned(int64_t bytes) {
    return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

void lay_out_one(std::span<Allocation> allocations, std::span<const uint32_t> ids, const Program &program,
                 const StreamClocks *clocks, Arenas &to) {
    std::vector<ArenaBlock> blocks;
    for (const uint32_t id : ids) {
        Allocation &allocation = allocations[id];
        ArenaBlock &block = blocks.emplace_back();
        block.bytes = aligned(allocation.bytes);
        block.first = allocation.first;
        block.last = allocation.last;
        if (clocks) {
            block.begin = estimated_begin(program, allocation.first);
            block.uses = std::move(allocation.uses);
        }
    }
    IsOver is_over;
    if (clocks)
        is_over = [clocks](const ArenaBlock &b, StreamPosition p) { return clocks->over(b.first, p); };
    const ArenaLayout layout = clocks ? layout_arena(blocks, is_over) : layout_in_order(blocks);
    for (size_t k = 0; k < blocks.size(); ++k) {
        allocations[ids[k]].arena = static_cast<uint32_t>(to.arenas.size());
        allocations[ids[k]].offset = blocks[k].offset;
    }
    const Allocation &one = allocations[ids[0]];
    to.arenas.push_back({.device = one.device,
                         .pinned = one.pinned,
                         .home = one.home.stream,
                         .home_device = one.home.device,
                         .bytes = layout.bytes});
    to.live_bytes.push_back(layout.live_bytes);
}

} // namespace

double estimated_begin(const Program &program, uint32_t step) {
    return program.steps[step].stream >= kFirstUserStream ? -std::numeric_limits<double>::infinity()
                                                          : program.draft.steps[step].begin;
}

double estimated_end(const Program &program, uint32_t step) {
    return program.steps[step].stream >= kFirstUserStream ? std::numeric_limits<double>::infinity()
                                                          : program.draft.steps[step].end;
}

Arenas lay_out(std::span<Allocation> allocations, const Program &program, const StreamClocks *clocks) {
    std::map<std::tuple<size_t, bool, size_t, int32_t>, std::vector<uint32_t>> ids;
    for (uint32_t id = 0; id < allocations.size(); ++id)
        if (const Allocation &allocation = allocations[id]; allocation.in_arena())
            ids[{device_index(allocation.device), allocation.pinned, device_index(allocation.home.device),
                 allocation.home.stream}]
                .push_back(id);
    Arenas arenas;
    for (const auto &[key, of_one] : ids)
        lay_out_one(allocations, of_one, program, clocks, arenas);
    return arenas;
}

std::vector<Reuse> find_reuses(std::span<const Allocation> allocations, std::span<const Placed> placed,
                               const Program &program, bool one_stream) {
    std::vector<Reuse> reuses;
    std::vector<uint32_t> latest(allocations.size(), kNone), first(allocations.size(), kNone);
    for (const auto &[buffer, allocation] : placed) {
        if (first[allocation] == kNone) {
            first[allocation] = buffer;
        } else {
            reuses.push_back({latest[allocation], buffer});
            // A donor dies with all that share its memory.
            if (const uint32_t input = allocations[allocation].input; latest[allocation] == input)
                for_others_in_memory(program, input, [&](uint32_t k) { reuses.push_back({k, buffer}); });
        }
        latest[allocation] = buffer;
    }
    if (kManySizes && one_stream) // whose steps are in order, whoever had which bytes
        return reuses;
    // A walk in order of time over the owner of each range of bytes.
    struct Owner {
        int64_t end;
        uint32_t allocation;
    };
    std::vector<std::map<int64_t, Owner>> owners; // by arena
    for (uint32_t id = 0; id < allocations.size(); ++id) {
        const Allocation &allocation = allocations[id];
        if (!allocation.in_arena())
            continue;
        if (allocation.arena >= owners.size())
            owners.resize(allocation.arena + 1);
        auto &map = owners[allocation.arena];
        const int64_t begin = allocation.offset, end = allocation.offset + aligned(allocation.bytes);
        auto it = map.lower_bound(begin);
        if (it != map.begin() && std::prev(it)->second.end > begin)
            --it;
        while (it != map.end() && it->first < end) {
            const auto [at, owner] = *it;
            reuses.push_back({latest[owner.allocation], first[id]});
            it = map.erase(it);
            if (at < begin)
                map.emplace(at, Owner{begin, owner.allocation});
            if (owner.end > end)
                it = map.emplace(end, owner).first;
        }
        map[begin] = {end, id};
    }
    return reuses;
}

} // namespace lz::passes
