#include "ir/host/fold_levels.h"

#include "ir/kernel/kernel.h"

#include <algorithm>
#include <cstddef>

namespace lz::ir {

namespace {

/// Of the smallest chunk, 2.
constexpr int kMostLevels = 64;

template <class T>
class Levels {
public:
    Levels(T *memory, int64_t chunk, int64_t lanes, int64_t values, bool multiply)
        : memory_(memory), chunk_(chunk), lanes_(lanes), values_(static_cast<size_t>(values)),
          width_(static_cast<size_t>(std::max(lanes, values))), multiply_(multiply) {}

    void add(const T *level1, int64_t index, bool last) {
        T *element = memory_; // the result's place
        std::copy_n(level1, width_, element);
        halve(element);
        for (T *level = memory_ + width_;; level += width_) {
            const int64_t within = index % chunk_;
            if (within == 0)
                std::fill_n(level, width_, identity());
            T *lane = level + within % lanes_;
            for (size_t v = 0; v < values_; ++v)
                lane[v] = combine(lane[v], element[v]);
            if (!last && within + 1 < chunk_)
                return;
            std::copy_n(level, width_, element);
            halve(element);
            index /= chunk_;
            if (last && index == 0)
                return;
        }
    }

private:
    T identity() const { return multiply_ ? T{1} : -T{0}; }
    T combine(T x, T y) const { return multiply_ ? x * y : x + y; }
    void halve(T *lanes) const {
        for (int64_t h = lanes_ / 2; h != 0; h /= 2)
            for (int64_t i = 0; i < h; ++i)
                lanes[i] = combine(lanes[i], lanes[i + h]);
    }

    T *memory_;
    int64_t chunk_, lanes_;
    size_t values_, width_;
    bool multiply_;
};

} // namespace

void fold_levels(const void *level1, void *levels, int64_t index, int64_t last, int64_t chunk, int64_t lanes,
                 int64_t values, int64_t kind) {
    const auto fold = [&]<class T>(const T *from, T *memory) {
        Levels<T>(memory, chunk, lanes, values, (kind & kFoldMultiply) != 0).add(from, index, last != 0);
    };
    if ((kind & kFoldWide) != 0)
        fold(static_cast<const double *>(level1), static_cast<double *>(levels));
    else
        fold(static_cast<const float *>(level1), static_cast<float *>(levels));
}

namespace {

template <class T>
void fold_in_lanes(const T *from, int64_t count, T *result, int64_t chunk, bool multiply) {
    constexpr int64_t kLanes = kLaneBytes / int64_t{sizeof(T)};
    const T identity = multiply ? T{1} : -T{0};
    T memory[kLanes * kMostLevels];
    memory[0] = identity;
    Levels<T> levels(memory, chunk, kLanes, 1, multiply);
    for (int64_t first = 0; first < count; first += chunk) {
        T lanes[kLanes];
        std::fill_n(lanes, kLanes, identity);
        const int64_t end = std::min(count, first + chunk);
        for (int64_t k = first; k < end; k += kLanes)
            for (int64_t lane = 0; lane < std::min(kLanes, end - k); ++lane)
                lanes[lane] = multiply ? lanes[lane] * from[k + lane] : lanes[lane] + from[k + lane];
        levels.add(lanes, first / chunk, end == count);
    }
    *result = memory[0];
}

} // namespace

void fold_results(const void *from, int64_t count, void *result, int64_t chunk, int64_t kind) {
    const bool multiply = (kind & kFoldMultiply) != 0;
    if ((kind & kFoldWide) != 0)
        fold_in_lanes(static_cast<const double *>(from), count, static_cast<double *>(result), chunk,
                      multiply);
    else
        fold_in_lanes(static_cast<const float *>(from), count, static_cast<float *>(result), chunk, multiply);
}

int fold_level_count(int64_t chunk) {
    int levels = 1;
    for (int64_t n = INT64_MAX / chunk / chunk; n > 0; n /= chunk)
        ++levels;
    return levels + 1;
}

} // namespace lz::ir
