#pragma once
/// Compiled functions as files: `save_program` writes what `compile` made of a function, with machine code
/// and the tensors that it captured, and `load_program` runs it in another process, which needs no compiler:
///
///     auto f = lz::compile([&](const lz::Tensor &x) { return net(x); });
///     f(lz::randn({8, 64})), f(lz::randn({8, 64}));      // two calls that record the same
///     lz::save_program("net.lzp", f, {.inputs = {"x"}});
///
///     lz::Program p = lz::load_program("net.lzp");       // in another process
///     lz::Tensor y = p({x})[0];
///
/// docs/programs-as-files.md says what can be saved, and what is in the file.

#include "lazuli/compiled.h"
#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/program_signature.h"
#include "lazuli/tensor.h"

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lz {

/// How a program is saved.
struct SaveProgramOptions {
    /// What the tensors that it takes are called, in the order in which the function's arguments have them;
    /// `input0`, `input1`, ... unless given.
    std::vector<std::string> inputs = {};
    /// Likewise of the tensors that it gives; `output0`, `output1`, ...
    std::vector<std::string> outputs = {};
    /// What the program is called in errors; the compiled function's name unless given.
    std::string name = {};
    /// A safetensors file that is there (`lz::save(net, "net.safetensors")`), or the index of several.
    /// Captured tensors that are in it, with the same dtype, shape and elements, are not written into the
    /// program file, which refers to them: by the file's name relative to its own, the tensor's name and the
    /// XXH3-128 of its elements. Several program files may share it. Other captured tensors are written, as
    /// all are unless this is given.
    std::string weights = {};
};

/// A program from a file. Copies are the same program. Any thread may call it, several at once.
class LZ_API Program {
public:
    /// No program: calling it throws StateError.
    Program() = default;

    /// Computes: dtypes, shapes and devices have to be those of one of the signatures. Results are there when
    /// it returns (those on GPUs are on their streams), with the bits that the compiled function gave;
    /// pending inputs are computed first. Random numbers are drawn from this process's default generator.
    /// Results have no gradients.
    ///
    /// Throws DTypeError, ShapeError or DeviceError with the name of the input that does not fit; StateError
    /// for another number of tensors or numbers, a number that is part of the program and another one here,
    /// and an input through which gradients would go; and what fails while it runs, with the line of the
    /// function that was saved.
    std::vector<Tensor> operator()(std::span<const Tensor> inputs, std::span<const double> numbers = {},
                                   Location loc = Location::current()) const;
    /// The same: `p({x, y})`, `p({x}, {0.5})`.
    std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs,
                                   std::initializer_list<double> numbers = {},
                                   Location loc = Location::current()) const;

    /// What it may be called with. Throws StateError where there is no program, as the following do.
    const std::vector<ProgramSignature> &signatures() const;
    /// Those of the first signature.
    const std::vector<ProgramTensor> &inputs() const { return signatures().front().inputs; }
    /// Those of the first signature.
    const std::vector<ProgramTensor> &outputs() const { return signatures().front().outputs; }
    /// As errors call it.
    const std::string &name() const;
    /// What is in the file, and what its kernels are, for people.
    std::string explain() const;

private:
    friend LZ_API Program load_program(const std::string &, const LoadProgramOptions &, Location);
    struct Impl;
    const Impl &impl() const;
    std::shared_ptr<const Impl> impl_;
};

namespace detail {
LZ_API void save_program(const std::string &path, const CompiledFunction &function,
                         const SaveProgramOptions &options, Location loc);
} // namespace detail

/// Writes what a compiled function replays, of every signature that was recorded: Programs, machine code for
/// this processor's level and for x86-64-v3, PTX and cubins of what runs on CUDA devices, and the captured
/// tensors as they are now. The file is written beside and renamed: whatever fails, what was there stays.
///
/// Throws StateError, which says why, for a function that has recorded nothing that can be replayed, changes
/// tensors that it captured or is given, sets gradients, asks the host for numbers, calls functions of the
/// process (`lz::call`), or takes values that a file does not tell apart; CompileError where there is no
/// machine code (built without LLVM; another processor than x86-64; NVRTC's errors); IoError where the file
/// cannot be written, or SaveProgramOptions::weights not read; StateError where that has none of the captured
/// tensors.
template <class F>
void save_program(const std::string &path, const Compiled<F> &function,
                  const SaveProgramOptions &options = {}, Location loc = Location::current()) {
    detail::save_program(path, detail::function_of(function), options, loc);
}

/// Reads a program. Its machine code is loaded, its constants are in memory on return, or are pages of the
/// safetensors files that it refers to. Throws IoError for a file that cannot be read, is no program file, is
/// damaged, is of another version, or may have been written by somebody else, and for a safetensors file that
/// is not there, is damaged, or has not the tensors that were there; CompileError where it has no code that
/// this processor runs; DeviceError where a GPU that it was saved for is not here, is of the other kind
/// (virtual, CUDA), too old, or lacks what it needs.
LZ_API Program load_program(const std::string &path, const LoadProgramOptions &options = {},
                            Location loc = Location::current());

} // namespace lz
