#pragma once
/// Of the places that indices say, those that belong to one thread: threads that share the places of a
/// scatter look at all indices each.

#include <cstdint>

namespace lz::runtime {

/// So many places are looked at in one call at the most, and arrays that it fills have room for so many.
inline constexpr int64_t kPlacesAtOnce = 512, kOwnPlacesRoom = kPlacesAtOnce + 16;

/// A place along an axis of `extent` places.
inline bool is_outside(int64_t place, int64_t extent) {
    return static_cast<uint64_t>(place) >= static_cast<uint64_t>(extent);
}

/// The places [low, high) along an axis of `extent` places.
struct PlaceRange {
    int64_t low, high, extent;
};

/// Places in the order in which they were found, and for each its position among those that were looked at.
struct OwnPlaces {
    int64_t count;
    const int64_t *places;
    const int32_t *positions;
    bool outside; ///< some of those that were looked at are outside the axis, and so not among these
};

/// Those of `length` places that are in the range. Where they are not all, they and their positions go to
/// the two arrays; the places may be in the first already.
OwnPlaces find_own_places(const int64_t *places, int64_t length, const PlaceRange &range, int64_t *own_places,
                          int32_t *positions);

} // namespace lz::runtime
