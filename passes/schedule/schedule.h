#pragma once
/// schedule: says for each kernel how the device of its step does it.
///
/// Property: every launched step has the schedule of its device's kind, the arguments that it added have
/// values in each segment, and scratch and work items are known; a join that is a library call knows whether
/// it stores past the caches. No bit of a result changes, because the body fixes what is computed and in
/// which order; ir/kernel/schedule.h names the one exception. It is a part of `lower_clusters`, after the
/// body of a step and after the steps of a group have become segments of one, which need one schedule that
/// suits all of them; before steps share equal kernels, because a schedule is part of what must be equal.
/// Without it bodies would have to know the limits of a device, and each kind of device its own bodies.
///
/// One file a kind of device, which alone reads its limits: cpu.h, cuda.h.

#include "ir/target.h"
#include "passes/lower/lowered_step.h"

#include <algorithm>
#include <cstdint>

namespace lz::passes {

/// Schedules the kernel of a step, or the stores of a join's call; other steps are left alone.
void schedule(LoweredStep &step, const ir::Target &target);

/// Which rows a kernel takes whole, each row by one worker or block of threads, and from which on it wants
/// them dense. `fuse` asks, because what follows the reduction of a row that is shared needs a kernel of its
/// own.
struct RowLimits {
    int64_t few_rows; ///< with fewer rows than this ...
    int64_t long_row; ///< ... rows longer than this are shared, unless they have no more bytes than the next
    /// Bytes of a row, 4 or more an element, that several processors keep together; 0: they do not.
    int64_t kept_row = 0;
    /// Rows that lie side by side, columns of a matrix, are shared where they are longer than the first and
    /// the matrix has more elements than the second: a worker that takes a few columns whole goes through a
    /// page for each of their elements.
    int64_t long_column = INT64_MAX, large_matrix = INT64_MAX;
    /// Bytes of a permuted value from which on rows that are read several times are stored dense before.
    int64_t least_permuted;

    /// `columns`: elements of a row, of `bytes` each, are no neighbours.
    bool fits(int64_t rows, int64_t length, int64_t bytes, bool columns) const {
        return (length <= long_row || rows >= few_rows || length * std::max<int64_t>(bytes, 4) <= kept_row) &&
               (!columns || length <= long_column || rows * length <= large_matrix);
    }
};
RowLimits row_limits(const ir::Target &target, ir::Device device);

/// What an elementwise index space costs in pieces, in nanoseconds of one worker. Lowering asks, because it
/// cuts an index space where testing each of its points costs more than further pieces do
/// (lower/joins/boxes.h).
struct PieceCosts {
    double test = 0;  ///< one test of one point: 0 where memory is waited for in any case
    double row = 0;   ///< to begin a row
    double piece = 0; ///< a segment of a launch
    double body = 0;  ///< a kernel more: a phase of the launch
};
PieceCosts piece_costs(const ir::Target &target, ir::Device device);

/// Whether products that the device's kernels make read operands whose rows or depth have no single stride
/// (ir::ContractionDigit). Elsewhere such an operand is copied before.
bool gathers_operands(const ir::Target &target, ir::Device device);

} // namespace lz::passes
