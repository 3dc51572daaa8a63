#pragma once
/// What a program file (`.lzp`) holds: compiled functions with everything that running them needs but a
/// compiler. docs/programs-as-files.md describes the layout.
///
/// A file is: a header with a version and a checksum over all of it; a table of sections; a manifest, which
/// refers to the others; texts of graphs and Programs; machine code; constants, unless a safetensors file has
/// them.

#include "ir/kernel/compiled_kernel.h"
#include "ir/location.h"
#include "ir/program/number_form.h"
#include "ir/saved/isa_level.h"
#include "ir/types/type.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lz::ir {

/// Another one for every change of this layout, of the text of Programs, of what machine code finds in its
/// frame (KernelFrame) or calls, of how CUDA devices launch it (CompiledPhase), of the arguments of library
/// functions, and of what kernels of theirs are made of beside their texts (codegen/cuda/prelude.h).
inline constexpr uint32_t kProgramFileVersion = 8;
/// The oldest version that is read. A file is written in the oldest one that has what is in it, so that older
/// libraries load it. Of the changes above only those of this layout leave it as it is: code that was made
/// for another frame is not run.
inline constexpr uint32_t kOldestProgramFileVersion = 8;
/// The first bytes of a file. The line ends show a file that was transferred as text.
inline constexpr std::string_view kProgramFileMagic{"LZPROG\r\n", 8};
/// Bytes at the beginning of a file that say what it is.
inline constexpr size_t kProgramFileHeader = 64;
/// Throws Failure(Io) unless a file of so many bytes that begins so is a program file of a version that is
/// read: to be asked before the rest is.
void check_program_file_begin(std::span<const std::byte> begin, uint64_t file_bytes);

inline constexpr uint32_t kNothing = UINT32_MAX;

/// An argument or a result of a call.
struct SavedTensor {
    std::string name;
    TensorType type;
};
/// A number that a call is given.
struct SavedNumber {
    double value = 0; ///< when it was recorded
    bool any = false; ///< else it has to be that, to the bit
};
/// What the Program reads. One of the two is kNothing.
struct SavedInput {
    uint32_t argument = kNothing, constant = kNothing;
};
/// A word of the Program that is another one at each call.
struct SavedWord {
    enum class Kind : uint8_t { Seed, Offset, Number, Element };
    uint32_t at = 0;
    Kind kind = Kind::Seed;
    uint32_t of = 0; ///< draw, number of the call, or argument of one element
    NumberForm form = NumberForm::Itself;
};
/// A value that a call leaves behind. One of the two is kNothing.
struct SavedValue {
    uint32_t result = kNothing;   ///< of the Program
    uint32_t argument = kNothing; ///< its elements, in this shape
    TensorType type;
    Location loc;
};
/// A result of the call. Nothing set: an empty tensor.
struct SavedOutput {
    uint32_t value = kNothing;    ///< of SavedPlan::values
    uint32_t argument = kNothing; ///< the very tensor
    uint32_t output = kNothing;   ///< the very tensor that an earlier result is
    SavedTensor tensor;           ///< unless it is empty
};
/// An operation that may fail while it runs.
struct SavedOperation {
    std::string op; ///< as Op is spelled
    Location loc;
};

/// A Program for one kind of processor.
struct SavedVariant {
    IsaLevel level = IsaLevel::V3;
    bool any_processor = false; ///< it has no code for the host, and `level` says nothing
    std::string program;        ///< text
    /// By kernel of the Program: code of it, of SavedProgram::code; none: it is not run. Of code for the host
    /// there is one, of code for CUDA devices one for each kind of device.
    std::vector<std::vector<uint32_t>> code;
};

/// What calls of one signature do.
struct SavedPlan {
    std::vector<SavedTensor> arguments;
    std::vector<SavedNumber> numbers;
    std::vector<SavedInput> inputs;  ///< of the Program
    std::vector<TensorType> results; ///< of the Program
    std::vector<SavedValue> values;
    std::vector<SavedOutput> outputs; ///< of the call
    std::vector<int64_t> words;       ///< of the Program
    std::vector<SavedWord> again;
    std::vector<int64_t> draws; ///< how many random words each takes
    std::vector<SavedOperation> operations;
    std::string graph;                  ///< text
    std::vector<SavedVariant> variants; ///< the most demanding first
};

/// Whether CUDA devices run it.
inline bool is_cuda(CodeFormat format) {
    return format == CodeFormat::Cubin || format == CodeFormat::Ptx;
}

/// A kernel for one kind of device.
struct SavedCode : CompiledKernel {
    uint32_t sm = 0; ///< Cubin, Ptx: the compute capability that it was made for, 90 for 9.0; else 0
    /// Of SavedProgram::code: for the launches that this is not for, of the same format and capability;
    /// kNothing where its phases have no alignments.
    uint32_t unaligned = kNothing;
};

/// A kernel that the library has as text, and launches on CUDA devices itself.
struct SavedLibraryKernel {
    std::string name;           ///< for people
    uint64_t source = 0;        ///< a hash of the text
    std::vector<uint32_t> code; ///< of SavedProgram::code, as of a kernel
};

/// A GPU that Programs of the file use, as it was where they were saved.
struct SavedDevice {
    Device device;
    bool is_virtual = false; ///< threads of the host, which run its code
    uint32_t sm = 0;         ///< compute capability, 90 for 9.0; 0: virtual
    std::string name;        ///< for people: `NVIDIA H200`
};

/// A tensor of a safetensors file, which has the dtype and shape of the constant that it is.
struct SavedReference {
    uint32_t file = kNothing; ///< of SavedProgram::weights; kNothing: no reference
    std::string tensor;       ///< its name there
    /// XXH3-128 of its elements, big-endian, as that hash is written down.
    std::array<std::byte, 16> hash{};
};

/// Dense elements, on the host here; `type` says where they go.
struct SavedConstant {
    TensorType type;
    /// Dense, row-major; of the file, or of whoever made this. Of a reference nothing, until they are found
    /// (runtime/saved/weights.h).
    std::span<const std::byte> bytes;
    SavedReference from = {};
};

struct SavedProgram {
    std::string name;
    std::string made_by; ///< versions, for people
    std::vector<SavedPlan> plans;
    std::vector<SavedDevice> devices; ///< ascending
    std::vector<SavedCode> code;      ///< shared by variants
    std::vector<SavedLibraryKernel> library;
    std::vector<std::string> weights; ///< safetensors files: paths from the folder that this file is in
    std::vector<SavedConstant> constants;
};

/// The bytes of the file.
std::vector<std::byte> write_saved(const SavedProgram &program);
/// What they hold. `file` stays while the result is used. Throws Failure(Io), a sentence that goes on after
/// the file's name (`is damaged: ...`), for everything that `write_saved` would not have made.
SavedProgram read_saved(std::span<const std::byte> file);

/// What is in a file, for people: signatures, devices, code and constants, with their sizes.
std::string describe(const SavedProgram &program);

/// The most demanding variant that this processor runs, or null.
const SavedVariant *best_variant(const SavedPlan &plan);
/// What of `code` a CUDA device of compute capability `sm` runs: a cubin of its generation, else PTX of no
/// newer one; null: none.
const SavedCode *best_code(std::span<const SavedCode *const> code, uint32_t sm);

} // namespace lz::ir
