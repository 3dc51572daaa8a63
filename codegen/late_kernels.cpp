#include "codegen/late_kernels.h"

#include "ir/diagnostic.h"
#include "ir/interpreter/kernel.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

namespace lz::codegen {

namespace {

std::atomic<bool> gone{false};

constexpr size_t kSlots = 256;

/// A phase behind an entry point. Those have no room for what they belong to, so that there is a function for
/// each of a fixed number of slots.
struct Slot {
    const ir::Kernel *kernel = nullptr; ///< null: free
    size_t phase = 0;
};

struct Slots {
    std::mutex mutex;
    std::array<Slot, kSlots> slots;
    static Slots &get() {
        static Slots *const slots = new Slots; // used to the very end
        return *slots;
    }
};

template <size_t index>
void run_slot(const ir::KernelFrame *frame, int64_t begin, int64_t, void *worker) {
    const Slot &slot = Slots::get().slots[index];
    if (begin == 0) // whoever has the first work item does all of them
        ir::interpret_phase(*slot.kernel, slot.kernel->phases[slot.phase], *frame, worker);
}

template <size_t... indices>
constexpr std::array<ir::PhaseEntry, kSlots> table(std::index_sequence<indices...>) {
    return {run_slot<indices>...};
}
constexpr std::array<ir::PhaseEntry, kSlots> kEntries = table(std::make_index_sequence<kSlots>());

class InterpretedModule final : public runtime::Module {
public:
    explicit InterpretedModule(const ir::Kernel &kernel) : kernel_(kernel) {
        Slots &all = Slots::get();
        const std::lock_guard lock(all.mutex);
        for (size_t i = 0; i < kSlots && mine_.size() < kernel_.phases.size(); ++i)
            if (!all.slots[i].kernel)
                mine_.push_back(i);
        if (mine_.size() < kernel_.phases.size())
            throw ir::Failure(ir::ErrorKind::Compile,
                              "Kernel " + kernel.name +
                                  " cannot be compiled: the process is ending, LLVM is gone, and the "
                                  "interpreter holds as many kernels as it can.");
        for (size_t phase = 0; phase < mine_.size(); ++phase)
            all.slots[mine_[phase]] = {&kernel_, phase};
    }
    ~InterpretedModule() override {
        Slots &all = Slots::get();
        const std::lock_guard lock(all.mutex);
        for (const size_t i : mine_)
            all.slots[i] = {};
    }

    void *entry(const std::string &symbol) const override {
        for (size_t phase = 0; phase < mine_.size(); ++phase)
            if (symbol == "phase" + std::to_string(phase))
                return reinterpret_cast<void *>(kEntries[mine_[phase]]);
        ir::internal_failure(__FILE__, __LINE__, "kernel " + kernel_.name + " has no symbol " + symbol);
    }

private:
    const ir::Kernel kernel_;
    std::vector<size_t> mine_; // by phase
};

} // namespace

void note_llvm_use() {
    // Handlers run in the reverse order: this one before the destructors of all statics that exist now.
    std::atexit([] { gone.store(true, std::memory_order_release); });
}

bool llvm_is_gone() {
    return gone.load(std::memory_order_acquire);
}

std::unique_ptr<runtime::Module> load_interpreted(const ir::Kernel &kernel) {
    return std::make_unique<InterpretedModule>(kernel);
}

} // namespace lz::codegen
