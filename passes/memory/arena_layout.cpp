#include "passes/memory/arena_layout.h"

#include "passes/found_again.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace lz::passes {

namespace {

/// What a block has to know of the one that had its bytes.
class Behind {
public:
    explicit Behind(const IsOver &is_over) : is_over_(is_over) {}

    bool by_order(const ArenaBlock &block, const LastUses &before) const {
        return !is_over_ ||
               std::ranges::all_of(before.places, [&](StreamPosition p) { return is_over_(block, p); });
    }
    static bool by_time(const ArenaBlock &block, const LastUses &before) { return before.end <= block.begin; }
    /// Whether bytes of `before` may be those of `block`.
    bool operator()(const ArenaBlock &block, const ArenaBlock &before) const {
        return before.last < block.first &&
               (!is_over_ || by_time(block, before.uses) || by_order(block, before.uses));
    }

private:
    const IsOver &is_over_;
};

/// The gaps of an arena whose end can still grow.
class FreeList {
public:
    explicit FreeList(const Behind &behind) : behind_(behind) {}

    int64_t take(const ArenaBlock &block) {
        auto found = find(block);
        if (!found)
            found = join_for(block);
        if (found) {
            const int64_t offset = *found;
            Gap gap = remove(offset);
            if (gap.bytes > block.bytes)
                insert(offset + block.bytes, {gap.bytes - block.bytes, std::move(gap.uses)});
            return offset;
        }
        int64_t offset = end_;
        if (!gaps_.empty()) {
            const auto &[last, gap] = *gaps_.rbegin();
            if (last + gap.bytes == end_ && allowed(block, gap)) {
                offset = last;
                remove(last);
            }
        }
        end_ = offset + block.bytes;
        return offset;
    }

    void give_back(const ArenaBlock &block) {
        insert(block.offset, {block.bytes, block.uses});
        const auto at = gaps_.find(block.offset);
        const auto next = std::next(at);
        if (next != gaps_.end() && touches(*at, *next) && same_streams(at->second, next->second))
            join(at, next);
        if (at != gaps_.begin())
            if (const auto before = std::prev(at);
                touches(*before, *at) && same_streams(before->second, at->second))
                join(before, at);
    }

    int64_t end() const { return end_; }

private:
    struct Gap {
        int64_t bytes;
        LastUses uses;
    };

    using Gaps = std::map<int64_t, Gap>; // by offset

    static bool touches(const Gaps::value_type &a, const Gaps::value_type &b) {
        return a.first + a.second.bytes == b.first;
    }
    /// Gaps of other streams stay apart, so that one which is behind in order is not lost in one that is not.
    static bool same_streams(const Gap &a, const Gap &b) {
        return a.uses.places.size() == b.uses.places.size() &&
               std::ranges::all_of(a.uses.places, [&](StreamPosition p) {
                   return std::ranges::find(b.uses.places, p.stream, &StreamPosition::stream) !=
                          b.uses.places.end();
               });
    }
    void join(Gaps::iterator a, Gaps::iterator b) {
        by_size_.erase({a->second.bytes, a->first});
        by_size_.erase({b->second.bytes, b->first});
        a->second.bytes += b->second.bytes;
        a->second.uses.add(b->second.uses);
        by_size_.emplace(a->second.bytes, a->first);
        gaps_.erase(b);
    }

    /// Joins neighbours around one of the largest gaps, if that makes room.
    std::optional<int64_t> join_for(const ArenaBlock &block) {
        constexpr int kLookAt = 4;
        int looked = 0;
        for (auto it = by_size_.rbegin(); it != by_size_.rend() && looked < kLookAt; ++it, ++looked) {
            auto first = gaps_.find(it->second), last = first;
            if (!allowed(block, first->second))
                continue;
            int64_t bytes = first->second.bytes;
            while (bytes < block.bytes && first != gaps_.begin() && touches(*std::prev(first), *first) &&
                   allowed(block, std::prev(first)->second))
                bytes += (--first)->second.bytes;
            for (auto next = std::next(last); bytes < block.bytes && next != gaps_.end() &&
                                              touches(*last, *next) && allowed(block, next->second);
                 ++next) {
                bytes += next->second.bytes;
                last = next;
            }
            if (bytes < block.bytes)
                continue;
            const int64_t offset = first->first;
            while (first != last) {
                const bool done = std::next(first) == last;
                join(first, std::next(first));
                if (done)
                    break;
            }
            return offset;
        }
        return std::nullopt;
    }

    bool allowed(const ArenaBlock &block, const Gap &gap) const {
        return behind_.by_order(block, gap.uses) || Behind::by_time(block, gap.uses);
    }

