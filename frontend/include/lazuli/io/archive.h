#pragma once
/// Archives: tensors by name, and archives within archives, as LibTorch's programs write and read them:
///
///     lz::serialize::OutputArchive archive, optimizer_archive;
///     net->save(archive);
///     optimizer.save(optimizer_archive);
///     archive.write("optimizer", optimizer_archive);
///     archive.save_to("run.pt");
///
/// An archive within another one is its names with a prefix and a dot, so that files are those of `save` and
/// `load` (io.h), in any of the formats, and Python reads them.

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"
#include "lazuli/core/options.h"
#include "lazuli/core/ordered_dict.h"

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace lz {
/// LibTorch's archives.
namespace serialize {

/// Tensors on their way to a file.
class LZ_API OutputArchive {
public:
    /// Adds the tensor as it is now: later changes do not show. `is_buffer` makes no difference. Throws
    /// StateError for an empty tensor and a name that is there already.
    void write(const std::string &key, const Tensor &tensor, bool is_buffer = false,
               Location loc = Location::current());
    /// Adds all that the other archive has now, as a part named `key`. Throws StateError where one of the
    /// names is there already; then nothing was added.
    void write(const std::string &key, const OutputArchive &nested, Location loc = Location::current());
    /// Adds all of these as they are now. Throws StateError for an empty tensor and where one of the names is
    /// there already; then nothing was added.
    void write(const StateDict &tensors, Location loc = Location::current());
    /// Writes the file, as `save` (io.h), in the format that the path ends with.
    void save_to(const std::string &path, Location loc = Location::current()) const;
    /// Writes to a stream, in the format of safetensors.
    void save_to(std::ostream &stream, Location loc = Location::current()) const;
    /// What was written so far; names of nested archives are joined by dots.
    const StateDict &tensors() const noexcept { return tensors_; }

private:
    StateDict tensors_;
};

/// Tensors of a file.
class LZ_API InputArchive {
public:
    /// From now on it has the tensors of this file, on `device` (the CPU unless given). Throws as `load`
    /// (io.h), and has then what it had.
    void load_from(const std::string &path, const OptionalDevice &device = std::nullopt,
                   Location loc = Location::current());
    /// The same of a stream.
    void load_from(std::istream &stream, const OptionalDevice &device = std::nullopt,
                   Location loc = Location::current());
    /// The same of a file that is in memory, which is copied.
    void load_from(const char *data, size_t size, const OptionalDevice &device = std::nullopt,
                   Location loc = Location::current());

    /// `tensor` gets the values of this name: an empty handle becomes one of them; a tensor that is there
    /// takes them over on its own device, for all who have a handle of it (Tensor::set_data). `is_buffer`
    /// makes no difference. Throws StateError where there is no such name.
    void read(const std::string &key, Tensor &tensor, bool is_buffer = false,
              Location loc = Location::current()) const;
    /// `archive` becomes the part of this name. Throws StateError where there is no such part.
    void read(const std::string &key, InputArchive &archive, Location loc = Location::current()) const;
    /// As `read`; false, and nothing has changed, where there is no such name.
    bool try_read(const std::string &key, Tensor &tensor, bool is_buffer = false,
                  Location loc = Location::current()) const;
    /// As `read`; false, and nothing has changed, where there is no such part.
    bool try_read(const std::string &key, InputArchive &archive, Location loc = Location::current()) const;
    /// The names of tensors and of nested archives, in order.
    std::vector<std::string> keys() const;
    /// All of it; names of nested archives are joined by dots.
    const StateDict &tensors() const noexcept { return tensors_; }

private:
    StateDict tensors_;
};

} // namespace serialize
} // namespace lz
