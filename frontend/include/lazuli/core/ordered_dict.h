#pragma once
/// Values by name, in the order in which they came: what modules and optimizers are saved as.

#include "lazuli/core/error.h"
#include "lazuli/core/location.h"
#include "lazuli/tensor.h"

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lz {

/// `OrderedDict<Value>`, or as LibTorch writes it `OrderedDict<std::string, Value>`.
template <class First, class Second = void>
class OrderedDict;

/// A map from names to values that is walked in the order of insertion, as PyTorch's state dicts are:
///
///     for (const auto &[name, value] : dict) { ... }
template <class Value>
class OrderedDict<Value, void> {
public:
    /// What is walked: a name and its value.
    class Item : public std::pair<std::string, Value> {
    public:
        using std::pair<std::string, Value>::pair;
        /// The name.
        const std::string &key() const noexcept { return this->first; }
        /// The value.
        Value &value() noexcept { return this->second; }
        const Value &value() const noexcept { return this->second; }
        /// The value.
        Value &operator*() noexcept { return this->second; }
        const Value &operator*() const noexcept { return this->second; }
        Value *operator->() noexcept { return &this->second; }
        const Value *operator->() const noexcept { return &this->second; }
    };

    OrderedDict() = default;
    /// In this order. Throws as insert.
    OrderedDict(std::initializer_list<Item> items, Location loc = Location::current()) {
        for (const Item &item : items)
            insert(item.first, item.second, loc);
    }

    /// At the end. Throws StateError if there is a value of this name.
    Value &insert(std::string name, Value value, Location loc = Location::current()) {
        if (!places_.emplace(name, items_.size()).second)
            throw StateError("OrderedDict: there is a value named \"" + name + "\" already", loc);
        return items_.emplace_back(std::move(name), std::move(value)).second;
    }
    /// In place of the value of this name, or at the end.
    Value &insert_or_assign(std::string name, Value value) {
        if (Value *there = find(name))
            return *there = std::move(value);
        places_.emplace(name, items_.size());
        return items_.emplace_back(std::move(name), std::move(value)).second;
    }
    /// Takes the value of this name out, if there is one; those behind it move up.
    bool erase(std::string_view name) {
        const auto place = places_.find(std::string(name));
        if (place == places_.end())
            return false;
        const size_t at = place->second;
        places_.erase(place);
        items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at));
        for (auto &[other, index] : places_)
            index -= index > at ? 1 : 0;
        return true;
    }

    /// The value of this name; nullptr where there is none.
    Value *find(std::string_view name) { return const_cast<Value *>(std::as_const(*this).find(name)); }
    const Value *find(std::string_view name) const {
        const auto place = places_.find(std::string(name));
        return place == places_.end() ? nullptr : &items_[place->second].second;
    }
    /// Whether there is a value of this name.
    bool contains(std::string_view name) const { return find(name) != nullptr; }
    /// The value of this name. Throws IndexError where there is none.
    Value &at(std::string_view name, Location loc = Location::current()) {
        return const_cast<Value &>(std::as_const(*this).at(name, loc));
    }
    const Value &at(std::string_view name, Location loc = Location::current()) const {
        if (const Value *there = find(name))
            return *there;
        throw IndexError("OrderedDict: there is no value named \"" + std::string(name) + "\" among " +
                             std::to_string(size()),
                         loc);
    }
    /// As `at`.
    Value &operator[](std::string_view name) { return at(name); }
    /// As `at`.
    const Value &operator[](std::string_view name) const { return at(name); }

    /// The part whose names begin with `prefix` and a dot, without them: what a file has for a module inside,
    /// `net->encoder->load_state_dict(lz::load("net.pt").part("encoder"))`. Throws IndexError where there is
    /// no such name.
    OrderedDict part(std::string_view prefix, Location loc = Location::current()) const {
        const std::string begin = std::string(prefix) + ".";
        OrderedDict found;
        for (const Item &item : items_)
            if (item.first.starts_with(begin))
                found.insert(item.first.substr(begin.size()), item.second, loc);
        if (found.empty())
            throw IndexError("OrderedDict: there is no name that begins with \"" + begin + "\" among " +
                                 std::to_string(size()),
                             loc);
        return found;
    }
    /// The values of another one, with `prefix` and a dot in front of their names if one is given, at the
    /// end. Throws as insert.
    void add_part(const OrderedDict &other, std::string_view prefix = {},
                  Location loc = Location::current()) {
        for (const Item &item : other)
            insert(prefix.empty() ? item.first : std::string(prefix) + "." + item.first, item.second, loc);
    }

    /// How many values there are.
    size_t size() const { return items_.size(); }
    /// LibTorch's name of `empty`.
    bool is_empty() const { return items_.empty(); }
    /// Whether there is none.
    bool empty() const { return items_.empty(); }
    /// The values with their names, in order.
    const std::vector<Item> &items() const { return items_; }
    /// The same, as LibTorch has them.
    std::vector<std::pair<std::string, Value>> pairs() const { return {items_.begin(), items_.end()}; }
    /// The names, in order.
    std::vector<std::string> keys() const {
        std::vector<std::string> names;
        names.reserve(size());
        for (const Item &item : items_)
            names.push_back(item.first);
        return names;
    }
    /// The values, in order.
    std::vector<Value> values() const {
        std::vector<Value> all;
        all.reserve(size());
        for (const Item &item : items_)
            all.push_back(item.second);
        return all;
    }

    /// The values with their names, in order.
    auto begin() { return items_.begin(); }
    /// Their end.
    auto end() { return items_.end(); }
    /// The values with their names, in order.
    auto begin() const { return items_.begin(); }
    /// Their end.
    auto end() const { return items_.end(); }

private:
    std::vector<Item> items_;
    std::unordered_map<std::string, size_t> places_;
};

/// LibTorch's spelling: names are strings here, always. Made of the other one, and taken where that is taken.
template <class Value>
    requires(!std::is_void_v<Value>)
class OrderedDict<std::string, Value> : public OrderedDict<Value> {
public:
    using OrderedDict<Value>::OrderedDict;
    OrderedDict() = default;
    /// A copy.
    OrderedDict(OrderedDict<Value> values) : OrderedDict<Value>(std::move(values)) {} // NOLINT: converts
};

/// Tensors by name: of a module, an optimizer, a file.
using StateDict = OrderedDict<Tensor>;

} // namespace lz
