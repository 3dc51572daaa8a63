#pragma once
/// Programs from files without the rest of Lazuli: what `lz::save_program` wrote runs on memory of the
/// caller's. This header goes with liblazuli-run.so (CMake: lazuli::run), which has no compiler, no tensors,
/// and needs neither LLVM nor NVRTC. Programs that use GPUs get copies of what they are given there, and what
/// they give there is copied back; the CUDA driver is opened by the first file that needs it. Who links
/// liblazuli.so has `lz::load_program` (program.h) instead; a program links one of the two.
///
///     const lz::run::Program p = lz::run::load_program("net.lzp");
///     std::vector<float> x(8 * 64);
///     std::vector<lz::run::Array> out = p({{x, {8, 64}}});
///     std::span<const float> y = out[0].values<float>();

#include "lazuli/core/dtype.h"
#include "lazuli/core/error.h"
#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/program_signature.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lz::run {

/// Dense row-major elements in the caller's memory, which a call reads.
struct View {
    const void *data = nullptr; ///< aligned as its elements are
    DType dtype = DType::F32;   ///< of the elements
    std::vector<int64_t> shape; ///< the extents
    size_t bytes = 0;           ///< that there are

    View() = default;
    /// Elements of a vector, an array or a span.
    template <Element T>
    View(std::span<const T> elements, std::vector<int64_t> extents)
        : data(elements.data()), dtype(dtype_of<T>), shape(std::move(extents)), bytes(elements.size_bytes()) {
    }
    /// Likewise.
    template <Element T>
    View(const std::vector<T> &elements, std::vector<int64_t> extents)
        : View(std::span<const T>(elements), std::move(extents)) {}
    /// Memory of any dtype.
    View(const void *memory, size_t size, DType type, std::vector<int64_t> extents)
        : data(memory), dtype(type), shape(std::move(extents)), bytes(size) {}
};

/// A result. Copies share their elements, which nobody changes.
class LZ_API Array {
public:
    /// Empty: no elements, and `defined()` is false.
    Array() = default;
    /// Whether it is a result at all; functions may give empty tensors.
    bool defined() const { return memory_ != nullptr; }
    /// Of its elements.
    DType dtype() const { return dtype_; }
    /// Its extents.
    const std::vector<int64_t> &shape() const { return shape_; }
    /// Dense, row-major, aligned to 64 bytes.
    const void *data() const { return memory_.get(); }
    /// Bytes of all elements.
    size_t bytes() const { return bytes_; }
    /// The elements. Throws DTypeError where they are of another dtype than T.
    template <Element T>
    std::span<const T> values(Location loc = Location::current()) const {
        check(dtype_of<T>, loc);
        return {static_cast<const T *>(data()), bytes_ / sizeof(T)};
    }
    /// As an input of the next program.
    operator View() const { return {data(), bytes_, dtype_, shape_}; } // NOLINT: converts

private:
    friend class Program;
    void check(DType wanted, Location loc) const;
    DType dtype_ = DType::F32;
    std::vector<int64_t> shape_;
    size_t bytes_ = 0;
    std::shared_ptr<void> memory_;
};

/// A program from a file. Copies are the same program, and draw from one stream of random numbers. Any thread
/// may call it, several at once.
class LZ_API Program {
public:
    /// No program: calling it throws StateError.
    Program() = default;

    /// Computes on the CPU, on all threads, and on the GPUs that the program names. The bits are those of the
    /// function that was saved.
    ///
    /// Throws DTypeError or ShapeError with the name of the input that does not fit (a ShapeError also where
    /// there are fewer bytes than the shape needs), StateError for another number of tensors or numbers and
    /// for a number that is part of the program and another one here, OutOfMemoryError, CudaError where a GPU
    /// is lost, and what fails while it runs, with the line of the function that was saved.
    std::vector<Array> operator()(std::span<const View> inputs, std::span<const double> numbers = {},
                                  Location loc = Location::current()) const;
    /// The same: `p({{x, {8, 64}}})`, `p({{x, {3}}}, {0.5})`.
    std::vector<Array> operator()(std::initializer_list<View> inputs,
                                  std::initializer_list<double> numbers = {},
                                  Location loc = Location::current()) const {
        return (*this)(std::span(inputs.begin(), inputs.size()), std::span(numbers.begin(), numbers.size()),
                       loc);
    }

    /// What it may be called with. Throws StateError where there is no program, as the following do.
    const std::vector<ProgramSignature> &signatures() const;
    /// As errors call it.
    const std::string &name() const;
    /// Random numbers are drawn from the beginning of this seed's stream, which `lz::manual_seed` names
    /// likewise.
    void manual_seed(uint64_t seed) const;

private:
    friend LZ_API Program load_program(const std::string &, const LoadProgramOptions &, Location);
    struct Impl;
    Impl &impl() const;
    std::shared_ptr<Impl> impl_;
};

/// As lz::load_program (program.h): the same files, the same errors.
LZ_API Program load_program(const std::string &path, const LoadProgramOptions &options = {},
                            Location loc = Location::current());

/// How many threads compute, of all programs. As many as the process may use unless it is said before the
/// first call. Throws StateError unless `threads` is above 0.
LZ_API void set_num_threads(int threads, Location loc = Location::current());

} // namespace lz::run
