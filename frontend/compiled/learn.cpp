#include "frontend/compiled/learn.h"

#include "frontend/compiled/signature.h"
#include "frontend/record/access.h"
#include "frontend/record/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace lz::detail {
namespace {

/// The first operation that the other does not have.
std::string first_difference(const CompiledPlan &now, const CompiledPlan &before) {
    const size_t count = std::min(now.operations.size(), before.operations.size());
    for (size_t i = 0; i < count; ++i)
        if (now.operations[i].op != before.operations[i].op)
            return fmt::format("operation {} was {} at {} and is {} at {}", i,
                               ir::name(before.operations[i].op), ir::to_string(before.operations[i].loc),
                               ir::name(now.operations[i].op), ir::to_string(now.operations[i].loc));
    if (now.operations.size() != before.operations.size())
        return fmt::format("it recorded {} operations and now {}", before.operations.size(),
                           now.operations.size());
    return "shapes, attributes or what is read by whom are others";
}

/// Of two recordings.
enum class Extents : uint8_t { Same, Any };

bool same_type_up_to(Extents extents, const ir::TensorType &a, const ir::TensorType &b) {
    return extents == Extents::Same ? a == b : same_but_for_extents(a, b);
}

bool same_sources(const CompiledPlan &a, const CompiledPlan &b, Extents extents) {
    return std::ranges::equal(a.sources, b.sources, [&](const auto &x, const auto &y) {
        return x.argument == y.argument && x.gradient == y.gradient && x.replaced == y.replaced &&
               x.tensor.get().same_tensor(y.tensor.get()) &&
               same_type_up_to(x.argument == CompiledPlan::kNone ? Extents::Same : extents, x.type, y.type) &&
               x.history.get() == y.history.get() && x.wants_gradient == y.wants_gradient;
    });
}

/// What is overwritten without being read comes last, and is not the same each time.
bool same_inputs(const CompiledPlan &a, const CompiledPlan &b) {
    const size_t count = std::min(a.inputs.size(), b.inputs.size());
    return std::equal(
        a.inputs.begin(), a.inputs.begin() + static_cast<ptrdiff_t>(count), b.inputs.begin(),
        [](const auto &x, const auto &y) { return x.source == y.source && x.constant == y.constant; });
}

/// Values of the host are compared: the function may have made them of something else.
bool same_constant(const Tensor &a, const Tensor &b) {
    Node *const x = Access::node(a), *const y = Access::node(b);
    if (!(x->type == y->type) || !x->storage || !y->storage || x->type.device != ir::kCpu)
        return x == y;
    return std::memcmp(x->storage->data(), y->storage->data(), static_cast<size_t>(x->type.bytes())) == 0;
}

bool same_ends(const CompiledPlan &a, const CompiledPlan &b, Extents extents) {
    const bool outputs = std::ranges::equal(a.outputs, b.outputs, [](const auto &x, const auto &y) {
        return x.value == y.value && x.same_source == y.same_source && x.same_output == y.same_output &&
               x.empty == y.empty && !x.history.get() == !y.history.get();
    });
    const bool updates = std::ranges::equal(a.updates, b.updates, [](const auto &x, const auto &y) {
        return x.source == y.source && x.value == y.value;
    });
    const bool gradients = std::ranges::equal(a.gradients, b.gradients, [](const auto &x, const auto &y) {
        return x.step.get() == y.step.get() && x.result == y.result && x.is_set == y.is_set &&
               x.value == y.value;
    });
    const bool values = std::ranges::equal(a.values, b.values, [&](const auto &x, const auto &y) {
        return x.result == y.result && x.source == y.source && x.reshaped == y.reshaped &&
               same_type_up_to(extents, x.type, y.type);
    });
    return outputs && updates && gradients && values;
}

bool same_host_work(const CompiledPlan &a, const CompiledPlan &b, Extents extents) {
    return a.work.size() == b.work.size() && a.numbers_again.size() == b.numbers_again.size() &&
           std::ranges::equal(a.draws, b.draws, [&](const auto &x, const auto &y) {
               return x.words == y.words || extents == Extents::Any;
           });
}

/// What two recordings do, words and numbers apart. `why` says what differs.
bool same_work(const CompiledPlan &now, const CompiledPlan &before, Extents extents, std::string &why) {
    if (!same_sources(now, before, extents) || !same_inputs(now, before)) {
        why = "it read or changed other tensors from outside";
        return false;
    }
    if (!same_ends(now, before, extents) || !same_host_work(now, before, extents)) {
        why = "its results go elsewhere, or it does something else on the host";
        return false;
    }
    if (!std::ranges::equal(now.constants, before.constants, same_constant)) {
        why = "a tensor that it makes of the host's data has other values";
        return false;
    }
    return true;
}

/// Arguments that were another tensor in another recording.
void learn_arguments(CompiledPlan &now, const CompiledPlan &before) {
    for (size_t s = 0; s < now.sources.size(); ++s)
        if (before.sources[s].only != now.sources[s].only)
            now.sources[s].only = nullptr;
}

bool is_again(std::span<const CompiledPlan::Word> again, uint32_t at) {
    return std::ranges::find(again, at, &CompiledPlan::Word::at) != again.end();
}

/// What functions such as squares and roots leave as it is says nothing of how a word is made.
bool is_telling(double x) {
    return x != 0 && x != 1 && x != -1;
}

/// Whether the value of the number that a word was made of shows that it is made of it now, too: no other
/// number gives it.
bool shows(const CompiledPlan &now, const CompiledPlan::Word &word) {
    int makers = 0;
    for (const KnownNumber &number : now.numbers)
        makers += std::ranges::any_of(ir::kEachNumberForm, [&](NumberForm form) {
            return same_bits(in_form(number.value(), form), std::bit_cast<double>(now.words[word.at]));
        });
    return makers == 1 && is_telling(now.numbers[word.of].value());
}

/// Adds to `again`, the words of `now` that are others at each call, what was learned before. False: that
/// does not hold now.
bool add_learned(std::vector<CompiledPlan::Word> &again, const CompiledPlan &now,
                 const CompiledPlan &before) {
    for (const CompiledPlan::Word &word : before.again) {
        if (is_again(now.again, word.at))
            continue;
        if (word.kind != CompiledPlan::Word::Kind::Number ||
            !same_bits(in_form(now.numbers[word.of].value(), word.form),
                       std::bit_cast<double>(now.words[word.at])))
            return false;
        again.push_back(word);
    }
    return true;
}

/// Of what numbers a word can have been made, in each of some recordings.
class Makers {
public:
    Makers(const CompiledPlan &now, const CompiledPlan &before) {
        add(now.numbers, now.words);
        add(before.numbers, before.words);
        for (const CompiledPlan::Earlier &one : before.earlier)
            recordings_.push_back({one.numbers, one.words});
    }

