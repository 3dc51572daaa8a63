#pragma once
/// The machine of Python's pickles, as far as PyTorch's state dicts need it.

#include "frontend/io/source.h"
#include "lazuli/io/pytorch.h"

#include <functional>

namespace lz::io {

struct PickleValue::Data {
    Kind kind = Kind::None;
    int64_t number = 0; ///< of a bool, too
    double real = 0;
    std::string text;
    Tensor tensor;
    std::vector<PickleValue> list;
    std::vector<std::pair<PickleValue, PickleValue>> items;
};

/// A tensor as a pickle describes it.
struct PickledTensor {
    DType dtype = DType::F32;
    std::string storage;       ///< its key
    int64_t storage_numel = 0; ///< elements
    int64_t offset = 0;        ///< in elements
    Sizes sizes, strides;
};

/// Runs the pickle; `make` makes its tensors. Fails for opcodes, classes and functions that state dicts do
/// not have. Takes memory in proportion to the bytes.
PickleValue unpickle(const Source &source, const std::function<Tensor(const PickledTensor &)> &make);

} // namespace lz::io
