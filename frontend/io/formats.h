#pragma once
/// The formats: each reader takes any bytes and gives tensors on the CPU or fails through its source.

#include "frontend/io/source.h"
#include "frontend/io/zip.h"
#include "lazuli/io/pytorch.h"
#include "lazuli/io/safetensors.h"

#include <functional>

namespace lz::io {

/// By the first bytes, as `load` of a path. What other files an index names, is read beside `source.name`.
StateDict read_any(const Source &source, const LoadOptions &options);

/// Whether it is an index of safetensors files, and none of these, whose first byte may be anything.
bool is_safetensors_index(const Source &source);
StateDict read_safetensors(const Source &source, SafetensorsInfo *info = nullptr);
StateDict read_safetensors_index(const Source &source, const LoadOptions &options,
                                 SafetensorsInfo *info = nullptr);
Tensor read_npy(const Source &source, Budget &budget);
StateDict read_npz(const Source &source, const ZipReader &archive, Budget &budget);

/// The pickle in an archive of PyTorch's; nullptr where there is none.
const ZipEntry *pickle_of(const ZipReader &archive);
/// Each tensor is what `place` gives for it.
PickleValue read_pytorch(const Source &source, const ZipReader &archive, Budget &budget,
                         const std::function<Tensor(const Tensor &)> &place);
/// Whether it is a file of before PyTorch 1.6, which is no archive.
bool is_old_pytorch(const Source &source);
inline constexpr const char *kOldPytorch =
    "it is in the format of before PyTorch 1.6; load it in Python and save it again";

/// Of a tensor that has been computed, on the CPU.
std::span<const std::byte> elements_of(const Tensor &host, Location loc);

void write_safetensors(const StateDict &tensors, const std::string &path, const SaveOptions &options,
                       Location loc);
/// One file, to a stream.
void write_safetensors(const StateDict &tensors, std::ostream &stream, const SaveOptions &options,
                       Location loc);
void write_npy(const StateDict &tensors, const std::string &path, Location loc);
/// A state dict, as torch.save would.
void write_pytorch(const StateDict &tensors, const std::string &path, Location loc);
void write_npz(const StateDict &tensors, const std::string &path, bool compress, Location loc);

} // namespace lz::io