    /// How many ways there are to make the word of the numbers that have changed: of one of them by itself,
    /// or by the simplest that functions do with two. `found` is one of the former, if there is one.
    int find(uint32_t at, CompiledPlan::Word &found) const {
        int ways = 0;
        const auto count = static_cast<uint32_t>(recordings_[0].numbers.size());
        for (uint32_t k = 0; k < count; ++k) {
            if (!changed(k))
                continue;
            for (const NumberForm form : ir::kEachNumberForm)
                if (holds(at, [&](const Recording &r) { return in_form(r.numbers[k], form); })) {
                    found = {at, CompiledPlan::Word::Kind::Number, k, form};
                    ++ways;
                }
            for (uint32_t other = 0; other < k; ++other)
                if (varies(other))
                    ways += of_two(at, k, other);
        }
        for (uint32_t k = 0; k < count; ++k)
            for (uint32_t other = 0; other < k; ++other)
                if (!changed(k) && varies(k) && changed(other))
                    ways += of_two(at, k, other);
        return ways;
    }
    /// Whether one of the two values of the number says anything.
    bool tells(uint32_t k) const {
        return is_telling(recordings_[0].numbers[k]) || is_telling(recordings_[1].numbers[k]);
    }

private:
    /// The first two are those that are compared.
    struct Recording {
        std::vector<double> numbers;
        std::span<const int64_t> words;
    };
    void add(std::span<const KnownNumber> numbers, std::span<const int64_t> words) {
        Recording &added = recordings_.emplace_back();
        for (const KnownNumber &number : numbers)
            added.numbers.push_back(number.value());
        added.words = words;
    }
    bool changed(uint32_t k) const {
        return is_another(recordings_[0].numbers[k], recordings_[1].numbers[k]);
    }
    bool varies(uint32_t k) const {
        return std::ranges::any_of(recordings_, [&](const Recording &r) {
            return !same_bits(r.numbers[k], recordings_[0].numbers[k]);
        });
    }
    template <class F>
    bool holds(uint32_t at, F &&value) const {
        return std::ranges::all_of(recordings_, [&](const Recording &r) {
            return same_bits(value(r), std::bit_cast<double>(r.words[at]));
        });
    }
    int of_two(uint32_t at, uint32_t i, uint32_t k) const {
        const auto made = [&](double (*of)(double, double)) {
            return int{holds(at, [&](const Recording &r) { return of(r.numbers[i], r.numbers[k]); })};
        };
        return made([](double a, double b) { return a + b; }) +
               made([](double a, double b) { return a - b; }) +
               made([](double a, double b) { return b - a; }) +
               made([](double a, double b) { return a * b; }) +
               made([](double a, double b) { return a / b; }) +
               made([](double a, double b) { return b / a; });
    }

