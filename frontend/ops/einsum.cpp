// einsum: labels to axes, operands contracted from left to right.
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "frontend/ops/contract.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/linalg.h"
#include "lazuli/ops/views.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace lz {

using detail::Op;
using detail::Shape;

namespace {

/// Labels are letters; those of `...` are small control characters, right aligned: \1 is the last axis it
/// stands for.
using Labels = std::string;
constexpr char kEllipsisLabels = ir::kMaxRank;

struct Term {
    Tensor tensor;
    Labels labels; ///< one an axis, distinct
};

class Einsum {
public:
    Einsum(std::string_view equation, std::span<const Tensor> operands, Location loc)
        : equation_(equation), loc_(loc) {
        for (const Tensor &x : operands)
            detail::checked_type(x, "einsum", loc);
        parse(operands);
    }

    Tensor run() {
        for (Term &term : terms_)
            take_diagonals(term);
        Term result = std::move(terms_[0]);
        for (size_t k = 1; k < terms_.size(); ++k)
            result = contract(result, terms_[k], k + 1);
        sum_out(result, [](char) { return false; });
        std::vector<int64_t> order;
        for (const char label : output_)
            order.push_back(static_cast<int64_t>(result.labels.find(label)));
        return detail::permute_to(result.tensor, order, loc_);
    }

private:
    [[noreturn]] void fail(const std::string &what) const {
        throw ShapeError("einsum: \"" + equation_ + "\" " + what, loc_);
    }

    void parse(std::span<const Tensor> operands) {
        std::string text;
        for (const char c : equation_)
            if (c != ' ')
                text += c;
        const size_t arrow = text.find("->");
        const std::string inputs = text.substr(0, arrow);
        size_t begin = 0;
        std::vector<std::string> parts;
        while (true) {
            const size_t comma = inputs.find(',', begin);
            parts.push_back(inputs.substr(begin, comma - begin));
            if (comma == std::string::npos)
                break;
            begin = comma + 1;
        }
        if (parts.size() != operands.size() || operands.empty())
            fail("has " + std::to_string(parts.size()) + " operands and " + std::to_string(operands.size()) +
                 " were given");
        int ellipsis_rank = 0;
        for (size_t k = 0; k < parts.size(); ++k)
            terms_.push_back({operands[k], labels_of(parts[k], operands[k], k, ellipsis_rank)});
        check_extents();
        if (arrow == std::string::npos)
            implicit_output(ellipsis_rank);
        else
            explicit_output(text.substr(arrow + 2), ellipsis_rank);
    }

    static Labels ellipsis_labels(int count) {
        Labels out;
        for (int i = count; i > 0; --i)
            out += static_cast<char>(i);
        return out;
    }

    Labels labels_of(const std::string &part, const Tensor &x, size_t which, int &ellipsis_rank) const {
        for (const char c : part)
            if (c != '.' && std::isalpha(static_cast<unsigned char>(c)) == 0)
                fail("has the character '" + std::string(1, c) + "' where a letter is expected");
        const ir::TensorType &type = detail::type(x);
        const auto letters = static_cast<int>(
            std::ranges::count_if(part, [](unsigned char c) { return std::isalpha(c) != 0; }));
        const bool has_ellipsis = part.find("...") != std::string::npos;
        const int rest = type.shape.rank() - letters;
        if (rest < 0 || (rest > 0 && !has_ellipsis))
            fail("names " + std::to_string(letters) + " axes of operand " + std::to_string(which) +
                 ", which is " + detail::text(type));
        Labels out;
        bool seen = false;
        for (size_t i = 0; i < part.size(); ++i) {
            if (std::isalpha(static_cast<unsigned char>(part[i]))) {
                out += part[i];
            } else if (!seen && part.compare(i, 3, "...") == 0) {
                out += ellipsis_labels(rest);
                ellipsis_rank = std::max(ellipsis_rank, rest);
                seen = true;
                i += 2;
            } else {
                fail("has the character '" + std::string(1, part[i]) + "' where a letter is expected");
            }
        }
        return out;
    }

    /// One extent a label; 1 broadcasts.
    void check_extents() {
        for (const Term &term : terms_)
            for (size_t a = 0; a < term.labels.size(); ++a) {
                const int64_t extent = detail::type(term.tensor).shape[static_cast<int>(a)];
                int64_t &known = extent_[static_cast<unsigned char>(term.labels[a])];
                if (known != extent && known != 1 && extent != 1 && known != kUnknown)
                    fail("gives the label '" + shown(term.labels[a]) + "' the extents " +
                         std::to_string(known) + " and " + std::to_string(extent));
                if (known == kUnknown || known == 1)
                    known = extent;
            }
    }
    static std::string shown(char label) { return label <= kEllipsisLabels ? "..." : std::string(1, label); }

    void implicit_output(int ellipsis_rank) {
        output_ = ellipsis_labels(ellipsis_rank);
        std::array<int, 128> count{};
        for (const Term &term : terms_)
            for (const char label : term.labels)
                ++count[static_cast<unsigned char>(label)];
        for (size_t c = 'A'; c <= 'z'; ++c)
            if (count[c] == 1)
                output_ += static_cast<char>(c);
    }

    void explicit_output(const std::string &text, int ellipsis_rank) {
        for (size_t i = 0; i < text.size(); ++i) {
            if (text.compare(i, 3, "...") == 0) {
                output_ += ellipsis_labels(ellipsis_rank);
                i += 2;
                continue;
            }
            const auto known =
                static_cast<unsigned char>(text[i]) < 128 ? extent_[static_cast<size_t>(text[i])] : kUnknown;
            if (!std::isalpha(static_cast<unsigned char>(text[i])) || known == kUnknown)
                fail("names '" + std::string(1, text[i]) + "' in its result, which no operand has");
            output_ += text[i];
        }
        for (size_t i = 0; i < output_.size(); ++i)
            if (output_.find(output_[i], i + 1) != std::string::npos)
                fail("names '" + shown(output_[i]) + "' twice in its result");
    }

