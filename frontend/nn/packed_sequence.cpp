#include "lazuli/nn/packed_sequence.h"

#include "lazuli/lazuli.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace lz::nn::utils::rnn {

namespace {

std::string text(const Tensor &x, Location loc) {
    return fmt::format("{}{}", name(x.dtype(loc)), str(x.sizes(loc)));
}

Tensor on_cpu(const Sizes &numbers, Location loc) {
    return tensor(numbers.vec(), {.device = Device::cpu()}, loc);
}
Tensor beside(const Sizes &numbers, const Tensor &like, Location loc) {
    return tensor(numbers.vec(), {.device = like.device(loc)}, loc);
}

Sizes read(const Tensor &numbers, const char *function, const char *what, Location loc) {
    if (numbers.dtype(loc) != i64 && numbers.dtype(loc) != i32)
        throw DTypeError(
            fmt::format("{}: {} are {}; they must be i64 or i32", function, what, text(numbers, loc)), loc);
    if (numbers.dim(loc) != 1)
        throw ShapeError(fmt::format("{}: {} are {}; they must be a row", function, what, text(numbers, loc)),
                         loc);
    return numbers.to(i64, loc).to_vector<int64_t>(loc);
}

/// How sequences of these lengths are packed.
struct Order {
    std::vector<size_t> sequences; ///< longest first, of equal ones in their order
    Sizes step_sizes;
    bool is_theirs; ///< whether they stood so before
};

Order order_of(const Sizes &lengths, bool enforce_sorted, const char *function, Location loc) {
    Order order;
    order.sequences.resize(lengths.size());
    std::iota(order.sequences.begin(), order.sequences.end(), 0);
    std::ranges::sort(order.sequences, [&](size_t i, size_t j) {
        return lengths[i] > lengths[j] || (lengths[i] == lengths[j] && i < j);
    });
    order.is_theirs = std::ranges::is_sorted(order.sequences);
    if (enforce_sorted && !order.is_theirs)
        throw StateError(fmt::format("{}: the lengths {} do not come longest first; with "
                                     "enforce_sorted = false they are put in order",
                                     function, str(lengths)),
                         loc);
    const int64_t steps = lengths[order.sequences[0]];
    for (int64_t t = 0; t < steps; ++t)
        order.step_sizes.push_back(std::ranges::count_if(lengths, [&](int64_t l) { return l > t; }));
    return order;
}

/// The rows that `row(sequence, step)` names, step by step.
template <class F>
PackedSequence packed(const Tensor &rows, const Order &order, bool enforce_sorted, Location loc, F &&row) {
    Sizes taken;
    for (size_t t = 0; t < order.step_sizes.size(); ++t)
        for (int64_t k = 0; k < order.step_sizes[t]; ++k)
            taken.push_back(
                row(static_cast<int64_t>(order.sequences[static_cast<size_t>(k)]), static_cast<int64_t>(t)));
    Sizes sequences;
    if (!enforce_sorted)
        for (const size_t i : order.sequences)
            sequences.push_back(static_cast<int64_t>(i));
    return {index_select(rows, 0, beside(taken, rows, loc), loc), order.step_sizes, sequences, loc};
}

/// [a, b, ...] as [a * b, ...].
Tensor rows_of(const Tensor &x, Location loc) {
    return x.flatten(0, 1, loc);
}

} // namespace

PackedSequence::PackedSequence(Tensor data, const Tensor &batch_sizes, const Tensor &sorted_indices,
                               const Tensor &unsorted_indices, Location loc)
    : data_(std::move(data)), batch_sizes_(batch_sizes.cpu(loc)), sorted_indices_(sorted_indices),
      unsorted_indices_(unsorted_indices),
      step_sizes_(read(batch_sizes_, "PackedSequence", "the batch sizes", loc)) {
    if (sorted_indices_.defined() != unsorted_indices_.defined())
        throw StateError("PackedSequence: one of both indices is empty; both are needed, or none", loc);
    if (unsorted_indices_.defined())
        places_ = read(unsorted_indices_, "PackedSequence", "the indices", loc);
    check(loc);
}

