#pragma once
/// Safetensors files (https://github.com/huggingface/safetensors) that program files refer to. The public API
/// makes tensors of such files (lazuli/io.h), which liblazuli-run.so does not have; here they are bytes.

#include "ir/types/dtype.h"
#include "runtime/saved/open_file.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lz::runtime {

/// One tensor of such a file.
struct WeightsTensor {
    std::string name;
    std::string type;               ///< for people: `f32[4,16]`, or `F8_E4M3[4,16]`
    std::optional<ir::DType> dtype; ///< nothing: one that there is not here
    std::vector<int64_t> extents;
    uint64_t begin = 0, bytes = 0; ///< of its elements, in the file
};

/// A file whose header was read and fits its size. It stays the file that was opened when another one takes
/// its place. Any thread.
class WeightsFile {
public:
    /// Reads the header. Throws Failure(Io), a sentence that goes on after the file's name, where it cannot
    /// be read, is none, is cut short, or says what cannot be.
    explicit WeightsFile(const std::string &path);

    /// In the order in which their elements lie.
    const std::vector<WeightsTensor> &tensors() const { return tensors_; }
    /// By name; null: there is none.
    const WeightsTensor *find(std::string_view name) const;
    /// Reads elements. Throws Failure(Io) where the file became shorter.
    void read(const WeightsTensor &tensor, std::span<std::byte> to) const { file_.read(to, tensor.begin); }
    /// The pages of the whole file, which are read when they are first used; they stay as long as the
    /// pointer. Nobody may cut the file short meanwhile. Throws Failure(Io).
    std::shared_ptr<const std::byte> map() const;

private:
    ReadFile file_;
    std::vector<WeightsTensor> tensors_;
    std::unordered_map<std::string_view, size_t> by_name_;
};

/// Of a name that may hold anything, cut short and on one line: `"a.weight"`.
std::string in_quotes(std::string_view name);

/// Of an index of several such files (`model.safetensors.index.json`) their names, each once; nothing where
/// the file is no index. Throws Failure(Io) as above.
std::optional<std::vector<std::string>> read_weights_index(const std::string &path);

} // namespace lz::runtime
