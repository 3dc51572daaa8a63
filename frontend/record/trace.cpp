#include "frontend/record/trace.h"

#include "frontend/record/access.h"
#include "frontend/record/record.h"
#include "frontend/record/storage.h"

#include <algorithm>
#include <new>
#include <utility>

namespace lz::detail {

Trace::Trace(std::span<const Tensor *const> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i)
        if (arguments[i]->defined())
            add_source(*arguments[i], static_cast<uint32_t>(i), kNone);
}

template <class F>
void Trace::noted(F &&f) noexcept {
    if (rejected_)
        return;
    try {
        f();
    } catch (const std::bad_alloc &) {
        rejected_ = true;
    }
}

/// Of an argument that is given twice, or that is captured as well, the first place counts.
void Trace::add_source(const Tensor &tensor, uint32_t argument, uint32_t gradient) {
    const Cell *const cell = Access::cell(tensor);
    Node *const node = Access::node(tensor);
    const auto index = static_cast<uint32_t>(sources.size());
    sources.push_back({tensor, HeldNode(node), argument, gradient, false});
    cells_.try_emplace(cell, index);
    nodes_.try_emplace(node, index);
}

void Trace::note_made(const Node *node) noexcept {
    noted([&] { made_.insert(node); });
}

void Trace::note_constant(const Tensor &ready) noexcept {
    noted([&] {
        Node *const node = Access::node(ready);
        // A handle of its own: what is held keeps the value, and nothing that is recorded from it.
        constants_.insert_or_assign(node, Access::wrap(make_alias(node)));
    });
}

void Trace::note_alias(const Cell *cell) noexcept {
    noted([&] { aliases_.insert(cell); });
}

void Trace::note_read(const Tensor &tensor) noexcept {
    noted([&] {
        const Cell *const cell = Access::cell(tensor);
        const Node *const node = Access::node(tensor);
        if (made_.contains(node) || constants_.contains(node) || cells_.contains(cell) ||
            aliases_.contains(cell))
            return;
        add_source(tensor, kNone, kNone);
    });
}

void Trace::note_replaced(const Tensor &target) noexcept {
    note_read(target);
    noted([&] {
        if (const auto found = cells_.find(Access::cell(target)); found != cells_.end())
            sources[found->second].replaced = true;
    });
}

void Trace::note_gradient(Step *step, uint16_t result) noexcept {
    noted([&] {
        for (const GradientPlace &place : gradients)
            if (place.step.get() == step && place.result == result)
                return;
        const StepExtras::Kept *const kept = step->kept(result);
        if (!kept)
            return;
        const auto index = static_cast<uint32_t>(gradients.size());
        gradients.push_back({StepRef(step), result, kept->grad.defined()});
        if (!kept->grad.defined())
            return;
        const Node *const node = Access::node(kept->grad);
        if (!made_.contains(node) && !cells_.contains(Access::cell(kept->grad)))
            add_source(kept->grad, kNone, index);
    });
}

void Trace::note_draw(int64_t words, uint64_t seed, uint64_t offset) noexcept {
    noted([&] { draws.push_back({words, seed, offset}); });
}

void Trace::note_number(Node *node, std::function<double()> again) noexcept {
    noted([&] {
        numbers.push_back({node, std::move(again)});
        work.push_back({});
    });
}

void Trace::note_work(std::function<void()> work_of_host, std::function<void()> undo) noexcept {
    noted([&] { work.push_back({std::move(work_of_host), std::move(undo)}); });
}

void Trace::note_end(std::function<void()> check) noexcept {
    noted([&] { at_end.push_back(std::move(check)); });
}

void Trace::note_on_host(double number) noexcept {
    noted([&] {
        if (!too_many_on_host() && std::ranges::find(on_host, number) == on_host.end())
            on_host.push_back(number);
    });
}

void Trace::note_limits(double number, double low, double high) noexcept {
    noted([&] { limits.push_back({number, low, high}); });
}

void Trace::reject(const char *why, Location loc) noexcept {
    noted([&] {
        why_ = why;
        where_ = loc;
        rejected_ = true;
    });
}

uint32_t Trace::source_of(const Node *node) const {
    const auto found = nodes_.find(node);
    return found == nodes_.end() ? kNone : found->second;
}

uint32_t Trace::source_of(const Cell *cell) const {
    const auto found = cells_.find(cell);
    return found == cells_.end() ? kNone : found->second;
}

const Tensor *Trace::constant(const Node *node) const {
    const auto found = constants_.find(node);
    return found == constants_.end() ? nullptr : &found->second;
}

} // namespace lz::detail
