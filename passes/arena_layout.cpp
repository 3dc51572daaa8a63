#include "passes/arena_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace lz::passes {

namespace {

/// The gaps of an arena whose end can still grow.
class FreeList {
public:
    int64_t take(int64_t bytes) {
        if (const auto it = by_size_.lower_bound({bytes, 0}); it != by_size_.end()) {
            const auto [size, offset] = *it;
            remove(offset, size);
            if (size > bytes)
                insert(offset + bytes, size - bytes);
            return offset;
        }
        int64_t offset = end_;
        if (!by_offset_.empty()) {
            const auto [last, size] = *by_offset_.rbegin();
            if (last + size == end_) {
                remove(last, size);
                offset = last;
            }
        }
        end_ = offset + bytes;
        return offset;
    }

    void give_back(int64_t offset, int64_t bytes) {
        auto next = by_offset_.lower_bound(offset);
        if (next != by_offset_.end() && next->first == offset + bytes) {
            bytes += next->second;
            remove(next->first, next->second);
        }
        next = by_offset_.lower_bound(offset);
        if (next != by_offset_.begin()) {
            const auto [before, size] = *std::prev(next);
            if (before + size == offset) {
                remove(before, size);
                offset = before;
                bytes += size;
            }
        }
        insert(offset, bytes);
    }

    int64_t end() const { return end_; }

private:
    void insert(int64_t offset, int64_t size) {
        by_offset_.emplace(offset, size);
        by_size_.emplace(size, offset);
    }
    void remove(int64_t offset, int64_t size) {
        by_offset_.erase(offset);
        by_size_.erase({size, offset});
    }

    std::map<int64_t, int64_t> by_offset_;
    std::set<std::pair<int64_t, int64_t>> by_size_;
    int64_t end_ = 0;
};

/// Ids of n blocks by ascending key, equal ones in order.
std::vector<uint32_t> sorted_ids(size_t n, auto key) {
    std::vector<uint32_t> ids(n);
    std::iota(ids.begin(), ids.end(), 0u);
    std::ranges::sort(ids, {}, [&](uint32_t id) { return std::pair(key(id), id); });
    return ids;
}

ArenaLayout by_time(std::span<ArenaBlock> blocks) {
    const auto ends = sorted_ids(blocks.size(), [&](uint32_t id) { return blocks[id].last; });
    FreeList gaps;
    ArenaLayout layout;
    int64_t live = 0;
    size_t ended = 0;
    for (ArenaBlock &block : blocks) {
        for (; blocks[ends[ended]].last < block.first; ++ended) {
            gaps.give_back(blocks[ends[ended]].offset, blocks[ends[ended]].bytes);
            live -= blocks[ends[ended]].bytes;
        }
        block.offset = gaps.take(block.bytes);
        live += block.bytes;
        layout.live_bytes = std::max(layout.live_bytes, live);
    }
    layout.bytes = gaps.end();
    return layout;
}

int64_t by_size(std::span<const ArenaBlock> blocks, std::vector<int64_t> &offsets) {
    const auto order = sorted_ids(blocks.size(), [&](uint32_t id) { return -blocks[id].bytes; });
    std::vector<uint32_t> placed; // by offset
    int64_t total = 0;
    offsets.assign(blocks.size(), 0);
    for (uint32_t id : order) {
        const ArenaBlock &block = blocks[id];
        int64_t best = -1, best_gap = INT64_MAX, end = 0;
        for (uint32_t other : placed) {
            if (blocks[other].last < block.first || block.last < blocks[other].first)
                continue;
            const int64_t gap = offsets[other] - end;
            if (gap >= block.bytes && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
            end = std::max(end, offsets[other] + blocks[other].bytes);
        }
        offsets[id] = best >= 0 ? best : end;
        total = std::max(total, offsets[id] + block.bytes);
        placed.insert(
            std::ranges::upper_bound(placed, offsets[id], {}, [&](uint32_t p) { return offsets[p]; }), id);
    }
    return total;
}

} // namespace

ArenaLayout layout_arena(std::span<ArenaBlock> blocks) {
    if (blocks.empty())
        return {};
    ArenaLayout layout = by_time(blocks);
    if (layout.bytes > layout.live_bytes && blocks.size() <= kGreedyBlocks) {
        std::vector<int64_t> offsets;
        if (const int64_t bytes = by_size(blocks, offsets); bytes < layout.bytes) {
            layout.bytes = bytes;
            for (size_t k = 0; k < blocks.size(); ++k)
                blocks[k].offset = offsets[k];
        }
    }
    return layout;
}

} // namespace lz::passes
