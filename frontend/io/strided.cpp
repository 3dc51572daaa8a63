#include "frontend/io/strided.h"

namespace lz::io {

bool is_row_major(const Sizes &sizes, const Sizes &strides) {
    int64_t expected = 1;
    for (size_t i = sizes.size(); i > 0; --i) {
        if (sizes[i - 1] != 1 && strides[i - 1] != expected)
            return false;
        expected *= sizes[i - 1];
    }
    return true;
}

Buffer in_row_major_order(const std::byte *first, const Sizes &sizes, const Sizes &strides, size_t width) {
    size_t count = 1;
    for (const int64_t extent : sizes)
        count *= static_cast<size_t>(extent);
    Buffer buffer(count * width);
    std::vector<int64_t> at(sizes.size(), 0);
    int64_t place = 0;
    for (size_t n = 0; n < count; ++n) {
        std::memcpy(buffer.data() + n * width, first + place * static_cast<int64_t>(width), width);
        for (size_t i = sizes.size(); i > 0; --i) {
            place += strides[i - 1];
            if (++at[i - 1] < sizes[i - 1])
                break;
            place -= at[i - 1] * strides[i - 1];
            at[i - 1] = 0;
        }
    }
    return buffer;
}

} // namespace lz::io
