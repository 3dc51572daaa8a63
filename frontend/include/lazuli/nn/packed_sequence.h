#pragma once
/// Sequences of different lengths in one tensor: padded to the longest, or packed without the padding.

#include "lazuli/core/array_ref.h"
#include "lazuli/tensor.h"

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

namespace lz {
namespace nn {
namespace utils {
namespace rnn {

/// Sequences step by step: of each step the rows of all sequences that have it, longest sequence first.
/// Recurrent networks take it (`forward_with_packed_input`).
class LZ_API PackedSequence {
public:
    /// Nothing.
    PackedSequence() = default;
    /// Of rows [total, ...] and the number of rows of each step, i64[steps], which never grows and adds up to
    /// the total. The indices, i64[n], put sequences into this order and back; both are empty where it is
    /// theirs. Throws ShapeError, DTypeError. Reads the numbers: a sync point where they are not there yet.
    PackedSequence(Tensor data, const Tensor &batch_sizes, const Tensor &sorted_indices = {},
                   const Tensor &unsorted_indices = {}, Location loc = Location::current());
    /// The same of numbers, so that nothing is read: `order` says which sequence each one is, and is empty
    /// where the order is theirs.
    PackedSequence(Tensor data, Sizes step_sizes, const Sizes &order, Location loc = Location::current());

    /// [total, ...]
    const Tensor &data() const { return data_; }
    /// i64[steps], on the CPU.
    const Tensor &batch_sizes() const { return batch_sizes_; }
    /// i64[n]: which sequence each one of this order is; may be empty.
    const Tensor &sorted_indices() const { return sorted_indices_; }
    /// i64[n]: where each sequence is in this order; may be empty.
    const Tensor &unsorted_indices() const { return unsorted_indices_; }
    /// The numbers of `batch_sizes`, without a sync.
    const Sizes &step_sizes() const { return step_sizes_; }
    /// The numbers of `unsorted_indices`, without a sync.
    const Sizes &places() const { return places_; }
    /// The lengths of the sequences in this order.
    Sizes lengths() const;

    /// On the device.
    PackedSequence to(const Device &device, Location loc = Location::current()) const;
    /// Rows of this dtype.
    PackedSequence to(DType dtype, Location loc = Location::current()) const;
    /// On the CPU.
    PackedSequence cpu(Location loc = Location::current()) const { return to(Device::cpu(), loc); }
    /// On the current GPU.
    PackedSequence cuda(Location loc = Location::current()) const;
    /// Whether it is on a GPU.
    bool is_cuda(Location loc = Location::current()) const { return data_.is_cuda(loc); }
    /// The same order of other rows.
    PackedSequence with_data(Tensor data) const;

private:
    void check(Location loc) const;

    Tensor data_, batch_sizes_, sorted_indices_, unsorted_indices_;
    Sizes step_sizes_, places_;
};

/// Without the padding: of [steps, n, ...], or [n, steps, ...] if `batch_first`, the first `lengths[i]` steps
/// of each sequence. Where they do not come longest first they are put in this order unless
/// `enforce_sorted`: then that is a StateError. A tensor of lengths, i64[n], is read: a sync point where it
/// is not there yet. Throws ShapeError for lengths that are not from 1 to the steps.
LZ_API PackedSequence pack_padded_sequence(const Tensor &input, const Tensor &lengths,
                                           bool batch_first = false, bool enforce_sorted = true,
                                           Location loc = Location::current());
LZ_API PackedSequence pack_padded_sequence(const Tensor &input, const Sizes &lengths,
                                           bool batch_first = false, bool enforce_sorted = true,
                                           Location loc = Location::current());
/// With `padding_value` behind each sequence up to the longest, or to `total_length`, in the order before
/// they were packed; and the lengths, i64[n] on the CPU. Throws ShapeError for a total that is too short.
LZ_API std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence &sequence,
                                                      bool batch_first = false, double padding_value = 0,
                                                      std::optional<int64_t> total_length = std::nullopt,
                                                      Location loc = Location::current());
/// Tensors [length, ...] side by side as [longest, n, ...], or [n, longest, ...] if `batch_first`, with
/// `padding_value` behind them, or before if `padding_side` is "left". Throws StateError for none and for
/// another side, ShapeError for rests of different shapes.
LZ_API Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first = false, double padding_value = 0,
                           std::string_view padding_side = "right", Location loc = Location::current());
/// Packed, of tensors [length, ...]. Throws as `pack_padded_sequence`.
LZ_API PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted = true,
                                    Location loc = Location::current());

} // namespace rnn
} // namespace utils
} // namespace nn
} // namespace lz
