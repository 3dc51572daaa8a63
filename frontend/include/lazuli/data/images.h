#pragma once
/// The files of well-known sets of images, as they are published; gzip is unpacked. Nothing is downloaded.

#include "lazuli/data/dataset.h"

#include <string>

namespace lz::data {

/// Handwritten digits, or what else is in such files (Fashion-MNIST, EMNIST): images f32[n,1,28,28] from 0 to
/// 1 and labels i64[n], from `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, or `t10k-...`, each as
/// it is or with
/// `.gz`. http://yann.lecun.com/exdb/mnist/
class LZ_API MNIST : public TensorDataset<2> {
public:
    /// From a folder. Throws IoError for files that are missing or damaged.
    explicit MNIST(const std::string &root, bool train = true, Location loc = Location::current());
    /// All images.
    const Tensor &images() const { return tensors()[0]; }
    /// All labels.
    const Tensor &targets() const { return tensors()[1]; }
};

/// Small photographs of 10 classes: images f32[n,3,32,32] from 0 to 1 and labels i64[n], from the binary
/// version's `data_batch_1.bin` to `_5.bin`, or `test_batch.bin`. https://www.cs.toronto.edu/~kriz/cifar.html
class LZ_API CIFAR10 : public TensorDataset<2> {
public:
    /// From a folder. Throws IoError for files that are missing or damaged.
    explicit CIFAR10(const std::string &root, bool train = true, Location loc = Location::current());
    /// All images.
    const Tensor &images() const { return tensors()[0]; }
    /// All labels.
    const Tensor &targets() const { return tensors()[1]; }
};

/// The same of 100 classes: labels are the fine ones, from `train.bin` or `test.bin`.
class LZ_API CIFAR100 : public TensorDataset<2> {
public:
    /// From a folder. Throws IoError for files that are missing or damaged.
    explicit CIFAR100(const std::string &root, bool train = true, Location loc = Location::current());
    /// All images.
    const Tensor &images() const { return tensors()[0]; }
    /// All labels.
    const Tensor &targets() const { return tensors()[1]; }
};

/// Elements of a file in the IDX format, which MNIST has: u8, i8, i16, i32, f32 or f64 of any shape, as it is
/// or packed by gzip. Throws IoError for a file that is damaged.
[[nodiscard]] LZ_API Tensor read_idx(const std::string &path, Location loc = Location::current());

} // namespace lz::data
