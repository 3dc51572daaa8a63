#include "frontend/io/pickle.h"
#include "lazuli/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lz::io {

namespace {

using Kind = PickleValue::Kind;
constexpr std::array<const char *, 8> kNames = {"None",  "a bool",   "an int", "a float",
                                                "a str", "a tensor", "a list", "a dict"};

/// On the CPU: of bools, of ints, or of floats and ints.
Tensor tensor_of(const std::vector<PickleValue> &numbers, const Sizes &sizes) {
    const TensorOptions host = {.device = Device::cpu()};
    const auto all = [&](Kind kind) {
        return std::ranges::all_of(numbers, [&](const PickleValue &n) { return n.kind() == kind; });
    };
    if (all(Kind::Bool)) {
        std::vector<bool> values;
        for (const PickleValue &n : numbers)
            values.push_back(n.as_bool());
        return tensor<bool>(values, sizes, host);
    }
    if (all(Kind::Int)) {
        std::vector<int64_t> values;
        for (const PickleValue &n : numbers)
            values.push_back(n.as_int());
        return tensor<int64_t>(values, sizes, host);
    }
    std::vector<double> values;
    for (const PickleValue &n : numbers)
        values.push_back(n.kind() == Kind::Bool ? static_cast<double>(n.as_bool()) : n.as_double());
    return tensor<double>(values, sizes, host);
}

bool is_number(const PickleValue &value) {
    return value.kind() == Kind::Bool || value.kind() == Kind::Int || value.kind() == Kind::Float;
}

/// Adds the tensors and numbers of `value` under `name`.
class Names {
public:
    explicit Names(Location loc) : loc_(loc) {}
    StateDict take() { return std::move(out_); }

    void add(const PickleValue &value, const std::string &name) {
        constexpr int64_t kMost = 10'000'000; // lists of lists that share their entries
        if (++visited_ > kMost)
            throw IoError(
                fmt::format("state_dict: more than {} values, counting shared ones each time", kMost), loc_);
        const auto inner = [&](const std::string &key) { return name.empty() ? key : name + "." + key; };
        if (value.kind() == Kind::Tensor) {
            insert(name, value.as_tensor());
        } else if (is_number(value)) {
            insert(name, tensor_of({value}, {}));
        } else if (value.kind() == Kind::List && !value.list().empty() &&
                   std::ranges::all_of(value.list(), is_number)) {
            insert(name, tensor_of(value.list(), {static_cast<int64_t>(value.list().size())}));
        } else if (value.kind() == Kind::List) {
            for (size_t i = 0; i < value.list().size(); ++i)
                add(value.list()[i], inner(std::to_string(i)));
        } else if (value.kind() == Kind::Dict) {
            for (const auto &[key, item] : value.items())
                if (key.kind() == Kind::Text)
                    add(item, inner(key.as_text()));
                else if (key.kind() == Kind::Int)
                    add(item, inner(std::to_string(key.as_int())));
        }
    }

private:
    void insert(const std::string &name, const Tensor &tensor) {
        const std::string full = name.empty() ? "tensor" : name;
        if (out_.contains(full))
            throw StateError(fmt::format("state_dict: two tensors would be named {}", in_quotes(full)), loc_);
        out_.insert(full, tensor);
    }

    Location loc_;
    StateDict out_;
    int64_t visited_ = 0;
};

} // namespace

PickleValue::PickleValue() : data_(std::make_shared<const Data>()) {}

Kind PickleValue::kind() const {
    return data_->kind;
}

const PickleValue::Data &PickleValue::of(Kind kind, Location loc) const {
    if (data_->kind != kind)
        throw DTypeError(fmt::format("PickleValue: this is {}, and not {}",
                                     kNames[static_cast<size_t>(data_->kind)],
                                     kNames[static_cast<size_t>(kind)]),
                         loc);
    return *data_;
}

bool PickleValue::as_bool(Location loc) const {
    return of(Kind::Bool, loc).number != 0;
}
int64_t PickleValue::as_int(Location loc) const {
    return of(kind() == Kind::Bool ? Kind::Bool : Kind::Int, loc).number;
}
double PickleValue::as_double(Location loc) const {
    return kind() == Kind::Int ? static_cast<double>(data_->number) : of(Kind::Float, loc).real;
}
const std::string &PickleValue::as_text(Location loc) const {
    return of(Kind::Text, loc).text;
}
const Tensor &PickleValue::as_tensor(Location loc) const {
    return of(Kind::Tensor, loc).tensor;
}
const std::vector<PickleValue> &PickleValue::list(Location loc) const {
    return of(Kind::List, loc).list;
}
const std::vector<std::pair<PickleValue, PickleValue>> &PickleValue::items(Location loc) const {
    return of(Kind::Dict, loc).items;
}
const PickleValue *PickleValue::find(std::string_view key, Location loc) const {
    const PickleValue *found = nullptr; // the last one counts, as in Python
    for (const auto &[name, value] : items(loc))
        if (name.kind() == Kind::Text && name.as_text() == key)
            found = &value;
    return found;
}
const PickleValue &PickleValue::at(std::string_view key, Location loc) const {
    if (const PickleValue *const found = find(key, loc))
        return *found;
    throw IndexError(
        fmt::format("PickleValue: there is no {} among {} keys", in_quotes(key), data_->items.size()), loc);
}
const PickleValue &PickleValue::at(int64_t index, Location loc) const {
    if (kind() == Kind::Dict) {
        const PickleValue *found = nullptr;
        for (const auto &[name, value] : data_->items)
            if (name.kind() == Kind::Int && name.as_int() == index)
                found = &value;
        if (found)
            return *found;
        throw IndexError(fmt::format("PickleValue: there is no key {} among {}", index, data_->items.size()),
                         loc);
    }
    const std::vector<PickleValue> &entries = list(loc);
    if (index < 0 || index >= static_cast<int64_t>(entries.size()))
        throw IndexError(fmt::format("PickleValue: there is no entry {} among {}", index, entries.size()),
                         loc);
    return entries[static_cast<size_t>(index)];
}
StateDict PickleValue::state_dict(Location loc) const {
    Names names(loc);
    names.add(*this, "");
    return names.take();
}

} // namespace lz::io
