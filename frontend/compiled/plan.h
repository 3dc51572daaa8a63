#pragma once
/// What a replay does: made of one recording of the function, immutable once it can be found.
///
/// A plan holds the tensors that the function captures, and reads and writes what they show at the
/// call. It is replayed when two recordings agreed: same operations, same tensors captured, same results.

#include "frontend/autograd/step.h"
#include "frontend/compiled/numbers.h"
#include "frontend/engine/engine.h"
#include "frontend/record/recording/recording.h"
#include "frontend/record/storage.h"
#include "frontend/record/trace.h"
#include "ir/program/number_form.h"
#include "ir/types/type.h"
#include "lazuli/tensor.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lz::detail {

using ir::in_form;
using ir::NumberForm;

/// The number of the next plan that this process makes; the first plan has number 1.
uint64_t next_plan_number();

/// A tensor that plans capture. All plans of the process share one handle of it, so that a count of one
/// handle says that nobody but plans has the tensor any more.
class CapturedTensor {
public:
    /// None.
    CapturedTensor() = default;
    explicit CapturedTensor(const Tensor &tensor);
    /// The tensor, or an empty one.
    const Tensor &get() const;
    /// How often a variable that showed it, while it was captured, was assigned another one: it may be the
    /// variable that a function reads.
    uint32_t assigned() const { return shared_ ? shared_->assigned.load(std::memory_order_acquire) : 0; }

    struct Shared {
        explicit Shared(const Tensor &t) : tensor(t) {}
        const Tensor tensor;
        std::atomic<uint32_t> assigned{0};
    };

private:
    std::shared_ptr<const Shared> shared_;
};

struct CompiledPlan {
    static constexpr uint32_t kNone = UINT32_MAX;

    /// The plan's own slot of a result, closed when the plan ends: storage that comes back later is freed.
    class SlotRef {
    public:
        SlotRef() = default;
        SlotRef(SlotRef &&other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
        SlotRef &operator=(SlotRef &&) = delete;
        ~SlotRef() {
            if (slot_) {
                slot_->close();
                slot_->release();
            }
        }
        void make() { slot_ = new StorageSlot; }
        StorageSlot *get() const { return slot_; }

    private:
        StorageSlot *slot_ = nullptr;
    };

    /// A tensor from outside the function.
    struct Source {
        CapturedTensor tensor;                       ///< captured; else empty
        uint32_t assigned = 0;                       ///< captured: that of the tensor, when it was recorded
        uint32_t argument = kNone, gradient = kNone; ///< else which argument, or which of `gradients`
        const Cell *only = nullptr; ///< argument: the one tensor that every recording had here
        bool replaced = false;      ///< the call changes it in place
        StepRef history;            ///< captured: that of the tensor, or null
        bool wants_gradient = false;
        ir::TensorType type;
    };
    /// What the call does with the gradient that is kept at a result of a step.
    struct GradientChange {
        StepRef step;
        uint16_t result = 0;
        bool defined = false;   ///< before the call
        bool is_set = false;    ///< the call assigns it: `value`, or nothing
        uint32_t value = kNone; ///< of `values`
    };
    /// What the Program reads: the value of a source, or what the function made of the host's data.
    struct Input {
        uint32_t source = kNone, constant = kNone;
        bool donated = false;
    };
    /// A value that the call leaves behind.
    struct Value {
        uint32_t result = kNone; ///< of the Program
        uint32_t source = kNone; ///< else the value that this source had, or a reshape of it
        bool reshaped = false;
        uint32_t places = 0; ///< how many tensors show it after the call
        ir::TensorType type;
        ir::Location loc;
    };
    struct Result {
        ir::TensorType type;
        int donor = -1; ///< of inputs
        SlotRef slot;   ///< of small results on the CPU
        /// Makes `slot` where the result is small, on the CPU, and not written over an input.
        void make_slot_if_small(bool on_streams);
    };
    /// Where a value goes: a result of the call, or a source that is changed in place.
    struct Output {
        uint32_t value = kNone;
        uint32_t same_source = kNone; ///< the tensor itself is given back
        uint32_t same_output = kNone; ///< as an earlier result
        bool empty = false;
        StepRef history; ///< used up by a backward inside the call
        uint16_t history_result = 0;
    };
    struct Update {
        uint32_t source = kNone, value = kNone;
    };
    struct Operation {
        ir::Op op;
        ir::Location loc;
    };
    /// A word that is another one at each call.
    struct Word {
        enum class Kind : uint8_t { Seed, Offset, Again, Number, Element };
        uint32_t at = 0;
        Kind kind = Kind::Seed;
        uint32_t of = 0; ///< draw, number that is asked for again, number of the call, source
        NumberForm form = NumberForm::Itself;
    };