    /// The smallest gap that fits and is behind in order, else one that is behind in time. Only a few are
    /// looked at, so that the whole stays near linear.
    std::optional<int64_t> find(const ArenaBlock &block) const {
        constexpr int kLookAt = 24;
        std::optional<int64_t> in_time;
        int looked = 0;
        for (auto it = by_size_.lower_bound({block.bytes, 0}); it != by_size_.end() && looked < kLookAt;
             ++it, ++looked) {
            const LastUses &uses = gaps_.find(it->second)->second.uses;
            if (behind_.by_order(block, uses))
                return it->second;
            if (!in_time && Behind::by_time(block, uses))
                in_time = it->second;
        }
        return in_time;
    }

    void insert(int64_t offset, Gap gap) {
        by_size_.emplace(gap.bytes, offset);
        gaps_.emplace(offset, std::move(gap));
    }
    Gap remove(int64_t offset) {
        const auto it = gaps_.find(offset);
        Gap gap = std::move(it->second);
        by_size_.erase({gap.bytes, offset});
        gaps_.erase(it);
        return gap;
    }

    const Behind &behind_;
    Gaps gaps_;
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

ArenaLayout by_time(std::span<ArenaBlock> blocks, const Behind &behind) {
    const auto ends = sorted_ids(blocks.size(), [&](uint32_t id) { return blocks[id].last; });
    FreeList gaps(behind);
    ArenaLayout layout;
    int64_t live = 0;
    size_t ended = 0;
    for (ArenaBlock &block : blocks) {
        for (; blocks[ends[ended]].last < block.first; ++ended) {
            gaps.give_back(blocks[ends[ended]]);
            live -= blocks[ends[ended]].bytes;
        }
        block.offset = gaps.take(block);
        live += block.bytes;
        layout.live_bytes = std::max(layout.live_bytes, live);
    }
    layout.bytes = gaps.end();
    return layout;
}

int64_t by_size(std::span<const ArenaBlock> blocks, const Behind &behind, std::vector<int64_t> &offsets) {
    const auto order = sorted_ids(blocks.size(), [&](uint32_t id) { return -blocks[id].bytes; });
    std::vector<uint32_t> placed; // by offset
    int64_t total = 0;
    offsets.assign(blocks.size(), 0);
    for (uint32_t id : order) {
        const ArenaBlock &block = blocks[id];
        int64_t best = -1, best_gap = INT64_MAX, end = 0;
        for (uint32_t other : placed) {
            if (behind(block, blocks[other]) || behind(blocks[other], block))
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

void LastUses::add(StreamPosition place, double place_end) {
    end = std::max(end, place_end);
    for (StreamPosition &p : places)
        if (p.stream == place.stream) {
            p.position = std::max(p.position, place.position);
            return;
        }
    places.push_back(place);
}

void LastUses::add(const LastUses &other) {
    for (const StreamPosition &place : other.places)
        add(place, other.end);
}

ArenaLayout layout_arena(std::span<ArenaBlock> blocks, const IsOver &is_over) {
    if (blocks.empty())
        return {};
    const Behind behind(is_over);
    ArenaLayout layout = by_time(blocks, behind);
    if (layout.bytes > layout.live_bytes && blocks.size() <= kGreedyBlocks) {
        std::vector<int64_t> offsets;
        // Placed by size, blocks of different streams take turns more often, and each turn is a wait.
        const int64_t worthwhile = is_over ? layout.bytes - layout.bytes / 8 : layout.bytes - 1;
        if (const int64_t bytes = by_size(blocks, behind, offsets); bytes <= worthwhile) {
            layout.bytes = bytes;
            for (size_t k = 0; k < blocks.size(); ++k)
                blocks[k].offset = offsets[k];
        }
    }
    return layout;
}

ArenaLayout layout_in_order(std::span<ArenaBlock> blocks) {
    if (!kManySizes)
        return layout_arena(blocks);
    std::vector<int64_t> bytes;
    std::vector<std::pair<uint32_t, uint32_t>> steps;
    for (const ArenaBlock &block : blocks) {
        bytes.push_back(block.bytes);
        steps.emplace_back(block.first, block.last);
    }
    const std::vector<int64_t> found = found_again(bytes, [steps = std::move(steps)](const auto &given) {
        std::vector<ArenaBlock> same(steps.size());
        for (size_t k = 0; k < same.size(); ++k) {
            same[k].bytes = given[k];
            std::tie(same[k].first, same[k].last) = steps[k];
        }
        const ArenaLayout layout = layout_arena(same);
        std::vector<int64_t> numbers = {layout.bytes, layout.live_bytes};
        for (const ArenaBlock &block : same)
            numbers.push_back(block.offset);
        return numbers;
    });
    for (size_t k = 0; k < blocks.size(); ++k)
        blocks[k].offset = found[k + 2];
    return {found[0], found[1]};
}

} // namespace lz::passes
