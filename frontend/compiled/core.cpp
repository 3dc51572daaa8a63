#include "frontend/compiled/core.h"

#include "frontend/record/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lz::detail {

std::shared_ptr<CompiledEntry> CompiledCore::find(const CompiledArguments &arguments,
                                                  const RecordingModes &modes) {
    const auto [first, last] = entries.equal_range(Signature::hash_of(arguments));
    const auto found = std::find_if(
        first, last, [&](const auto &e) { return e.second->signature.matches(arguments, modes); });
    if (found == last)
        return nullptr;
    CompiledEntry &entry = *found->second;
    entry.used = entry.form->used = ++clock;
    confirm_by_other_sizes(entry);
    return found->second;
}

std::shared_ptr<CompiledForm> CompiledCore::form_of(const Signature &signature, Forgotten &forgotten) {
    const auto found =
        std::ranges::find_if(forms, [&](const auto &form) { return form->signature.same_form(signature); });
    if (found != forms.end())
        return *found;
    if (forms.size() >= std::max<size_t>(options.signatures, 1)) {
        const auto oldest = std::ranges::min_element(forms, {}, [](const auto &form) { return form->used; });
        for (auto at = entries.begin(); at != entries.end();)
            at = at->second->form == *oldest ? forget(at, forgotten) : std::next(at);
        forgotten.emplace_back(std::move(*oldest));
        forms.erase(oldest);
    }
    return forms.emplace_back(std::make_shared<CompiledForm>(signature));
}

CompiledCore::Entries::iterator CompiledCore::forget(Entries::iterator at, Forgotten &forgotten) {
    const CompiledEntry &entry = *at->second;
    dropped += !entry.plans.empty();
    for (const auto &recording : entry.recordings)
        plan_bytes -= recording->bytes();
    forgotten.emplace_back(std::move(at->second));
    return entries.erase(at);
}

/// The entry itself stays.
void CompiledCore::forget_oldest(Forgotten &forgotten) {
    while (entries.size() > 1 &&
           (entries.size() > std::max<size_t>(options.sizes, 1) || plan_bytes > kPlanBytes)) {
        const auto oldest =
            std::ranges::min_element(entries, {}, [](const auto &e) { return e.second->used; });
        std::shared_ptr<CompiledForm> form = oldest->second->form;
        forget(oldest, forgotten);
        if (std::ranges::none_of(entries, [&](const auto &e) { return e.second->form == form; })) {
            std::erase(forms, form);
            forgotten.emplace_back(std::move(form));
        }
    }
}

/// A function that captures another tensor at each call would keep them all, one in the recording of each
/// size.
void CompiledCore::forget_dead(Forgotten &forgotten) {
    if (++kept < kKept)
        return;
    kept = 0;
    for (const auto &[hash, entry] : entries) {
        std::erase_if(entry->recordings, [&](std::shared_ptr<CompiledPlan> &recording) {
            if (!recording->is_dead())
                return false;
            plan_bytes -= recording->bytes();
            forgotten.push_back(std::move(recording));
            return true;
        });
        std::erase_if(entry->plans, [&](CompiledPlanPtr &plan) {
            if (!plan->is_dead())
                return false;
            forgotten.push_back(std::move(plan));
            return true;
        });
    }
    for (const auto &form : forms)
        form->across.forget_dead(forgotten);
}

CompiledEntry &CompiledCore::find_or_add(const Signature &signature, Forgotten &forgotten) {
    const auto [first, last] = entries.equal_range(signature.hash());
    const auto found =
        std::find_if(first, last, [&](const auto &e) { return e.second->signature == signature; });
    if (found != last) {
        found->second->used = found->second->form->used = ++clock;
        return *found->second;
    }
    generation.fetch_add(1, std::memory_order_relaxed);
    const auto added = std::make_shared<CompiledEntry>(signature, form_of(signature, forgotten));
    added->used = added->form->used = ++clock;
    entries.emplace(signature.hash(), added);
    forget_oldest(forgotten);
    return *added;
}

std::vector<const CompiledEntry *> CompiledCore::sorted_entries() const {
    std::vector<const CompiledEntry *> sorted;
    for (const auto &[hash, entry] : entries)
        sorted.push_back(entry.get());
    std::ranges::sort(sorted, std::ranges::greater(), &CompiledEntry::used);
    return sorted;
}

/// What was recorded instead of a replay has to be what would have been replayed.
void CompiledCore::check(const CompiledEntry &entry, CompiledPlan &plan) const {
    std::string why;
    for (const CompiledPlanPtr &other : entry.plans) {
        if (!would_hold(*other, plan))
            continue;
        if (detail::learn(plan, *other, why))
            return;
    }
    if (!why.empty())
        throw StateError(
            fmt::format("{}: a replay would not have done what the function does now: {}. What a "
                        "compiled function looks at on the host has to be an argument, or "
                        "host_state_changed() has to be called when it changes",
                        options.name, why),
            loc);
}

