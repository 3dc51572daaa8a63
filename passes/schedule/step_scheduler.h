#pragma once
/// What the schedules of all kinds of devices are made with: a step's kernel, and arguments with a value in
/// each of its segments.

#include "passes/lower/lowered_step.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lz::passes {

class StepScheduler {
protected:
    /// Takes the step's kernel, until `finish`.
    explicit StepScheduler(LoweredStep &step) : step_(step), kernel_(std::move(step.kernel)) {}

    static int64_t value_of(const LoweredSegment &segment, ir::ArgId arg) {
        return segment.args[arg].constant;
    }
    int64_t extent(const LoweredSegment &segment, ir::AxisId axis) const {
        return value_of(segment, kernel_.axes[axis].extent);
    }

    /// An argument more, whose value in each segment is what `value` says of it.
    template <class F>
    ir::ArgId add_arg(ir::ArgRole role, F &&value) {
        kernel_.args.push_back({role});
        for (LoweredSegment &segment : step_.segments)
            segment.args.push_back({value(segment), {}});
        return static_cast<ir::ArgId>(kernel_.args.size() - 1);
    }

    template <class F>
    void for_each_instr(const ir::Region &region, F &&f) const {
        for (const ir::Stmt &stmt : region) {
            if (stmt.kind == ir::Stmt::Loop)
                for_each_instr(kernel_.loops[stmt.id].body, f);
            else
                f(kernel_.instrs[stmt.id]);
        }
    }
    static bool has_loop(const ir::Region &region) {
        return std::ranges::find(region, ir::Stmt::Loop, &ir::Stmt::kind) != region.end();
    }

    /// One Worker buffer behind the other, each with room for bytes(segment, buffer). Returns the bytes of
    /// all in each segment.
    template <class F>
    std::vector<int64_t> place_workers(F &&bytes) {
        std::vector<int64_t> used(step_.segments.size(), 0);
        for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
            if (kernel_.buffers[b].mode != ir::BufferMode::Worker)
                continue;
            size_t s = 0;
            const ir::ArgId place =
                add_arg(ir::ArgRole::Offset, [&](const LoweredSegment &) { return used[s++]; });
            kernel_.buffers[b].worker_offset = place;
            for (s = 0; s < used.size(); ++s)
                used[s] += bytes(step_.segments[s], b);
        }
        return used;
    }

    /// Work items of each phase, of the schedule that the kernel has now; the step gets the kernel back.
    void finish() {
        for (LoweredSegment &segment : step_.segments) {
            std::vector<int64_t> args;
            for (const ir::ArgSpec &a : segment.args)
                args.push_back(a.constant);
            segment.items.clear();
            for (size_t p = 0; p < kernel_.phases.size(); ++p) {
                const bool absent = p < segment.absent.size() && segment.absent[p];
                segment.items.push_back(absent ? 0 : work_items(kernel_, kernel_.phases[p], args));
            }
        }
        step_.kernel = std::move(kernel_);
    }

    LoweredStep &step_;
    ir::Kernel kernel_;
};

} // namespace lz::passes
