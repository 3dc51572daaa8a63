#include "ir/host/fold_levels.h"

#include "ir/kernel/kernel.h"

#include <algorithm>
#include <cstddef>

namespace lz::ir {

namespace {

/// Of the smallest chunk, 2.
constexpr int kMostLevels = 64;

template <class T>
struct Sum {
    using Element = T;
    static constexpr T kIdentity = -T{0};
    T operator()(T x, T y) const { return x + y; }
};
template <class T>
struct Product {
    using Element = T;
    static constexpr T kIdentity = T{1};
    T operator()(T x, T y) const { return x * y; }
};

/// Calls `f` with the operation that `kind` says.
template <class F>
void with_operation(int64_t kind, F f) {
    const auto of = [&]<class T>(T) {
        if ((kind & kFoldMultiply) != 0)
            f(Product<T>());
        else
            f(Sum<T>());
    };
    if ((kind & kFoldWide) != 0)
        of(double());
    else
        of(float());
}

template <class Operation>
class Levels {
    using T = Operation::Element;

public:
    Levels(T *memory, int64_t chunk, int64_t lanes, int64_t values)
        : memory_(memory), chunk_(chunk), lanes_(lanes), values_(static_cast<size_t>(values)),
          width_(static_cast<size_t>(std::max(lanes, values))) {}

    void add(const T *level1, int64_t index, bool last) {
        T *element = memory_; // the result's place
        std::copy_n(level1, width_, element);
        halve(element);
        for (T *level = memory_ + width_;; level += width_) {
            if (last && index == 0) // it stands alone: with identities beside it, it is what it was
                return;
            const int64_t within = index % chunk_;
            if (within == 0)
                std::fill_n(level, width_, Operation::kIdentity);
            T *lane = level + within % lanes_;
            for (size_t v = 0; v < values_; ++v)
                lane[v] = combine_(lane[v], element[v]);
            if (!last && within + 1 < chunk_)
                return;
            std::copy_n(level, width_, element);
            halve(element);
            index /= chunk_;
        }
    }

private:
    void halve(T *lanes) const {
        for (int64_t h = lanes_ / 2; h != 0; h /= 2)
            for (int64_t i = 0; i < h; ++i)
                lanes[i] = combine_(lanes[i], lanes[i + h]);
    }

    T *memory_;
    int64_t chunk_, lanes_;
    size_t values_, width_;
    [[no_unique_address]] Operation combine_;
};

} // namespace

void fold_levels(const void *level1, void *levels, int64_t index, int64_t last, int64_t chunk, int64_t lanes,
                 int64_t values, int64_t kind) {
    with_operation(kind, [&]<class Operation>(Operation) {
        using T = Operation::Element;
        Levels<Operation>(static_cast<T *>(levels), chunk, lanes, values)
            .add(static_cast<const T *>(level1), index, last != 0);
    });
}

namespace {

template <class Operation, class T = Operation::Element>
void fold_in_lanes(const T *from, int64_t count, T *result, int64_t chunk, Operation combine) {
    constexpr int64_t kLanes = kLaneBytes / int64_t{sizeof(T)};
    T memory[kLanes * kMostLevels];
    memory[0] = Operation::kIdentity;
    Levels<Operation> levels(memory, chunk, kLanes, 1);
    for (int64_t first = 0; first < count; first += chunk) {
        T lanes[kLanes];
        std::fill_n(lanes, kLanes, Operation::kIdentity);
        const int64_t end = std::min(count, first + chunk);
        int64_t k = first;
        for (; k + kLanes <= end; k += kLanes)
            for (int64_t lane = 0; lane < kLanes; ++lane)
                lanes[lane] = combine(lanes[lane], from[k + lane]);
        for (int64_t lane = 0; k + lane < end; ++lane)
            lanes[lane] = combine(lanes[lane], from[k + lane]);
        levels.add(lanes, first / chunk, end == count);
    }
    *result = memory[0];
}

} // namespace

void fold_results(const void *from, int64_t count, void *result, int64_t chunk, int64_t kind) {
    with_operation(kind, [&]<class Operation>(Operation combine) {
        using T = Operation::Element;
        fold_in_lanes(static_cast<const T *>(from), count, static_cast<T *>(result), chunk, combine);
    });
}

int fold_level_count(int64_t chunk) {
    int levels = 1;
    for (int64_t n = INT64_MAX / chunk / chunk; n > 0; n /= chunk)
        ++levels;
    return levels + 1;
}

} // namespace lz::ir
