#include "runtime/library/sort/job.h"

#include "runtime/api/parallel.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lz::runtime {

namespace {

/// Elements worth handing to another thread.
constexpr int64_t kRange = 4096;
/// Of a single row threads take parts of this length and longer.
constexpr int64_t kLeastPart = 1 << 16, kMostParts = 64;

class Partition {
public:
    Partition(const SortJob &job, const LibraryArgs &args)
        : job_(job), in_(static_cast<const uint8_t *>(args.buffers[0])),
          values_(static_cast<uint8_t *>(args.buffers[1])),
          indices_(static_cast<int64_t *>(args.buffers[2])) {}

    void run() const {
        const int64_t rows = job_.outer * job_.inner;
        const int64_t parts = rows == 1 ? std::clamp<int64_t>(job_.extent / kLeastPart, 1, kMostParts) : 1;
        if (parts > 1)
            return in_parts(parts);
        parallel_for(rows, kRange / job_.extent + 1, [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
                const int64_t first = r / job_.inner * job_.extent * job_.inner + r % job_.inner;
                const int64_t truths = count(first, 0, job_.extent);
                place(first, 0, job_.extent, start(truths));
            }
        });
    }

private:
    /// Where the next one of each kind goes.
    struct Places {
        int64_t if_false, if_true;
    };
    /// In a row with so many truths.
    Places start(int64_t truths) const {
        return job_.descending ? Places{truths, 0} : Places{0, job_.extent - truths};
    }
    int64_t count(int64_t first, int64_t begin, int64_t end) const {
        const int64_t step = job_.inner;
        const uint8_t *const in = in_ + first;
        int64_t truths = 0;
        if (step == 1)
            for (int64_t i = begin; i < end; ++i)
                truths += in[i];
        else
            for (int64_t i = begin; i < end; ++i)
                truths += in[i * step];
        return truths;
    }
    /// Everything is in variables of its own: a byte that is stored could else be a part of any of them.
    void place(int64_t first, int64_t begin, int64_t end, Places next) const {
        const int64_t step = job_.inner;
        const uint8_t *const in = in_ + first;
        uint8_t *const values = values_ + first;
        int64_t *const indices = indices_ + first;
        const bool has_values = job_.wants_values(), has_indices = job_.wants_indices();
        int64_t if_false = next.if_false, if_true = next.if_true;
        for (int64_t i = begin; i < end; ++i) {
            const uint8_t value = in[i * step];
            const int64_t to = (value ? if_true : if_false) * step;
            if_true += value;
            if_false += 1 - value;
            if (has_values)
                values[to] = value;
            if (has_indices)
                indices[to] = i;
        }
    }
    void in_parts(int64_t parts) const {
        const auto begin_of = [&](int64_t part) { return job_.extent * part / parts; };
        std::array<int64_t, kMostParts> truths{};
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p)
                truths[static_cast<size_t>(p)] = count(0, begin_of(p), begin_of(p + 1));
        });
        int64_t all = 0;
        for (int64_t &one : truths)
            all += std::exchange(one, all); // those before the part
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p) {
                const int64_t before = truths[static_cast<size_t>(p)], from = begin_of(p);
                Places next = start(all);
                next.if_true += before;
                next.if_false += from - before;
                place(0, from, begin_of(p + 1), next);
            }
        });
    }

    const SortJob &job_;
    const uint8_t *in_;
    uint8_t *values_;
    int64_t *indices_;
};

} // namespace

void partition(const SortJob &job, const LibraryArgs &args) {
    Partition(job, args).run();
}

} // namespace lz::runtime
