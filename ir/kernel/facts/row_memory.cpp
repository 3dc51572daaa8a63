#include "ir/kernel/facts/row_memory.h"

#include <algorithm>
#include <set>

namespace lz::ir {

namespace {

class RowMemory {
public:
    RowMemory(const Kernel &kernel, const Phase &phase)
        : kernel_(kernel), cuda_(phase.cuda()), rows_(cuda_.threads / cuda_.row_threads) {
        find(phase.body);
    }

    int64_t bytes() {
        if (cuda_.row_threads == 1)
            return 0;
        if (cuda_.tier != RowTier::Memory)
            for (const uint16_t b : workers_)
                add(size_of(kernel_.buffers[b].dtype), cuda_.row_elements / cuda_.cluster_blocks);
        for (const Loop *loop : loops_)
            for (const Reduction &r : loop->reductions)
                add_reduction(*loop, r);
        return bytes_;
    }

private:
    void find(const Region &region) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Loop) {
                const Loop &loop = kernel_.loops[stmt.id];
                if (loop.order == LoopOrder::Lanes)
                    loops_.push_back(&loop);
                for (const Reduction &r : loop.reductions)
                    if (r.dtype == DType::F64 && r.index == kNoValue && loop.order == LoopOrder::Lanes)
                        width_ = 2;
                find(loop.body);
            } else if (const uint32_t access = kernel_.instrs[stmt.id].access; access != kNoValue) {
                const uint16_t b = kernel_.accesses[access].buffer;
                if (kernel_.buffers[b].mode == BufferMode::Worker)
                    workers_.insert(b);
            }
        }
    }

    void add(int64_t bytes, int64_t count) { bytes_ = (bytes_ + 15) / 16 * 16 + bytes * count * rows_; }

    void add_reduction(const Loop &loop, const Reduction &r) {
        const int64_t bytes = r.index == kNoValue ? size_of(r.dtype) : 16; // the value and its index
        const int fold_threads = std::min(cuda_.row_threads, kFoldThreads);
        const bool several = cuda_.row_threads > fold_threads;
        if (loop.chunk > 0) {
            if (cuda_.row_elements == 0) {
                add(bytes, kRowList);
                add(bytes, kRowLists);
            } else if (cuda_.row_elements > kLaneChunk) {
                add(bytes, cuda_.row_elements / kLaneChunk);
            }
            return;
        }
        if (!several)
            return;
        const auto ordered = [](const Reduction &x) {
            return is_float(x.dtype) && (x.op == ReduceOp::Add || x.op == ReduceOp::Mul);
        };
        if (std::ranges::any_of(loop.reductions, ordered))
            return add(bytes, 1); // one group folds all of it
        int64_t lanes = width_;
        if (is_float(r.dtype) && r.index == kNoValue) {
            lanes = kLaneBytes / size_of(r.dtype);
            if (cuda_.row_elements > 0)
                lanes = std::min<int64_t>(lanes, cuda_.row_elements);
            lanes /= fold_threads;
        }
        add(bytes, cuda_.row_threads * lanes);
        if (cuda_.cluster_blocks > 1)
            add(bytes, int64_t{cuda_.cluster_blocks} * kFoldThreads * lanes);
    }

    const Kernel &kernel_;
    const CudaSchedule &cuda_;
    const int64_t rows_; ///< of a block
    int width_ = 4;      ///< neighbours that a thread takes
    std::set<uint16_t> workers_;
    std::vector<const Loop *> loops_;
    int64_t bytes_ = 0;
};

} // namespace

int64_t row_shared_bytes(const Kernel &kernel, const Phase &phase) {
    return RowMemory(kernel, phase).bytes();
}

} // namespace lz::ir
