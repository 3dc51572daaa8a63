#pragma once
/// The reference interpreter of Graph IR: what every op means, written to be obviously right and not to be
/// fast. It is the oracle of the tests and the CPU of builds without LLVM.
///
/// Every op's result is rounded to its dtype once, from a double where the dtype is a float (halves by way of
/// f32, as the compiled code does); reductions, scans and products accumulate in double. Integers are
/// computed in int64 and wrap to their dtype.

#include "ir/diagnostic.h"
#include "ir/graph/graph.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lz::ir {

/// A dense tensor in host memory: row-major elements in storage format, `type.bytes()` of them. The device is
/// what the graph says it is, the bytes are here.
struct HostTensor {
    TensorType type;
    std::vector<std::byte> bytes;
};

/// Runs a verified graph. `inputs` are its parameters in order; their dtypes and shapes must be those of the
/// parameters (else Failure Shape or DType). `runtime_words` replaces the graph's own if it is not empty and
/// has their length; it is checked against the type rules. Throws Failure(Index) for an index out of range,
/// Failure(State) for an integer division by zero and for a `call` that is not registered (ir/host/calls.h)
/// or throws, each with the node's location and recorded index. Inputs are never changed, donated or not.
std::vector<HostTensor> interpret(const Graph &graph, std::span<const HostTensor> inputs,
                                  std::span<const int64_t> runtime_words = {});

/// What interpret_all found: results that are lost have no bytes.
struct Interpreted {
    std::vector<HostTensor> results;
    struct Failed {
        Failure failure;               ///< without the name of the operation
        std::vector<uint32_t> results; ///< those that depend on the operation that failed, ascending
        Op op{};
    };
    std::vector<Failed> failures; ///< in the order of the graph
};

/// As interpret, but goes on after an operation that fails, with all that does not depend on it (S26). Of two
/// failures a result is lost by the one that comes first in the graph.
Interpreted interpret_all(const Graph &graph, std::span<const HostTensor> inputs,
                          std::span<const int64_t> runtime_words = {});

/// The data with which a dump is replayed. Random ones are Philox words of the parameter's seed: floats are
/// multiples of a power of two, uniform in [0, 1) and exact in their dtype; integers are uniform in 0 to 9,
/// bools in false and true. Throws Failure(State) when the parameter tells no data.
HostTensor materialize_param(const Graph &graph, const Param &param);

/// Elements as numbers and back, with the conversions of `cast`. For tests and tools.
std::vector<double> to_doubles(const HostTensor &tensor);
HostTensor from_doubles(const TensorType &type, std::span<const double> values);

} // namespace lz::ir
