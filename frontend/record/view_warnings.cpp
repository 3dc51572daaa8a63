#include "frontend/record/view_warnings.h"

#include "frontend/engine/debug/log.h"
#include "frontend/record/access.h"
#include "frontend/record/record.h"
#include "ir/location.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace lz::detail {
namespace {

struct Views {
    std::mutex mutex;
    std::unordered_map<const Node *, Cell *> bases; ///< by view; each holds the memory of the cell's node
    std::set<std::pair<std::string, uint32_t>> told;
    static Views &get() {
        static Views *const views = new Views;
        return *views;
    }
};

/// What a view is called: functions whose result is the operand's memory in PyTorch. (`reshape`, `permute`,
/// `slice` are operations of that name.)
constexpr std::string_view kAliasing[] = {"at",           "broadcast_tensors",
                                          "broadcast_to", "chunk",
                                          "diagonal",     "expand",
                                          "expand_as",    "flatten",
                                          "mT",           "movedim",
                                          "narrow",       "permute",
                                          "reshape",      "select",
                                          "slice",        "split",
                                          "squeeze",      "t",
                                          "transpose",    "unbind",
                                          "unflatten",    "unsqueeze",
                                          "view"};

bool aliases_in_pytorch(const Node *n) {
    if (n->op != ir::Op::Reshape && n->op != ir::Op::Slice && n->op != ir::Op::Permute &&
        n->op != ir::Op::Broadcast)
        return false;
    return n->loc.function == 0 ||
           std::ranges::find(kAliasing, ir::function_name(n->loc.function)) != std::end(kAliasing);
}

} // namespace

void note_view(const Tensor &view, const Tensor &base) {
    Node *const n = Access::node(view);
    if (!aliases_in_pytorch(n))
        return;
    Views &views = Views::get();
    const std::lock_guard lock(views.mutex);
    Cell *cell = Access::cell(base);
    if (const auto of_view = views.bases.find(Access::node(base)); of_view != views.bases.end())
        cell = of_view->second;
    if (cell->alone) // a value of another tensor: detached, or what backward kept
        return;
    if (!views.bases.emplace(n, cell).second)
        return;
    home(cell)->refs.fetch_add(Node::kHold, std::memory_order_relaxed);
    n->is_view = true;
}

void forget_view(Node *view) noexcept {
    Cell *base = nullptr;
    {
        Views &views = Views::get();
        const std::lock_guard lock(views.mutex);
        const auto found = views.bases.find(view);
        if (found == views.bases.end())
            return;
        base = found->second;
        views.bases.erase(found);
    }
    view->is_view = false;
    drop_hold(home(base));
}

void warn_of_view(const Node *last, Location loc) {
    Views &views = Views::get();
    std::string made;
    {
        const std::lock_guard lock(views.mutex);
        const auto found = views.bases.find(last);
        if (found == views.bases.end() || found->second->handles.load(std::memory_order_acquire) == 0 ||
            !views.told.emplace(loc.file ? loc.file : "", loc.line).second)
            return;
    }
    const ir::Location origin = origin_of(last);
    const std::string_view function = ir::function_name(origin.function);
    engine::log_line("warning",
                     "this changes the result of " + std::string(function) + " (" + ir::to_string(origin) +
                         ") and not the tensor that it was made of, which PyTorch would change, too; write "
                         "x.at({...}) = v, or clone() it first, at " +
                         ir::to_string(to_ir(loc)) + ".");
}

} // namespace lz::detail
