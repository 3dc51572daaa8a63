#pragma once
/// What random graphs are made of: values with known bounds, leaves, clamps. Internal to `random_graph*`.

#include "ir/graph/builder.h"
#include "ir/graph/infer/infer.h"
#include "ir/interpreter/interpreter.h"
#include "tests/support/random/graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace lz::test {

using namespace ir;

/// A value with bounds of what it holds and of how far two right implementations may be apart.
struct Item {
    ValueId id;
    double low, high;
    double error; ///< 0: equal bits
    double magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }
};

/// Values are kept inside of this where an op lets them grow.
constexpr double kFar = 1000;

/// Half the distance of 1 to the next number.
inline double unit(DType dtype) {
    switch (dtype) {
    case DType::F16:
        return 0x1p-11;
    case DType::BF16:
        return 0x1p-8;
    case DType::F32:
        return 0x1p-24;
    default:
        return 0x1p-53;
    }
}

using Words = std::vector<int64_t>;

inline Words counted(const Words &entries) {
    Words words{static_cast<int64_t>(entries.size())};
    words.insert(words.end(), entries.begin(), entries.end());
    return words;
}

inline Words joined(std::initializer_list<Words> lists) {
    Words words;
    for (const Words &list : lists)
        words.insert(words.end(), list.begin(), list.end());
    return words;
}

/// The graph that grows, and the values in it that later nodes may use.
class RandomValues {
protected:
    RandomValues(uint64_t seed, const RandomGraphOptions &options) : o_(options), r_(seed), b_("random") {
        for (int i = 0; i < kNumDTypes; ++i)
            if (o_.dtypes.empty() || std::ranges::find(o_.dtypes, static_cast<DType>(i)) != o_.dtypes.end())
                dtypes_.push_back(static_cast<DType>(i));
    }

    const TensorType &type(const Item &x) const { return b_.graph().type(x.id); }
    const Shape &shape_of(const Item &x) const { return type(x).shape; }

    Shape shape() {
        Shape s;
        int64_t elements = 1;
        for (int64_t rank = r_.between(0, o_.max_rank); rank > 0; --rank) {
            const int64_t most = std::max<int64_t>(
                1, std::min(o_.max_extent, o_.max_elements / std::max<int64_t>(elements, 1)));
            const int64_t e = o_.zero_size && r_.chance(4) ? 0 : r_.between(1, most);
            elements *= std::max<int64_t>(e, 1);
            s.push_back(e);
        }
        return s;
    }

    Item parameter(DType dtype, const Shape &s) {
        check_size(s);
        const ValueId id = b_.param({dtype, s, device_}, "p" + std::to_string(b_.graph().params.size()));
        Param &p = b_.graph().params.back();
        p.init = InitKind::Random;
        p.seed = r_.next() >> 40;
        if (o_.special_values && is_float(dtype) && r_.chance(50))
            special(p);
        items_.push_back({id, 0, is_float(dtype) || dtype == DType::Bool ? 1.0 : 9.0, 0});
        return items_.back();
    }

    void special(Param &p) {
        const TensorType &t = b_.graph().type(p.value);
        const double infinity = std::numeric_limits<double>::infinity();
        const std::vector<double> pool{0.0,
                                       -0.0,
                                       1,
                                       -1,
                                       0.5,
                                       -2.5,
                                       1e-40,
                                       6e-8,
                                       65504,
                                       3e38,
                                       infinity,
                                       -infinity,
                                       std::numeric_limits<double>::quiet_NaN()};
        std::vector<double> values;
        for (int64_t k = 0; k < t.numel(); ++k)
            values.push_back(r_.pick(pool));
        p.init = InitKind::Dense;
        p.bytes = from_doubles(t, values).bytes;
    }

    Item maker(Op op, DType dtype, const Shape &s) {
        const double value = is_float(dtype)
                                 ? static_cast<double>(r_.between(-32, 32)) / 8
                                 : static_cast<double>(r_.between(dtype == DType::U8 ? 0 : -9, 9));
        const double v = dtype == DType::Bool ? value > 0 : value;
        const Device device = o_.cpu_scalars && s.rank() == 0 && r_.chance(80) ? kCpu : device_;
        note();
        const ValueId id =
            op == Op::Constant ? b_.constant(dtype, v, s, device) : b_.literal(dtype, v, s, device);
        return keep(id, v, v, 0);
    }

    Item number(DType dtype, double value) {
        return keep(b_.literal(dtype, value, {}, device_), value, value, 0, false);
    }

    /// A value of this dtype that `fits`, brought to the device of the node that is being made.
    template <class Fits>
    std::optional<Item> find(Fits fits) {
        std::vector<Item> found;
        for (const Item &x : items_)
            if (fits(x))
                found.push_back(x);
        if (found.empty())
            return std::nullopt;
        return here(r_.pick(found));
    }

    Item here(const Item &x) {
        if (type(x).device == device_)
            return x;
        const bool scalar = o_.cpu_scalars && type(x).device == kCpu && shape_of(x).rank() == 0;
        if ((scalar && r_.chance(80)) || (o_.mixed_devices && r_.chance(70)))
            return x;
        return keep(b_.transfer(x.id, device_), x.low, x.high, x.error);
    }

    DType dtype_where(bool (*allowed)(DType)) {
        std::vector<DType> some;
        std::ranges::copy_if(dtypes_, std::back_inserter(some), allowed);
        return some.empty() ? DType::Bool : r_.pick(some);
    }

