#pragma once
/// What emitted code calls for reductions of more than chunk * chunk elements, which are few: the same fold
/// as ir/kernel/kernel.h describes, from level 2 on. Emitted in each kernel it would be half of what there is
/// to compile.

#include <cstdint>

namespace lz::ir {

/// What is folded: bits of `kind`.
inline constexpr int64_t kFoldWide = 1;     ///< f64, else f32
inline constexpr int64_t kFoldMultiply = 2; ///< products, else sums

/// Takes level 1, full or with the last chunk in it, as element `index` of level 2. A level has `lanes`
/// numbers, which are halved, or, where `lanes` is 1, `values` numbers that are folded side by side. `levels`
/// has room for fold_level_count of them, which need no value before the first call. With the last element
/// the first numbers of `levels` become the result.
void fold_levels(const void *level1, void *levels, int64_t index, int64_t last, int64_t chunk, int64_t lanes,
                 int64_t values, int64_t kind);
inline constexpr const char *kFoldLevelsSymbol = "lz_fold_levels";

/// Folds `count` results of chunks, which lie in memory, in lanes (kLaneBytes of them) by the same rule into
/// `result`; of none it is the identity.
void fold_results(const void *from, int64_t count, void *result, int64_t chunk, int64_t kind);
inline constexpr const char *kFoldResultsSymbol = "lz_fold_results";

/// Levels from 2 on that a loop with this chunk may need, and one more for the result.
int fold_level_count(int64_t chunk);

} // namespace lz::ir
