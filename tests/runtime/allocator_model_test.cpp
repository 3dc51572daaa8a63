// The allocator against a model that keeps plain lists and searches them all.
#include "fake_backend.h"
#include "runtime/allocator/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

namespace lz::runtime {
namespace {

using test::FakeBackend;

constexpr size_t kMiB = size_t{1} << 20;

/// What the header promises, by exhaustive search. Which of equally large blocks is taken is the allocator's
/// choice: the model is told the address and checks that it was one of the best.
class Model {
public:
    struct Part {
        uintptr_t at;
        size_t size, requested;
        bool used;
    };
    struct Segment {
        bool small;
        StreamId stream;
        std::vector<Part> parts;
    };

    void allocated(uintptr_t at, size_t requested, StreamId stream,
                   const std::map<uintptr_t, size_t> &driver) {
        size_t size = (std::max<size_t>(requested, 1) + 511) / 512 * 512;
        bool small = size <= kMiB;
        if (freed_last_ != 0) {
            const Segment &segment = std::prev(segments.upper_bound(freed_last_))->second;
            const Part &part = *std::ranges::find(segment.parts, freed_last_, &Part::at);
            if (segment.small != small || segment.stream != stream || part.size != size)
                merge();
            else
                ASSERT_EQ(at, freed_last_) << "the block that was freed last is as it was";
        }
        freed_last_ = 0;
        size_t best = SIZE_MAX;
        for (const auto &[begin, segment] : segments)
            if (segment.small == small && segment.stream == stream)
                for (const Part &part : segment.parts)
                    if (!part.used && part.size >= size)
                        best = std::min(best, part.size);
        if (best == SIZE_MAX) {
            best = small              ? 2 * kMiB
                   : size < 10 * kMiB ? 20 * kMiB
                                      : (size + 2 * kMiB - 1) / (2 * kMiB) * 2 * kMiB;
            ASSERT_TRUE(driver.contains(at)) << "a new segment's first block begins where the segment does";
            ASSERT_EQ(driver.at(at), best);
            segments[at] = {small, stream, {{at, best, 0, false}}};
        }
        auto it = std::prev(segments.upper_bound(at));
        ASSERT_EQ(it->second.small, small);
        ASSERT_EQ(it->second.stream, stream);
        auto &parts = it->second.parts;
        auto part = std::ranges::find(parts, at, &Part::at);
        ASSERT_NE(part, parts.end()) << "a block begins where a free one began";
        ASSERT_FALSE(part->used) << "two live blocks overlap";
        ASSERT_EQ(part->size, best) << "the fit is the best one";
        size_t rest = best - size;
        bool cut = small ? rest >= 512 : rest > kMiB;
        part->used = true;
        part->requested = requested;
        if (cut) {
            part->size = size;
            parts.insert(std::next(part), {at + size, rest, 0, false});
        }
    }

    void freed(uintptr_t at) {
        merge();
        auto &parts = std::prev(segments.upper_bound(at))->second.parts;
        auto part = std::ranges::find(parts, at, &Part::at);
        part->used = false;
        part->requested = 0;
        freed_last_ = at;
    }

    /// What was freed last with its neighbours.
    void merge() {
        if (freed_last_ == 0)
            return;
        auto &parts = std::prev(segments.upper_bound(std::exchange(freed_last_, 0)))->second.parts;
        for (size_t i = 0; i + 1 < parts.size();)
            if (!parts[i].used && !parts[i + 1].used) {
                parts[i].size += parts[i + 1].size;
                parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            } else {
                ++i;
            }
    }

    void cache_emptied() {
        merge();
        std::erase_if(segments, [](const auto &entry) {
            return entry.second.parts.size() == 1 && !entry.second.parts[0].used;
        });
    }

    void compare(const CachingAllocator &allocator) {
        merge();
        int64_t used = 0, requested = 0, blocks = 0, reserved = 0, split = 0, split_blocks = 0;
        std::vector<SegmentInfo> real = allocator.segments();
        ASSERT_EQ(real.size(), segments.size());
        size_t s = 0;
        for (const auto &[begin, segment] : segments) {
            ASSERT_EQ(real[s].address, begin);
            ASSERT_EQ(real[s].blocks.size(), segment.parts.size());
            for (size_t p = 0; p < segment.parts.size(); ++p) {
                const Part &part = segment.parts[p];
                ASSERT_EQ(real[s].blocks[p].address, part.at);
                ASSERT_EQ(real[s].blocks[p].size, static_cast<int64_t>(part.size));
                ASSERT_EQ(real[s].blocks[p].state == BlockState::Allocated, part.used);
                reserved += static_cast<int64_t>(part.size);
                if (part.used) {
                    ++blocks;
                    used += static_cast<int64_t>(part.size);
                    requested += static_cast<int64_t>(part.requested);
                } else if (segment.parts.size() > 1) {
                    ++split_blocks;
                    split += static_cast<int64_t>(part.size);
                }
            }
            ++s;
        }
        AllocatorStats stats = allocator.stats();
        auto current = [](const StatSet &set) { return set[StatPool::All].current; };
        EXPECT_EQ(current(stats.allocated_bytes), used);
        EXPECT_EQ(current(stats.active_bytes), used);
        EXPECT_EQ(current(stats.requested_bytes), requested);
        EXPECT_EQ(current(stats.allocation), blocks);
        EXPECT_EQ(current(stats.reserved_bytes), reserved);
        EXPECT_EQ(current(stats.segment), static_cast<int64_t>(segments.size()));
        EXPECT_EQ(current(stats.inactive_split), split_blocks);
        EXPECT_EQ(current(stats.inactive_split_bytes), split);
        EXPECT_EQ(allocator.check_invariants(), "");
    }

