#include "passes/schedule/narrow_indices.h"

#include "ir/kernel/facts/index_width.h"
#include "passes/found_again.h"

#include <span>
#include <utility>
#include <vector>

namespace lz::passes {

using namespace ir;

bool has_narrow_indices(const Kernel &kernel, const LoweredSegment &segment) {
    std::vector<int64_t> numbers; // arguments, and behind them elements of buffers
    std::vector<bool> known;
    for (const ArgSpec &a : segment.args) {
        numbers.push_back(a.constant);
        known.push_back(a.terms.empty());
    }
    for (size_t b = 0; b < kernel.buffers.size(); ++b)
        numbers.push_back(segment.buffers[b].bytes / size_of(kernel.buffers[b].dtype));
    const std::vector<int64_t> found = found_again(numbers, [kernel = pointer_for_again(kernel),
                                                             known = std::move(known)](const auto &given) {
        const std::span all(given);
        const bool fits = fits_32_bits(*kernel, all.first(known.size()), known, all.subspan(known.size()));
        return std::vector<int64_t>{fits ? 1 : 0};
    });
    return found[0] != 0;
}

} // namespace lz::passes
