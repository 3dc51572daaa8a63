#include "frontend/autograd/step.h"

#include "frontend/record/arena.h"
#include "ir/host/hot_tls.h"

#include <thread>
#include <utility>

namespace lz::detail {
namespace {

/// Steps that this thread is letting go of: what they kept alive joins the list.
struct Dying {
    Step *first = nullptr;
    bool running = false;
};
LZ_HOT_TLS constinit thread_local Dying dying;

void destroy(Step *step) noexcept {
    for (const Edge &edge : step->inputs())
        release(edge.step);
    for (Node *const node : step->saved())
        if (node)
            drop_use(node);
    delete step->extras;
    const uint8_t size_class = step->size_class;
    step->~Step();
    free_node(step, size_class);
}

} // namespace

Step *make_leaf(const ir::TensorType &type, ir::Location loc) {
    auto extras = std::make_unique<StepExtras>();
    extras->kept.push_back(std::make_unique<StepExtras::Kept>());
    Step *const leaf = make_step(nullptr, ir::Op::Constant, loc, 1, 0, 0, 0);
    leaf->results()[0] = type;
    leaf->extras = extras.release();
    return leaf;
}

StepExtras::Kept *Step::kept(uint16_t result) {
    if (extras)
        for (const auto &one : extras->kept)
            if (one->result == result)
                return one.get();
    return nullptr;
}

void release(Step *step) noexcept {
    // Only who has a reference can add one: nobody can while the last one goes, and it need not be written.
    if (!step || (step->refs.load(std::memory_order_acquire) != 1 &&
                  step->refs.fetch_sub(1, std::memory_order_acq_rel) != 1))
        return;
    step->dead_next = dying.first;
    dying.first = step;
    if (dying.running)
        return;
    dying.running = true;
    while (Step *const next = dying.first) {
        dying.first = next->dead_next;
        destroy(next);
    }
    dying.running = false;
}

void forget_grad(Step &step, uint16_t result) noexcept {
    Tensor last;
    {
        const StepLock lock(step);
        if (StepExtras::Kept *const kept = step.kept(result))
            last = std::move(kept->grad);
    }
}

void StepLock::wait() noexcept {
    while (step_.busy.exchange(true, std::memory_order_acquire))
        std::this_thread::yield();
}

} // namespace lz::detail
