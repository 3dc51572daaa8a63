// Where elements of operands with digits stand, and how they come into panels on any processor.

#include "ir/host/product/parts.h"

#include <cstdint>

namespace lz::ir {

namespace {

template <class T>
void pack(void *to, const void *from, const int64_t *rows, const int64_t *depths, int64_t count,
          int64_t depth, int64_t width) {
    auto *panel = static_cast<T *>(to);
    const auto *const operand = static_cast<const T *>(from);
    for (int64_t k = 0; k < depth; ++k, panel += width)
        for (int64_t i = 0; i < count; ++i)
            panel[i] = operand[rows[i] + depths[k]];
}

/// The place of element `index` of the digits but the last one.
int64_t outer_place(int64_t index, const PlaceDigit *digits, int64_t digit_count) {
    int64_t place = 0;
    for (int64_t d = digit_count - 1; d > 0; --d) {
        place += index % digits[d].extent * digits[d].stride;
        index /= digits[d].extent;
    }
    return place + index * digits[0].stride;
}

} // namespace

void fill_places(int64_t *to, int64_t first, int64_t count, const PlaceDigit *digits, int64_t digit_count) {
    if (count <= 0)
        return;
    const PlaceDigit last = digits[digit_count - 1];
    if (digit_count == 1) {
        for (int64_t i = 0; i < count; ++i)
            to[i] = (first + i) * last.stride;
        return;
    }
    int64_t outer = first / last.extent, inner = first % last.extent;
    for (int64_t i = 0; i < count; ++outer, inner = 0) {
        const int64_t place = outer_place(outer, digits, digit_count - 1);
        for (; inner < last.extent && i < count; ++inner, ++i)
            to[i] = place + inner * last.stride;
    }
}

void pack_gathered_32(void *to, const void *from, const int64_t *rows, const int64_t *depths, int64_t count,
                      int64_t depth, int64_t width) {
    pack<uint32_t>(to, from, rows, depths, count, depth, width);
}
void pack_gathered_64(void *to, const void *from, const int64_t *rows, const int64_t *depths, int64_t count,
                      int64_t depth, int64_t width) {
    pack<uint64_t>(to, from, rows, depths, count, depth, width);
}

} // namespace lz::ir