/// Whether another recording of the same sizes agreed with this one, which is no recording of the entry yet.
/// A plan that agreed and is a case of it goes.
bool CompiledCore::is_confirmed(CompiledEntry &entry, CompiledPlan &plan, Forgotten &forgotten) {
    std::string why;
    const CompiledPlan *agreed = nullptr;
    const auto agrees = [&](const auto &other) {
        const bool agreeing = learn(plan, *other, why);
        if (agreeing)
            agreed = other.get();
        return agreeing;
    };
    const auto could_be = [&](const auto &other) { return would_hold(*other, plan); };
    // What the same conditions had recorded last has to be the same; a function that does three things in
    // turn is not replayed because it does the first one again.
    const auto last = std::find_if(entry.recordings.rbegin(), entry.recordings.rend(), could_be);
    const bool confirmed =
        last != entry.recordings.rend()
            ? agrees(*last)
            : std::ranges::any_of(entry.plans, agrees) || std::ranges::any_of(entry.recordings, agrees);
    if (!confirmed && !(entry.plans.empty() && entry.recordings.empty()))
        entry.why = why;
    const auto found =
        std::ranges::find(entry.plans, agreed, [](const CompiledPlanPtr &known) { return known.get(); });
    if (found != entry.plans.end() && !plan.may_fail_later && would_hold(plan, **found)) {
        forgotten.push_back(std::move(*found));
        entry.plans.erase(found);
    }
    return confirmed;
}

/// The only recording of its sizes, when other sizes have shown more since.
void CompiledCore::confirm_by_other_sizes(CompiledEntry &entry) {
    if (!entry.plans.empty() || entry.recordings.size() != 1 || entry.learned == entry.form->learned)
        return;
    entry.learned = entry.form->learned;
    const std::shared_ptr<CompiledPlan> &only = entry.recordings.front(); // no call has it
    if (!entry.form->across.has_seen(*only))
        return;
    only->note_simple();
    entry.plans.push_back(only);
    entry.tries = 0;
}

/// The recording is a plan if another one agreed with it.
void CompiledCore::keep(CompiledEntry &entry, std::shared_ptr<CompiledPlan> plan, Forgotten &forgotten) {
    ++(plan->may_fail_later ? stats.uncompiled : stats.recordings);
    generation.fetch_add(1, std::memory_order_relaxed);
    const bool by_itself = is_confirmed(entry, *plan, forgotten);
    const bool confirmed =
        by_itself || (entry.recordings.empty() && entry.plans.empty() && entry.form->across.has_seen(*plan));
    if (entry.recordings.size() == CompiledEntry::kRecordings) { // the first stays, to be compared with
        plan_bytes -= entry.recordings[1]->bytes();
        forgotten.push_back(std::move(entry.recordings[1]));
        entry.recordings.erase(entry.recordings.begin() + 1);
    }
    plan_bytes += plan->bytes();
    entry.recordings.push_back(plan);
    entry.learned = entry.form->learned;
    if (plan->may_fail_later)
        entry.why = stats.why =
            fmt::format("it has an operation that may fail on a GPU while it runs (it can be saved), at {}",
                        ir::to_string(plan->may_fail_at));
    if (confirmed) {
        if (by_itself && entry.form->across.learn(plan, forgotten))
            ++entry.form->learned;
        entry.tries = 0;
        plan->note_simple();
        add_plan(entry, std::move(plan), forgotten);
    } else {
        ++entry.tries;
    }
    forget_oldest(forgotten);
    forget_dead(forgotten);
}

void CompiledCore::add_plan(CompiledEntry &entry, CompiledPlanPtr plan, Forgotten &forgotten) {
    if (plan->may_fail_later) // a recording each time: the last one stands for those before
        for (auto at = entry.plans.begin(); at != entry.plans.end();) {
            if (would_hold(**at, *plan)) {
                forgotten.push_back(std::move(*at));
                at = entry.plans.erase(at);
            } else {
                ++at;
            }
        }
    entry.plans.insert(entry.plans.begin(), std::move(plan));
    if (entry.plans.size() > CompiledEntry::kPlans) {
        forgotten.push_back(std::move(entry.plans.back()));
        entry.plans.pop_back();
    }
}

void CompiledCore::note_failure(CompiledEntry &entry, const std::string &why, Location where) {
    ++stats.uncompiled;
    ++entry.tries;
    ++entry.form->tries;
    const ir::Location at = to_ir(where);
    entry.why = "it " + (why.empty() ? "could not be kept" : why) +
                (at.known() ? ", at " + ir::to_string(at) : std::string());
    stats.why = entry.why;
}

} // namespace lz::detail
