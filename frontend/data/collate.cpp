// Examples into batches. What lies on the CPU is copied by the thread that makes the batch: no kernel is
// compiled for it, and nothing of it waits for what other threads have recorded.
#include "lazuli/data/loader.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <memory>
#include <new>

namespace lz::data::detail {

namespace {

constexpr std::align_val_t kAlignment{64};

/// A tensor on the CPU that `fill(std::byte *)` has filled.
template <class F>
Tensor filled(const Sizes &sizes, DType dtype, size_t bytes, Location loc, F &&fill) {
    if (bytes == 0)
        return empty(sizes, {.dtype = dtype, .device = Device::cpu()}, loc);
    const auto free = [](std::byte *p) { ::operator delete(p, kAlignment); };
    std::unique_ptr<std::byte, decltype(free)> memory(
        static_cast<std::byte *>(::operator new(bytes, kAlignment)), free);
    fill(memory.get());
    Tensor made = lz::detail::tensor_adopting(
        memory.get(), dtype, sizes, [](void *p, void *) { ::operator delete(p, kAlignment); }, nullptr, loc);
    (void)memory.release();
    return made;
}

size_t bytes_of(const Tensor &tensor) {
    return static_cast<size_t>(tensor.numel() * size_of(tensor.dtype()));
}

} // namespace

void check_index(int64_t index, int64_t size, const char *what, Location loc) {
    if (index < 0 || index >= size)
        throw IndexError(fmt::format("{}: there is no example {} among {}", what, index, size), loc);
}

int64_t common_rows(std::span<const Tensor> tensors, Location loc) {
    int64_t rows = -1;
    for (const Tensor &tensor : tensors) {
        if (tensor.dim(loc) == 0)
            throw ShapeError("TensorDataset: a tensor without axes has no rows", loc);
        if (rows >= 0 && tensor.size(0) != rows)
            throw ShapeError(
                fmt::format("TensorDataset: one tensor has {} rows and another {}", rows, tensor.size(0)),
                loc);
        rows = tensor.size(0);
    }
    return std::max<int64_t>(rows, 0);
}

Tensor rows(const Tensor &from, std::span<const int64_t> indices, Location loc) {
    const int64_t count = from.size(0, loc);
    for (const int64_t index : indices)
        check_index(index, count, "TensorDataset", loc);
    if (from.is_cuda())
        return index_select(from, 0, tensor(indices, {.device = from.device()}, loc), loc);
    Sizes sizes = from.sizes();
    sizes[0] = static_cast<int64_t>(indices.size());
    const size_t row = count == 0 ? 0 : bytes_of(from) / static_cast<size_t>(count);
    const auto *const begin = from.numel() == 0 ? nullptr : from.data<std::byte>(loc);
    return filled(sizes, from.dtype(), row * indices.size(), loc, [&](std::byte *to) {
        for (const int64_t index : indices) {
            std::memcpy(to, begin + static_cast<size_t>(index) * row, row);
            to += row;
        }
    });
}

Tensor stack_examples(std::span<const Tensor> examples, Location loc) {
    if (examples.empty())
        throw StateError("DataLoader: a batch without examples has no shape", loc);
    const Tensor &first = examples[0];
    const Sizes sizes = first.sizes(loc);
    bool copied = true; // by this thread
    for (size_t i = 0; i < examples.size(); ++i) {
        copied &= !examples[i].is_cuda(loc) && !examples[i].requires_grad();
        if (examples[i].sizes() != sizes)
            throw ShapeError(fmt::format("DataLoader: example 0 of a batch has the shape [{}] and example {} "
                                         "[{}]; examples of different shapes need a collate function",
                                         fmt::join(sizes, ","), i, fmt::join(examples[i].sizes(), ",")),
                             loc);
        if (examples[i].dtype() != first.dtype())
            throw DTypeError(fmt::format("DataLoader: example 0 of a batch is of {} and example {} of {}",
                                         name(first.dtype()), i, name(examples[i].dtype())),
                             loc);
    }
    if (!copied)
        return stack(examples, 0, loc);
    eval(examples, loc);
    Sizes stacked = sizes;
    stacked.insert(stacked.begin(), static_cast<int64_t>(examples.size()));
    const size_t bytes = bytes_of(first);
    return filled(stacked, first.dtype(), bytes * examples.size(), loc, [&](std::byte *to) {
        for (const Tensor &example : examples) {
            std::memcpy(to, example.data<void>(loc), bytes);
            to += bytes;
        }
    });
}

void place(std::span<Tensor *const> tensors, const DataLoaderOptions &options, Location loc) {
    const bool pin = options.pin_memory && cuda::is_available();
    std::vector<Tensor> made;
    for (Tensor *const tensor : tensors) {
        if (!tensor->defined())
            continue;
        if (pin && !tensor->is_cuda())
            *tensor = tensor->pin_memory(loc);
        if (options.device)
            *tensor = tensor->to(*options.device, CopyOptions{.non_blocking = true}, loc);
        made.push_back(*tensor);
    }
    eval(made, loc);
}

} // namespace lz::data::detail