    uint64_t number = 0; ///< of the plan, of all in the process; from 1

    /// Whatever the host's state is.
    static constexpr uint64_t kAnyHostState = UINT64_MAX;

    // What has to hold, beside the signature.
    uint64_t host_state = 0;
    std::vector<KnownNumber> numbers; ///< of the call
    std::vector<Source> sources;      ///< arguments first
    std::vector<GradientChange> gradients;

    /// What of a recording's key the sizes of a call may decide.
    enum class KeyWord : uint8_t {
        Structure, ///< nothing
        Attribute, ///< of an operation, or an extent of a tensor that is captured
        Extent     ///< of an argument
    };

    /// The numbers of a recording that agreed, and its words.
    struct Earlier {
        std::vector<double> numbers;
        std::vector<int64_t> words;
    };
    static constexpr size_t kEarlier = 3;
    std::vector<Earlier> earlier; ///< where there are numbers: the last ones

    // What was recorded.
    std::vector<uint64_t> key; ///< without what is donated
    std::vector<KeyWord> key_words;
    std::vector<int64_t> words;
    std::vector<bool> is_constant; ///< word by word: of an operation Constant of a floating dtype
    std::vector<Word> again;
    std::vector<Operation> operations;
    std::vector<Tensor> constants;
    std::vector<Trace::Draw> draws;
    std::vector<Trace::HostWork> work;
    std::vector<std::function<double()>> numbers_again;

    engine::ExecutablePtr executable; ///< null: there is nothing to compute
    bool on_streams = false;
    /// An index out of range and the like shows when a GPU has run it. Such a plan changes nothing; it is
    /// saved, and not replayed: a replay would have to wait for its end.
    bool may_fail_later = false;
    ir::Location may_fail_at; ///< where such an operation was recorded
    std::vector<Input> inputs;
    std::vector<Result> results;
    std::vector<Value> values;
    std::vector<Output> outputs;
    std::vector<Update> updates;
    std::shared_ptr<const void> skeleton;

    /// All that a call does is to compute new tensors of arguments and constants with the recorded words:
    /// nothing is captured, changed, drawn or asked for again. Right once the plan is whole and note_simple()
    /// was called.
    bool simple = false;
    void note_simple();
    /// A captured tensor has no handle but those of plans: it can never be replayed again.
    bool is_dead() const;
    /// About so much memory of the host it takes, without the tensors and the Program. The same at any time.
    size_t bytes() const;
};
using CompiledPlanPtr = std::shared_ptr<const CompiledPlan>;

/// Makes a plan of what a trace saw. In order: construct, `eval_observed`, `take`.
class PlanBuilder final : public RunObserver {
public:
    /// `results`: what the function gave. Rejects the trace for what a replay could not do.
    PlanBuilder(Trace &trace, std::span<Tensor *const> results, std::span<const double> numbers);
    PlanBuilder(const PlanBuilder &) = delete;
    PlanBuilder &operator=(const PlanBuilder &) = delete;

    /// What the function has left behind to be computed.
    std::span<Node *const> roots() const { return roots_; }
    void run(const Recording &recording, const engine::ExecutablePtr &executable) noexcept override;
    /// After it has run; null if it was rejected meanwhile.
    std::shared_ptr<CompiledPlan> take();

private:
    void add_sources();
    void add_outputs(std::span<Tensor *const> results);
    void add_gradients();
    uint32_t value_of(Node *node);
    void build(const Recording &recording, const engine::ExecutablePtr &executable);
    void note_key_words(size_t first, size_t count, CompiledPlan::KeyWord kind);
    void add_inputs(const Recording &recording);
    void add_operations(const Recording &recording);
    bool changes_something() const;
    void add_values(const Recording &recording);

    Trace &trace_;
    std::shared_ptr<CompiledPlan> plan_ = std::make_shared<CompiledPlan>();
    std::vector<Node *> roots_;
    std::vector<Node *> value_nodes_;   ///< of plan_->values
    std::vector<uint32_t> value_cells_; ///< how many cells show each
    int runs_ = 0;
};

} // namespace lz::detail