    std::map<uintptr_t, Segment> segments;

private:
    uintptr_t freed_last_ = 0; ///< and not merged yet
};

size_t random_size(std::mt19937_64 &random) {
    switch (random() % 8) {
    case 0:
        return 1 + random() % 512;
    case 1:
    case 2:
        return 1 + random() % (64 << 10);
    case 3:
        return 512 * (1 + random() % 4); // often the same
    case 4:
        return kMiB - 512 + random() % 1024; // where the pools meet
    case 5:
        return kMiB + random() % (9 * kMiB);
    case 6:
        return 10 * kMiB + random() % (30 * kMiB);
    default:
        return 1 + random() % (2 * kMiB);
    }
}

class AllocatorTraces : public testing::TestWithParam<int> {};

TEST_P(AllocatorTraces, AgreeWithAModelThatSearchesEverything) {
    FakeBackend backend(size_t{64} << 30);
    std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
    {
        CachingAllocator allocator(backend);
        Model model;
        std::vector<void *> live;
        size_t limit = 20 + random() % 300;
        int64_t allocated = 0, peak = 0;
        const auto bytes_of = [&](void *memory) {
            return static_cast<int64_t>(allocator.usable_size(memory));
        };
        for (int step = 0; step < 4000; ++step) {
            bool grow = live.size() < limit && (live.empty() || random() % 16 < (step / 500 % 2 ? 7 : 9));
            if (grow) {
                size_t bytes = random_size(random);
                StreamId stream = random() % 4 ? 0 : static_cast<StreamId>(1 + random() % 2);
                void *memory = allocator.allocate(bytes, stream);
                ASSERT_EQ(reinterpret_cast<uintptr_t>(memory) % 512, 0u);
                ASSERT_GE(allocator.usable_size(memory), bytes);
                model.allocated(reinterpret_cast<uintptr_t>(memory), bytes, stream, backend.segments);
                live.push_back(memory);
                allocated += bytes_of(memory);
                peak = std::max(peak, allocated);
            } else if (!live.empty()) {
                std::swap(live[random() % live.size()], live.back());
                allocated -= bytes_of(live.back());
                allocator.free(live.back());
                model.freed(reinterpret_cast<uintptr_t>(live.back()));
                live.pop_back();
            }
            if (random() % 500 == 0) {
                allocator.empty_cache();
                model.cache_emptied();
            }
            if (step % 50 == 0)
                model.compare(allocator);
            if (HasFatalFailure())
                return;
        }
        EXPECT_EQ(allocator.stats().allocated_bytes[StatPool::All].peak, peak);
        for (void *memory : live) {
            allocator.free(memory);
            model.freed(reinterpret_cast<uintptr_t>(memory));
        }
        model.compare(allocator);
        for (const SegmentInfo &segment : allocator.segments())
            EXPECT_EQ(segment.blocks.size(), 1u) << "with nothing in use every segment is whole again";
        allocator.empty_cache();
        EXPECT_EQ(backend.used(), 0u);
        AllocatorStats stats = allocator.stats();
        for (const StatSet *set : {&stats.allocated_bytes, &stats.active_bytes, &stats.reserved_bytes,
                                   &stats.allocation, &stats.requested_bytes, &stats.inactive_split_bytes})
            for (const Stat &stat : set->pools) {
                EXPECT_EQ(stat.current, 0);
                EXPECT_EQ(stat.allocated, stat.freed());
            }
    }
    EXPECT_EQ(backend.wrong_frees, 0);
}

/// By seed; odd ones have segments that grow.
class FullDevice : public testing::TestWithParam<int> {};

/// What is on a full device: many streams whose blocks change hands. Nobody gets bytes that an earlier user
/// may still use: each of those is done, or the new user's stream comes after it by the waits that were made.
TEST_P(FullDevice, NobodyGetsBytesThatAreStillUsed) {
    constexpr StreamId kStreams = 5;
    struct Use {
        uintptr_t begin, end;
        StreamId stream;
        uint64_t tick;
    };
    struct Live {
        void *memory;
        std::vector<Use> uses;
    };
    const bool expandable = GetParam() % 2 != 0;
    FakeBackend backend(48 * kMiB, 1, expandable);
    std::mt19937_64 random(static_cast<uint64_t>(GetParam()) + 100);
    uint64_t put[kStreams] = {}, done[kStreams] = {}, after[kStreams][kStreams] = {};
    int refused = 0, lent = 0, shared = 0;
    {
        CachingAllocator allocator(backend);
        std::vector<Live> live;
        std::vector<Use> past;
        for (int step = 0; step < 6000; ++step) {
            const auto stream = static_cast<StreamId>(random() % kStreams);
            const auto work = [&](StreamId on, const Live &block) {
                put[on] = backend.work(on);
                return Use{reinterpret_cast<uintptr_t>(block.memory),
                           reinterpret_cast<uintptr_t>(block.memory) + allocator.usable_size(block.memory),
                           on, put[on]};
            };
            switch (random() % 8) {
            case 0: { // a stream has done everything
                backend.finish(stream);
                done[stream] = backend.record(stream);
                std::erase_if(past, [&](const Use &use) { return use.tick <= done[use.stream]; });
                break;
            }
            case 1:
            case 2:
            case 3: {
                if (live.empty())
                    break;
                std::swap(live[random() % live.size()], live.back());
                Live block = std::move(live.back());
                live.pop_back();
                std::vector<Guard> guards;
                for (const Use &use : block.uses)
                    guards.push_back({&backend, use.stream, use.tick});
                if (block.uses.size() > 1)
                    guards.erase(guards.begin()); // its own stream's needs none
                else
                    guards.clear();
                allocator.free(block.memory, guards);
                past.insert(past.end(), block.uses.begin(), block.uses.end());
                break;
            }
            default: {
                const size_t bytes = random_size(random) % (16 * kMiB) + 1;
                const size_t waits = backend.ordered.size();
                Live block{};
                try {
                    block.memory = allocator.allocate(bytes, stream);
                } catch (const ir::Failure &failure) {
                    ASSERT_EQ(failure.kind(), ir::ErrorKind::OutOfMemory);
                    ++refused;
                    break;
                }
                for (StreamId s = 0; s < kStreams; ++s) // it may have waited for guards
                    while (done[s] < backend.record(s) && backend.reached(s, done[s] + 1))
                        ++done[s];
                for (size_t w = waits; w < backend.ordered.size(); ++w) {
                    const auto [who, of, tick] = backend.ordered[w];
                    for (StreamId s = 0; s < kStreams; ++s)
                        after[who][s] = std::max(after[who][s], after[of][s]);
                    after[who][of] = std::max(after[who][of], tick);
                    ++lent;
                }
                ASSERT_TRUE(!expandable ||
                            backend.mapped.covers(reinterpret_cast<uintptr_t>(block.memory), bytes));
                block.uses.push_back(work(stream, block));
                const Use &mine = block.uses.back();
                for (const Use &use : past)
                    if (use.begin < mine.end && mine.begin < use.end) {
                        ASSERT_TRUE(use.stream == stream || use.tick <= done[use.stream] ||
                                    use.tick <= after[stream][use.stream])
                            << "step " << step << ": stream " << stream << " has bytes of stream "
                            << use.stream << " at " << use.tick;
                    }
                for (const Live &other : live)
                    ASSERT_FALSE(other.uses[0].begin < mine.end && mine.begin < other.uses[0].end);
                if (random() % 3 == 0) {
                    const auto reader = static_cast<StreamId>((stream + 1) % kStreams);
                    block.uses.push_back(work(reader, block));
                    ++shared;
                }
                live.push_back(std::move(block));
            }
            }
            if (step % 100 == 0) {
                ASSERT_EQ(allocator.check_invariants(), "");
            }
            if (random() % 400 == 0)
                allocator.empty_cache();
        }
        for (const Live &block : live)
            allocator.free(block.memory);
        for (StreamId s = 0; s < kStreams; ++s)
            backend.finish(s);
        allocator.empty_cache();
        EXPECT_EQ(backend.used(), 0u) << "everything has come home";
        EXPECT_EQ(allocator.check_invariants(), "");
    }
    EXPECT_EQ(backend.wrong_frees, 0);
    EXPECT_TRUE(backend.mapped.reserved.empty());
    EXPECT_GT(lent, 50);
    EXPECT_GT(shared, 100);
    EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Random, AllocatorTraces, testing::Range(0, 12));
INSTANTIATE_TEST_SUITE_P(Random, FullDevice, testing::Range(0, 24));

} // namespace
} // namespace lz::runtime