    std::vector<Recording> recordings_;
};

/// What the agreement of the two shows of the numbers; `now.again` is complete.
void learn_numbers(CompiledPlan &now, const CompiledPlan &before) {
    const auto is_used = [&](uint32_t k) {
        return std::ranges::any_of(now.again, [&](const CompiledPlan::Word &word) {
            return word.kind == CompiledPlan::Word::Kind::Number && word.of == k;
        });
    };
    const auto changed = [&](uint32_t k) {
        return !same_bits(now.numbers[k].value(), before.numbers[k].value());
    };
    const auto count = static_cast<uint32_t>(now.numbers.size());
    int changed_unused = 0;
    for (uint32_t k = 0; k < count; ++k) {
        now.numbers[k].learn(before.numbers[k]);
        changed_unused += changed(k) && !is_used(k);
    }
    for (uint32_t k = 0; k < count; ++k)
        if (is_used(k))
            now.numbers[k].note_used();
        else if (changed(k) && changed_unused == 1)
            now.numbers[k].note_unused();
    if (count == 0)
        return;
    now.earlier = before.earlier;
    if (now.earlier.size() == CompiledPlan::kEarlier)
        now.earlier.erase(now.earlier.begin());
    CompiledPlan::Earlier &added = now.earlier.emplace_back();
    for (const KnownNumber &number : before.numbers)
        added.numbers.push_back(number.value());
    added.words = before.words;
}

} // namespace

bool would_hold(const CompiledPlan &plan, const CompiledPlan &now) {
    if (plan.host_state != now.host_state || plan.is_dead())
        return false;
    for (size_t k = 0; k < plan.numbers.size(); ++k)
        if (!plan.numbers[k].takes(now.numbers[k].value()))
            return false;
    for (const CompiledPlan::GradientChange &gradient : plan.gradients)
        for (const CompiledPlan::GradientChange &other : now.gradients)
            if (gradient.step.get() == other.step.get() && gradient.defined != other.defined)
                return false;
    for (const CompiledPlan::Source &source : plan.sources)
        for (const CompiledPlan::Source &other : now.sources)
            if (source.only && source.argument == other.argument && source.only != other.only)
                return false;
    return true;
}

bool learn(CompiledPlan &now, const CompiledPlan &before, std::string &why) {
    if (now.key != before.key || now.words.size() != before.words.size()) {
        why = first_difference(now, before);
        return false;
    }
    if (!same_work(now, before, Extents::Same, why))
        return false;
    for (size_t k = 0; k < now.numbers.size(); ++k)
        if (!before.numbers[k].is_any() && !same_bits(now.numbers[k].value(), before.numbers[k].value()) &&
            !is_another(now.numbers[k].value(), before.numbers[k].value())) {
            why = "a number of the call is nearly the same as before: whether it is used as it is cannot be "
                  "seen";
            return false;
        }
    std::vector<CompiledPlan::Word> again = now.again;
    if (!add_learned(again, now, before)) {
        why = "a number that it computes with is another one";
        return false;
    }
    const Makers makers(now, before);
    for (uint32_t at = 0; at < now.words.size(); ++at) {
        if (now.words[at] == before.words[at] || is_again(again, at))
            continue;
        CompiledPlan::Word found;
        const int ways = now.is_constant[at] ? makers.find(at, found) : 0;
        if (ways != 1 || found.kind != CompiledPlan::Word::Kind::Number || !makers.tells(found.of)) {
            why = ways == 0
                      ? "a number that it computes with is another one"
                      : "it computes with a number that may be made of the call's in several ways, which "
                        "agreed each time";
            return false;
        }
        again.push_back(found);
    }
    if (now.host_state != before.host_state)
        for (const CompiledPlan::Word &word : again)
            if (!is_again(now.again, word.at) && !shows(now, word)) {
                why = "what the function looks at has changed, and the number of this call does not show "
                      "where it goes";
                return false;
            }
    now.again = std::move(again);
    learn_numbers(now, before);
    learn_arguments(now, before);
    return true;
}

