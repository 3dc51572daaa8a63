#pragma once
/// Files of tensors: what `save` writes and `load` reads. The functions of each format are in io/.

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/core/options.h"
#include "lazuli/core/ordered_dict.h"
#include "lazuli/io/archive.h"

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lz {

/// How a file is read.
struct LoadOptions {
    /// Where the tensors go; the CPU unless given, whatever device they were saved from.
    OptionalDevice device = std::nullopt;
    /// Tensors on the CPU are the file's own pages, read when they are first used: loading copies nothing.
    /// The file may be replaced or removed meanwhile (`save` replaces), but must not be cut short or written
    /// to in place. false: the file is read into memory at once.
    bool memory_map = true;
    /// The most that packed files (.npz) and views (.pt) may become in memory; 0: what the host has free.
    /// More is an IoError, before memory is taken.
    int64_t max_unpacked_bytes = 0;
};

/// How a file is written.
struct SaveOptions {
    /// Text beside the tensors: safetensors only.
    std::map<std::string, std::string> metadata = {};
    /// Above so many bytes of tensors: several files `x-00001-of-00003.safetensors`, and
    /// `x.safetensors.index.json`, which is what is loaded. 0: one file.
    int64_t max_shard_bytes = 0;
    /// Deflates: .npz only.
    bool compress = false;
};

/// Writes the tensors, from any device, in the format that the path ends with: `.safetensors`, `.pt` (or
/// `.pth`: what `torch.load` reads, a dictionary with these names), `.npz`, or `.npy` for a dictionary of one
/// tensor; safetensors where it ends with none of these. Computes them first. The file is written beside and
/// renamed when all of it is on the disk: whatever fails, a file that was there stays as it was. Throws
/// IoError where a file cannot be written or the format does not have a dtype or name, and StateError for an
/// undefined tensor.
LZ_API void save(const StateDict &tensors, const std::string &path, const SaveOptions &options = {},
                 Location loc = Location::current());
/// One tensor: named "tensor" in formats that have names.
LZ_API void save(const Tensor &tensor, const std::string &path, const SaveOptions &options = {},
                 Location loc = Location::current());
/// Several tensors: named "0", "1" and so on.
LZ_API void save(const std::vector<Tensor> &tensors, const std::string &path, const SaveOptions &options = {},
                 Location loc = Location::current());
/// Writes to a stream, in the format of safetensors. Throws as above, and IoError for options that need
/// files (`max_shard_bytes`) and for a stream that fails.
LZ_API void save(const StateDict &tensors, std::ostream &stream, const SaveOptions &options = {},
                 Location loc = Location::current());
/// One tensor, named "tensor".
LZ_API void save(const Tensor &tensor, std::ostream &stream, const SaveOptions &options = {},
                 Location loc = Location::current());
/// Several tensors: named "0", "1" and so on.
LZ_API void save(const std::vector<Tensor> &tensors, std::ostream &stream, const SaveOptions &options = {},
                 Location loc = Location::current());

/// Reads all tensors of a file, whose format is found by its first bytes: safetensors, an index of several
/// such files (`.index.json`), `.npz`, `.npy` (its tensor is named "tensor"), or a state dict that PyTorch
/// saved (`.pt`; nested names are joined by dots). On return all of it is there, on the device asked for.
/// Throws IoError, which names the file and what is wrong with it, for a file that cannot be read, is damaged
/// or says what cannot be true, and for dtypes that there are not here.
[[nodiscard]] LZ_API StateDict load(const std::string &path, const LoadOptions &options = {},
                                    Location loc = Location::current());
/// The tensor of a file that has one. Throws IoError for a file with more or none, otherwise as `load`.
[[nodiscard]] LZ_API Tensor load_tensor(const std::string &path, const LoadOptions &options = {},
                                        Location loc = Location::current());
/// What a stream has from where it is to its end, as if it were a file. Throws as `load`, and IoError for an
/// index of several files.
[[nodiscard]] LZ_API StateDict load(std::istream &stream, const LoadOptions &options = {},
                                    Location loc = Location::current());
/// From now on `tensor` is a handle of the one tensor in the file. Throws as `load_tensor`, and is then what
/// it was.
LZ_API void load(Tensor &tensor, const std::string &path, const LoadOptions &options = {},
                 Location loc = Location::current());
/// The same of a stream.
LZ_API void load(Tensor &tensor, std::istream &stream, const LoadOptions &options = {},
                 Location loc = Location::current());
/// From now on `tensors` are those of the file, in its order.
LZ_API void load(std::vector<Tensor> &tensors, const std::string &path, const LoadOptions &options = {},
                 Location loc = Location::current());
/// The same of a stream.
LZ_API void load(std::vector<Tensor> &tensors, std::istream &stream, const LoadOptions &options = {},
                 Location loc = Location::current());

namespace detail {

/// With the caller's line where `load_state_dict` takes one.
template <class T>
void load_into(T &into, const StateDict &dict, Location loc) {
    if constexpr (requires { into.load_state_dict(dict, loc); })
        into.load_state_dict(dict, loc);
    else if constexpr (requires { into.load_state_dict(dict, true, loc); })
        into.load_state_dict(dict, true, loc);
    else
        into.load_state_dict(dict);
}

} // namespace detail

/// Modules, optimizers, and what else has `state_dict()`.
template <class T>
concept HasStateDict = requires(const T &x) {
    { x.state_dict() } -> std::convertible_to<StateDict>;
};
/// The same with `load_state_dict(dict)`.
template <class T>
concept LoadsStateDict = requires(T &x, const StateDict &dict) { x.load_state_dict(dict); };

/// Holders of modules, and other pointers to what has `state_dict()`.
template <class T>
concept PointsToStateDict = !HasStateDict<T> && requires(const T &x) {
    { x->state_dict() } -> std::convertible_to<StateDict>;
};

/// Saves what `state_dict()` gives.
template <HasStateDict T>
void save(const T &from, const std::string &path, const SaveOptions &options = {},
          Location loc = Location::current()) {
    save(static_cast<const StateDict &>(from.state_dict()), path, options, loc);
}
/// The same of what is held: `save(net, "net.safetensors")`.
template <PointsToStateDict T>
void save(const T &from, const std::string &path, const SaveOptions &options = {},
          Location loc = Location::current()) {
    save(static_cast<const StateDict &>(from->state_dict()), path, options, loc);
}
/// Gives `load_state_dict` what is in the file.
template <LoadsStateDict T>
void load(T &into, const std::string &path, const LoadOptions &options = {},
          Location loc = Location::current()) {
    detail::load_into(into, load(path, options, loc), loc);
}
/// The same of what is held: `load(net, "net.safetensors")`.
template <PointsToStateDict T>
void load(const T &into, const std::string &path, const LoadOptions &options = {},
          Location loc = Location::current()) {
    detail::load_into(*into, load(path, options, loc), loc);
}

/// Writes to a stream what `state_dict()` gives.
template <HasStateDict T>
void save(const T &from, std::ostream &stream, const SaveOptions &options = {},
          Location loc = Location::current()) {
    save(static_cast<const StateDict &>(from.state_dict()), stream, options, loc);
}
/// The same of what is held.
template <PointsToStateDict T>
void save(const T &from, std::ostream &stream, const SaveOptions &options = {},
          Location loc = Location::current()) {
    save(static_cast<const StateDict &>(from->state_dict()), stream, options, loc);
}
/// Gives `load_state_dict` what is in the stream.
template <LoadsStateDict T>
void load(T &into, std::istream &stream, const LoadOptions &options = {},
          Location loc = Location::current()) {
    detail::load_into(into, load(stream, options, loc), loc);
}
/// The same of what is held.
template <PointsToStateDict T>
void load(const T &into, std::istream &stream, const LoadOptions &options = {},
          Location loc = Location::current()) {
    detail::load_into(*into, load(stream, options, loc), loc);
}

/// With a device in place of options, of a path or a stream: `load(net, "net.pt", kCPU)`. A module's
/// parameters stay where the module is; a tensor goes there.
template <class T, class From, class D>
    requires(std::is_convertible_v<const D &, Device> && !std::is_arithmetic_v<D> &&
             requires(T &&into, From &&from, const LoadOptions &options) { load(into, from, options); })
void load(T &&into, From &&from, const D &device, Location loc = Location::current()) {
    load(into, from, LoadOptions{.device = OptionalDevice(device, loc)}, loc);
}

} // namespace lz