    void take_diagonals(Term &term) const {
        for (size_t a = 0; a < term.labels.size(); ++a) {
            const size_t b = term.labels.find(term.labels[a], a + 1);
            if (b == std::string::npos)
                continue;
            const char label = term.labels[a];
            const Shape &shape = detail::type(term.tensor).shape;
            if (shape[static_cast<int>(a)] != shape[static_cast<int>(b)])
                fail("takes a diagonal '" + std::string(1, label) + "' of axes with " +
                     std::to_string(shape[static_cast<int>(a)]) + " and " +
                     std::to_string(shape[static_cast<int>(b)]) + " elements");
            term.tensor = diagonal(term.tensor, 0, static_cast<int64_t>(a), static_cast<int64_t>(b), loc_);
            term.labels.erase(b, 1);
            term.labels.erase(a, 1);
            term.labels += label; // the diagonal is the last axis
            a = static_cast<size_t>(-1);
        }
    }

    bool needed(char label, size_t from_term) const {
        if (output_.find(label) != std::string::npos)
            return true;
        for (size_t k = from_term; k < terms_.size(); ++k)
            if (terms_[k].labels.find(label) != std::string::npos)
                return true;
        return false;
    }

    /// Sums over the axes that neither the result nor `also` asks for.
    template <class F>
    void sum_out(Term &term, F &&also) const {
        std::vector<int64_t> axes;
        Labels kept;
        for (size_t a = 0; a < term.labels.size(); ++a) {
            if (output_.find(term.labels[a]) != std::string::npos || also(term.labels[a]))
                kept += term.labels[a];
            else
                axes.push_back(static_cast<int64_t>(a));
        }
        if (axes.empty())
            return;
        term.tensor = detail::reduce(Op::ReduceSum, term.tensor, axes, false, loc_);
        term.labels = kept;
    }

    /// Axes of extent 1 whose label is wider in the other operand are dropped: they broadcast.
    void drop_broadcast(Term &term, const Term &other) const {
        const Shape &shape = detail::type(term.tensor).shape;
        Shape kept;
        Labels labels;
        for (size_t a = 0; a < term.labels.size(); ++a) {
            const int64_t extent = shape[static_cast<int>(a)];
            const size_t there = other.labels.find(term.labels[a]);
            if (extent == 1 && there != std::string::npos &&
                detail::type(other.tensor).shape[static_cast<int>(there)] != 1)
                continue;
            kept.push_back(extent);
            labels += term.labels[a];
        }
        term.tensor = detail::reshape_to(term.tensor, kept, loc_);
        term.labels = labels;
    }

    Term contract(Term a, Term b, size_t next) const {
        drop_broadcast(a, b);
        drop_broadcast(b, a);
        // What only one side has and nobody asks for again is summed before the product.
        sum_out(a, [&](char c) { return needed(c, next) || b.labels.find(c) != std::string::npos; });
        sum_out(b, [&](char c) { return needed(c, next) || a.labels.find(c) != std::string::npos; });
        std::vector<int64_t> a_batch, b_batch, a_sum, b_sum;
        Labels batch, free_a, free_b;
        for (size_t i = 0; i < a.labels.size(); ++i) {
            const size_t j = b.labels.find(a.labels[i]);
            if (j == std::string::npos) {
                free_a += a.labels[i];
                continue;
            }
            const bool keep = needed(a.labels[i], next);
            (keep ? a_batch : a_sum).push_back(static_cast<int64_t>(i));
            (keep ? b_batch : b_sum).push_back(static_cast<int64_t>(j));
            if (keep)
                batch += a.labels[i];
        }
        for (const char c : b.labels)
            if (a.labels.find(c) == std::string::npos)
                free_b += c;
        if (detail::type(a.tensor).dtype != detail::type(b.tensor).dtype)
            throw DTypeError(
                "einsum: the operands have dtypes " + std::string(ir::name(detail::type(a.tensor).dtype)) +
                    " and " + std::string(ir::name(detail::type(b.tensor).dtype)) + "; convert one with to()",
                loc_);
        return {detail::contract(a.tensor, b.tensor, a_batch, b_batch, a_sum, b_sum, loc_),
                batch + free_a + free_b};
    }

    static constexpr int64_t kUnknown = -1;
    std::string equation_;
    Location loc_;
    std::vector<Term> terms_;
    Labels output_;
    std::array<int64_t, 128> extent_ = [] {
        std::array<int64_t, 128> none{};
        none.fill(kUnknown);
        return none;
    }();
};

} // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> operands, Location loc) {
    loc = detail::in<"einsum">(loc);
    if (detail::autocasting()) [[unlikely]] {
        std::vector<Tensor> cast(operands.begin(), operands.end());
        detail::autocast_operands(detail::cast_policy("einsum"), cast, loc);
        const detail::AutocastScope off;
        return Einsum(equation, cast, loc).run();
    }
    return Einsum(equation, operands, loc).run();
}
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands, Location loc) {
    return einsum(equation, std::span(operands.begin(), operands.size()), loc);
}
Tensor einsum(const char *equation, std::span<const Tensor> operands, Location loc) {
    return einsum(equation ? std::string_view(equation) : std::string_view("(null)"), operands, loc);
}
Tensor einsum(const char *equation, std::initializer_list<Tensor> operands, Location loc) {
    return einsum(equation, std::span(operands.begin(), operands.size()), loc);
}

} // namespace lz