namespace {

/// Whether the operations are the same, and what they compute with, but for words that sizes may decide.
bool same_operations(const CompiledPlan &a, const CompiledPlan &b) {
    if (a.key_words != b.key_words || a.words.size() != b.words.size())
        return false;
    for (size_t at = 0; at < a.key.size(); ++at)
        if (a.key_words[at] == CompiledPlan::KeyWord::Structure && a.key[at] != b.key[at])
            return false;
    std::string why;
    return same_work(a, b, Extents::Any, why);
}

} // namespace

bool AcrossSizes::learn(const CompiledPlanPtr &plan, Forgotten &forgotten) {
    const auto known =
        std::ranges::find_if(forms_, [&](const Form &form) { return same_operations(*plan, *form.example); });
    if (known == forms_.end()) {
        if (forms_.size() == kForms) { // the one that was confirmed least lately
            forgotten.push_back(std::move(forms_.front().example));
            forms_.erase(forms_.begin());
        }
        forms_.push_back({plan, std::vector<bool>(plan->key.size()), std::vector<bool>(plan->words.size())});
        return true;
    }
    const CompiledPlan &example = *known->example;
    bool more = false;
    const auto note = [&](std::vector<bool> &differed, size_t at, bool differs) {
        more = more || (differs && !differed[at]);
        differed[at] = differed[at] || differs;
    };
    // Else what differs may be a number's doing.
    const auto same = [](const KnownNumber &a, const KnownNumber &b) {
        return same_bits(a.value(), b.value());
    };
    if (std::ranges::equal(plan->numbers, example.numbers, same)) {
        for (size_t at = 0; at < plan->key.size(); ++at)
            note(known->key, at, plan->key[at] != example.key[at]);
        for (uint32_t at = 0; at < plan->words.size(); ++at)
            note(known->words, at, plan->words[at] != example.words[at]);
    }
    forgotten.push_back(std::exchange(known->example, plan)); // the last one knows the most
    std::rotate(known, known + 1, forms_.end());
    return more;
}

/// Numbers are what they are in this recording: what is made of them at one size says nothing of another.
bool AcrossSizes::has_seen(CompiledPlan &now) const {
    for (const Form &form : forms_) {
        const CompiledPlan &example = *form.example;
        if (!same_operations(now, example))
            continue;
        const auto key_holds = [&](size_t at) {
            return now.key[at] == example.key[at] || now.key_words[at] == CompiledPlan::KeyWord::Extent ||
                   form.key[at];
        };
        const auto word_holds = [&](uint32_t at) {
            return now.words[at] == example.words[at] || form.words[at] || is_again(now.again, at) ||
                   is_again(example.again, at);
        };
        bool holds = true;
        for (size_t at = 0; at < now.key.size() && holds; ++at)
            holds = key_holds(at);
        for (uint32_t at = 0; at < now.words.size() && holds; ++at)
            holds = word_holds(at);
        if (!holds)
            continue;
        for (size_t s = 0; s < now.sources.size(); ++s)
            if (!example.sources[s].only)
                now.sources[s].only = nullptr;
        return true;
    }
    return false;
}

void AcrossSizes::forget_dead(Forgotten &forgotten) {
    std::erase_if(forms_, [&](Form &form) {
        if (!form.example->is_dead())
            return false;
        forgotten.push_back(std::move(form.example));
        return true;
    });
}

} // namespace lz::detail