    Item converted(Item x, DType to) {
        if (is_float(to) && is_float(type(x).dtype) && x.magnitude() > kFar)
            x = clamp(x, -kFar, kFar);
        const double far = is_float(to) ? x.magnitude() : std::numeric_limits<double>::infinity();
        return add(Op::Cast, {x}, {static_cast<int64_t>(to)}, {}, std::min(x.low, -far),
                   std::max(x.high, far), x.error == 0 ? 0 : x.error + 2 * unit(to) * far);
    }

    Item value_of(DType dtype, bool exact) {
        if (o_.casts > 0 && is_float(dtype) && r_.chance(o_.casts))
            if (const auto other = find([&](const Item &x) {
                    return is_float(type(x).dtype) && type(x).dtype != dtype && (!exact || x.error == 0);
                }))
                return converted(*other, dtype);
        const auto found =
            r_.chance(85)
                ? find([&](const Item &x) { return type(x).dtype == dtype && (!exact || x.error == 0); })
                : std::nullopt;
        return found ? *found : parameter(dtype, shape());
    }

    /// A second operand for x: an old value that broadcasts with it, or a new parameter.
    Item partner(const Item &x, DType dtype, bool exact) {
        const Shape wanted = shape_of(x);
        const auto fits = [&](const Item &y) {
            Shape out;
            int axis = 0;
            return type(y).dtype == dtype && (!exact || y.error == 0) &&
                   broadcast_shapes(wanted, shape_of(y), out, axis) && out.numel() <= o_.max_elements;
        };
        if (r_.chance(80))
            if (const auto found = find(fits))
                return *found;
        Shape s;
        for (int axis = static_cast<int>(r_.below(wanted.rank() + 1)); axis < wanted.rank(); ++axis)
            s.push_back(r_.chance(25) ? 1 : wanted[axis]);
        return parameter(dtype, s);
    }

    // --- nodes

    void note() { line_ += static_cast<uint32_t>(r_.between(1, 3)); }

    /// Dresses the node added last and remembers its result.
    Item keep(ValueId id, double low, double high, double error, bool offer = true) {
        dress();
        const DType dtype = b_.graph().type(id).dtype;
        if (!is_float(dtype)) {
            error = 0;
            clip_to(dtype, low, high);
        }
        const Item item{id, low, high, error};
        if (offer)
            items_.push_back(item);
        return item;
    }

    void dress() {
        static constexpr const char *kFiles[] = {"model.cpp", "src/train.cpp", "a \"quoted\" name.cpp"};
        b_.set_location({kFiles[r_.below(3)], line_ + 1});
        b_.set_recorded(b_.last_node());
        if (o_.streams > 0 && r_.chance(30))
            b_.set_stream(o_.first_stream + static_cast<int32_t>(r_.below(o_.streams)));
    }

    /// An integer that may have wrapped can be anything of its dtype.
    static void clip_to(DType dtype, double &low, double &high) {
        const int bits = 8 * size_of(dtype) - (is_signed(dtype) ? 1 : 0);
        const double most = dtype == DType::Bool ? 1 : std::ldexp(1.0, bits) - 1;
        const double least = is_signed(dtype) ? -std::ldexp(1.0, bits) : 0;
        if (!(low >= least && high <= most)) {
            low = least;
            high = most;
        }
    }

    Item add(Op op, const std::vector<Item> &operands, const Words &structural, const Words &runtime,
             double low, double high, double error) {
        std::vector<ValueId> ids;
        for (const Item &x : operands)
            ids.push_back(x.id);
        note();
        return keep(add_node(op, ids, structural, runtime), low, high, error);
    }

    /// What a draw would have made is too large: the draw is given up. (Some rows grow their operands, again
    /// and again; and an axis of extent 0 that is broadcast beside large ones can be summed or multiplied
    /// away.)
    struct TooLarge {};

    ValueId add_node(Op op, const std::vector<ValueId> &operands, const Words &structural,
                     const Words &runtime) {
        const AttrView attrs{op, structural, runtime};
        std::vector<const TensorType *> types;
        for (const ValueId id : operands)
            types.push_back(&b_.graph().type(id));
        std::vector<TensorType> results(static_cast<size_t>(num_results(attrs)));
        infer_types(attrs, types, results);
        for (const TensorType &result : results)
            check_size(result.shape);
        return b_.add(op, operands, structural, runtime);
    }
    void check_size(const Shape &s) const {
        int64_t size = 1;
        for (const int64_t e : s)
            if ((size *= std::max<int64_t>(e, 1)) > 2 * o_.max_elements)
                throw TooLarge();
    }

    Item clamp(Item x, double low, double high) {
        const DType dtype = type(x).dtype;
        if (x.low < low || o_.special_values) {
            const Item bound = number(dtype, low);
            x = keep(b_.binary(Op::Maximum, x.id, bound.id), std::max(x.low, low), std::max(x.high, low),
                     x.error);
        }
        if (x.high > high || o_.special_values) {
            const Item bound = number(dtype, high);
            x = keep(b_.binary(Op::Minimum, x.id, bound.id), std::min(x.low, high), std::min(x.high, high),
                     x.error);
        }
        return x;
    }

    double rounding(const Item &x, double magnitude) const { return 2 * unit(type(x).dtype) * magnitude; }

    const RandomGraphOptions &o_;
    Random r_;
    GraphBuilder b_;
    std::vector<DType> dtypes_;
    std::vector<Item> items_;
    Device device_; ///< of the node that is being made
    uint32_t line_ = 0;
};

} // namespace lz::test
