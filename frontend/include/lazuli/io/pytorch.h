#pragma once
/// Checkpoints that PyTorch saved: whole, with what is no tensor.

#include "lazuli/io.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lz::io {

/// A value of a file that `torch.save` wrote: None, bool, int, float, str, a tensor, a list (tuples, too) or
/// a dict. Copies share it.
///
///     io::PickleValue checkpoint = io::load_pytorch("run.pt");
///     net.load_state_dict(checkpoint.at("model").state_dict());
///     int64_t epoch = checkpoint.at("epoch").as_int();
class LZ_API PickleValue {
public:
    /// What it is.
    enum class Kind : uint8_t { None, Bool, Int, Float, Text, Tensor, List, Dict };

    /// None.
    PickleValue();

    /// What it is.
    Kind kind() const;
    /// Whether it is None.
    bool is_none() const { return kind() == Kind::None; }
    /// Of a bool. This and what follows throws DTypeError for another kind.
    bool as_bool(Location loc = Location::current()) const;
    /// Of an int or a bool.
    int64_t as_int(Location loc = Location::current()) const;
    /// Of a float or an int.
    double as_double(Location loc = Location::current()) const;
    /// Of a str.
    const std::string &as_text(Location loc = Location::current()) const;
    /// Of a tensor.
    const Tensor &as_tensor(Location loc = Location::current()) const;
    /// Of a list or a tuple.
    const std::vector<PickleValue> &list(Location loc = Location::current()) const;
    /// Keys and values of a dict, in order.
    const std::vector<std::pair<PickleValue, PickleValue>> &items(Location loc = Location::current()) const;
    /// The value of a key of a dict; nullptr where there is none.
    const PickleValue *find(std::string_view key, Location loc = Location::current()) const;
    /// The same. Throws IndexError where there is none.
    const PickleValue &at(std::string_view key, Location loc = Location::current()) const;
    /// An entry of a list, or of a dict with ints as keys. Throws IndexError where there is none.
    const PickleValue &at(int64_t index, Location loc = Location::current()) const;
    /// All tensors in it, by their keys joined by dots (`optimizer.state.0.exp_avg`); of a tensor itself:
    /// "tensor". A number is a tensor without axes, a list of numbers has one: of bool, i64 or f64, on the
    /// CPU. None and text are left out. Throws StateError where two would have one name.
    StateDict state_dict(Location loc = Location::current()) const;

    /// What it is made of, behind the functions above.
    struct Data;
    /// Of the reader.
    explicit PickleValue(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

private:
    const Data &of(Kind kind, Location loc) const;
    std::shared_ptr<const Data> data_;
};

/// Reads what `torch.save` of PyTorch 1.6 or newer wrote: tensors in dicts, lists and tuples with numbers and
/// text. Nothing of Python is run: a file that names any other class or function is an IoError. Throws as
/// `load`.
[[nodiscard]] LZ_API PickleValue load_pytorch(const std::string &path, const LoadOptions &options = {},
                                              Location loc = Location::current());

} // namespace lz::io
