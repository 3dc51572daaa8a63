#include "frontend/autograd/kept.h"

#include "frontend/autograd/step.h"
#include "frontend/record/access.h"
#include "frontend/record/node.h"
#include "ir/text/sentences.h"
#include "ir/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lz::detail {
namespace {

/// Lines that are told one by one.
constexpr size_t kMostLines = 20;

class Count {
public:
    explicit Count(Step *last) { add(last); }

    void run() {
        while (!open_.empty()) {
            const StepRef step = std::move(open_.back());
            open_.pop_back();
            const StepLock lock(*step);
            look_at(*step);
        }
    }

    std::string text() const {
        if (total_ == 0)
            return {};
        std::vector<std::pair<int64_t, std::string>> lines; // the most first
        for (const auto &[where, bytes] : by_line_)
            lines.emplace_back(-bytes, where);
        std::ranges::sort(lines);
        std::string text = fmt::format("Kept for backward, beside leaves and what has no history: {}.\n",
                                       ir::bytes_text(total_));
        for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i)
            text += fmt::format("{} are kept by {}.\n", ir::bytes_text(-lines[i].first), lines[i].second);
        if (lines.size() > kMostLines)
            text += fmt::format("And by {} more.\n", ir::plural(lines.size() - kMostLines, "line"));
        return text;
    }

private:
    void add(Step *step) {
        if (step && seen_.insert(step).second)
            open_.emplace_back(step);
    }

    void look_at(Step &step) {
        const auto inputs = step.inputs();
        for (const Edge &edge : inputs)
            add(edge.step);
        const auto saved = step.saved();
        size_t s = 0;
        for (uint32_t bit = 0; bit < 32 && s < saved.size(); ++bit) {
            if ((step.saved_mask >> bit & 1) == 0)
                continue;
            const Node *const node = saved[s++];
            const bool is_operand = bit < Step::kResult0;
            const Step *const maker = is_operand && bit < inputs.size() ? inputs[bit].step : nullptr;
            if (node && (!is_operand || (maker && !maker->is_leaf())) && values_.insert(node).second)
                note(step, node->type.bytes());
        }
    }

    void note(const Step &step, int64_t bytes) {
        total_ += bytes;
        by_line_[fmt::format("{} at {}", ir::called(step.op, step.loc), ir::to_string(step.loc))] += bytes;
    }

    std::vector<StepRef> open_;
    std::unordered_set<const Step *> seen_;
    std::unordered_set<const Node *> values_; ///< each is kept once, however many keep it
    std::map<std::string, int64_t> by_line_;
    int64_t total_ = 0;
};

} // namespace

std::string explain_kept(const Tensor &tensor) {
    Count count(Access::cell(tensor)->history);
    count.run();
    return count.text();
}

} // namespace lz::detail