PackedSequence::PackedSequence(Tensor data, Sizes step_sizes, const Sizes &order, Location loc)
    : data_(std::move(data)), batch_sizes_(on_cpu(step_sizes, loc)), step_sizes_(std::move(step_sizes)) {
    if (!order.empty()) {
        places_ = std::vector<int64_t>(order.size(), -1);
        for (size_t k = 0; k < order.size(); ++k)
            if (order[k] >= 0 && order[k] < static_cast<int64_t>(order.size()))
                places_[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
        sorted_indices_ = beside(order, data_, loc);
        unsorted_indices_ = beside(places_, data_, loc);
    }
    check(loc);
}

void PackedSequence::check(Location loc) const {
    int64_t total = 0;
    bool fits = !step_sizes_.empty() && step_sizes_.back() > 0;
    for (size_t t = 0; t < step_sizes_.size(); ++t) {
        fits = fits && (t == 0 || step_sizes_[t] <= step_sizes_[t - 1]);
        total += step_sizes_[t];
    }
    if (!fits || data_.dim(loc) == 0 || data_.size(0, loc) != total)
        throw ShapeError(fmt::format("PackedSequence: the batch sizes {} are not those of {}; they are above "
                                     "0, never grow, and add up to its rows",
                                     str(step_sizes_), text(data_, loc)),
                         loc);
    if (!unsorted_indices_.defined())
        return;
    Sizes sorted = places_;
    std::ranges::sort(sorted);
    bool is_order = static_cast<int64_t>(sorted.size()) == step_sizes_[0] &&
                    sorted_indices_.sizes(loc) == unsorted_indices_.sizes(loc);
    for (size_t k = 0; is_order && k < sorted.size(); ++k)
        is_order = sorted[k] == static_cast<int64_t>(k);
    if (!is_order)
        throw ShapeError(fmt::format("PackedSequence: the places {} are no order of the {} sequences",
                                     str(places_), step_sizes_[0]),
                         loc);
}

Sizes PackedSequence::lengths() const {
    Sizes out;
    for (int64_t k = 0; !step_sizes_.empty() && k < step_sizes_[0]; ++k)
        out.push_back(std::ranges::count_if(step_sizes_, [&](int64_t size) { return size > k; }));
    return out;
}

PackedSequence PackedSequence::with_data(Tensor data) const {
    PackedSequence other = *this;
    other.data_ = std::move(data);
    return other;
}
PackedSequence PackedSequence::to(const Device &device, Location loc) const {
    PackedSequence other = with_data(data_.to(device, loc));
    for (Tensor *const indices : {&other.sorted_indices_, &other.unsorted_indices_})
        if (indices->defined())
            *indices = indices->to(device, loc);
    return other;
}
PackedSequence PackedSequence::to(DType dtype, Location loc) const {
    return with_data(data_.to(dtype, loc));
}
PackedSequence PackedSequence::cuda(Location loc) const {
    return to(data_.cuda(-1, loc).device(loc), loc);
}

PackedSequence pack_padded_sequence(const Tensor &input, const Sizes &lengths, bool batch_first,
                                    bool enforce_sorted, Location loc) {
    constexpr const char *kName = "pack_padded_sequence";
    if (input.dim(loc) < 2)
        throw ShapeError(
            fmt::format("{}: the input is {}; it needs steps and sequences", kName, text(input, loc)), loc);
    const int64_t steps = input.size(batch_first ? 1 : 0, loc), n = input.size(batch_first ? 0 : 1, loc);
    if (static_cast<int64_t>(lengths.size()) != n || n == 0)
        throw ShapeError(fmt::format("{}: there are {} lengths, and {} has {} sequences", kName,
                                     lengths.size(), text(input, loc), n),
                         loc);
    for (const int64_t length : lengths)
        if (length < 1 || length > steps)
            throw ShapeError(fmt::format("{}: a length is {}; of {} it is from 1 to {}", kName, length,
                                         text(input, loc), steps),
                             loc);
    const Order order = order_of(lengths, enforce_sorted, kName, loc);
    return packed(rows_of(input, loc), order, enforce_sorted, loc, [&](int64_t sequence, int64_t step) {
        return batch_first ? sequence * steps + step : step * n + sequence;
    });
}

PackedSequence pack_padded_sequence(const Tensor &input, const Tensor &lengths, bool batch_first,
                                    bool enforce_sorted, Location loc) {
    return pack_padded_sequence(input, read(lengths, "pack_padded_sequence", "the lengths", loc), batch_first,
                                enforce_sorted, loc);
}

std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence &sequence, bool batch_first,
                                               double padding_value, std::optional<int64_t> total_length,
                                               Location loc) {
    const Sizes &sizes = sequence.step_sizes();
    if (sizes.empty())
        throw StateError("pad_packed_sequence: there is no sequence", loc);
    const auto longest = static_cast<int64_t>(sizes.size());
    const int64_t n = sizes[0], steps = total_length.value_or(longest);
    if (steps < longest)
        throw ShapeError(fmt::format("pad_packed_sequence: the total length is {}, and the longest sequence "
                                     "has {} steps",
                                     steps, longest),
                         loc);
    const Tensor &data = sequence.data();
    // Where each sequence is in the packed order.
    Sizes place = sequence.places();
    if (place.empty()) {
        place = std::vector<int64_t>(static_cast<size_t>(n));
        std::iota(place.begin(), place.end(), 0);
    }
    std::vector<int64_t> first(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), first.begin(), int64_t{0});
    // The padding is one more row.
    const int64_t rows = data.size(0, loc);
    Sizes around(std::vector<int64_t>(2 * static_cast<size_t>(data.dim(loc)), 0));
    around.back() = 1;
    const Tensor extended = pad(data, around, Scalar(padding_value), loc);
    Sizes taken(std::vector<int64_t>(static_cast<size_t>(steps * n), rows)), lengths;
    const Sizes sorted_lengths = sequence.lengths();
    for (int64_t i = 0; i < n; ++i) {
        const int64_t k = place[static_cast<size_t>(i)];
        lengths.push_back(sorted_lengths[static_cast<size_t>(k)]);
        for (int64_t t = 0; t < lengths.back(); ++t)
            taken[static_cast<size_t>(batch_first ? i * steps + t : t * n + i)] =
                first[static_cast<size_t>(t)] + k;
    }
    Sizes shape = data.sizes(loc);
    shape[0] = batch_first ? n : steps;
    shape.insert(shape.begin() + 1, batch_first ? steps : n);
    return {index_select(extended, 0, beside(taken, data, loc), loc).reshape(shape, loc),
            on_cpu(lengths, loc)};
}

Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first, double padding_value,
                    std::string_view padding_side, Location loc) {
    if (sequences.empty())
        throw StateError("pad_sequence: there is no sequence", loc);
    if (padding_side != "left" && padding_side != "right")
        throw StateError(fmt::format("pad_sequence: the padding side is \"{}\"; it is \"left\" or \"right\"",
                                     padding_side),
                         loc);
    int64_t longest = 0;
    for (const Tensor &sequence : sequences) {
        bool fits = sequence.dim(loc) > 0 && sequence.dim(loc) == sequences[0].dim(loc);
        for (int64_t a = 1; fits && a < sequence.dim(loc); ++a)
            fits = sequence.size(a, loc) == sequences[0].size(a, loc);
        if (!fits)
            throw ShapeError(fmt::format("pad_sequence: a sequence is {} and the first one {}; they must "
                                         "equal each other but for the first axis",
                                         text(sequence, loc), text(sequences[0], loc)),
                             loc);
        longest = std::max(longest, sequence.size(0, loc));
    }
    std::vector<Tensor> all;
    for (const Tensor &sequence : sequences) {
        Sizes around(std::vector<int64_t>(2 * static_cast<size_t>(sequence.dim(loc)), 0));
        around[around.size() - (padding_side == "left" ? 2 : 1)] = longest - sequence.size(0, loc);
        all.push_back(pad(sequence, around, Scalar(padding_value), loc));
    }
    return stack(all, batch_first ? 0 : 1, loc);
}

PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted, Location loc) {
    if (sequences.empty())
        throw StateError("pack_sequence: there is no sequence", loc);
    Sizes lengths;
    std::vector<int64_t> first;
    int64_t total = 0;
    for (const Tensor &sequence : sequences) {
        const int64_t length = sequence.dim(loc) > 0 ? sequence.size(0, loc) : 0;
        if (length == 0)
            throw ShapeError(fmt::format("pack_sequence: {} has no steps", text(sequence, loc)), loc);
        lengths.push_back(length);
        first.push_back(total);
        total += length;
    }
    const Order order = order_of(lengths, enforce_sorted, "pack_sequence", loc);
    return packed(cat(sequences, 0, loc), order, enforce_sorted, loc, [&](int64_t sequence, int64_t step) {
        return first[static_cast<size_t>(sequence)] + step;
    });
}

} // namespace lz::nn::utils::rnn
