#include "tests/support/random/graph.h"

#include "ir/graph/uses.h"
#include "ir/graph/verify.h"
#include "tests/support/random/products.h"

#include <array>

namespace lz::test {

uint64_t Random::next() { // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

namespace {

class Generator : RandomProducts {
public:
    Generator(uint64_t seed, const RandomGraphOptions &options) : RandomProducts(seed, options) {
        for (int op = 0; op < num_ops(); ++op)
            if (o_.ops[static_cast<size_t>(op)])
                ops_.push_back(static_cast<Op>(op));
    }

    RandomGraph run() {
        device_ = r_.pick(o_.devices);
        for (int64_t n = r_.between(1, 3); n > 0; --n)
            parameter_of_any();
        const auto nodes = static_cast<size_t>(r_.between(1, o_.max_nodes));
        for (int tries = 0; tries < 20 * o_.max_nodes && b_.graph().nodes().size() < nodes && !ops_.empty();
             ++tries) {
            device_ = r_.pick(o_.devices);
            draw(r_.pick(ops_));
            if (o_.updates > 0 && r_.chance(o_.updates))
                draw(Op::UpdateSlice);
            if (o_.borders > 0 && r_.chance(o_.borders))
                draw_stencil();
            if (o_.pairs > 0 && r_.chance(o_.pairs))
                draw_pairs();
            if (o_.products > 0 && r_.chance(o_.products))
                draw_product();
            if (o_.effects > 0 && r_.chance(o_.effects))
                draw(r_.pick(effects_));
        }
        return finish();
    }

private:
    void draw(Op op) {
        try {
            draw_row(op);
        } catch (const TooLarge &) { // another one
        }
    }

    void draw_row(Op op) {
        switch (op) {
            // A row without a draw_ function does not compile.
#define LZ_OP(E, ...)                                                                                        \
    case Op::E:                                                                                              \
        return draw_##E(op);
#include "ir/ops.def"
        default:
            return elementwise(op);
        }
    }

    void draw_Cast(Op) {
        const DType to = r_.pick(dtypes_);
        const auto found =
            find([&](const Item &x) { return type(x).dtype != to && (is_float(to) || x.error == 0); });
        if (!found)
            return;
        converted(*found, to);
    }

    // One draw after the other: compilers differ in the order of arguments.
    void parameter_of_any() {
        const Shape s = shape();
        parameter(r_.pick(dtypes_), s);
    }
    void draw_Constant(Op op) {
        const Shape s = shape();
        maker(op, r_.pick(dtypes_), s);
    }
    void draw_Literal(Op op) { draw_Constant(op); }

    void draw_Iota(Op) {
        const DType dtype = dtype_where([](DType t) { return t != DType::Bool; });
        const Shape s = shape();
        if (dtype == DType::Bool || s.rank() == 0)
            return;
        const double start = static_cast<double>(r_.between(dtype == DType::U8 ? 0 : -5, 5));
        const double step = static_cast<double>(r_.between(dtype == DType::U8 ? 0 : -3, 3));
        const int64_t axis = r_.below(s.rank());
        note();
        const double far = 5 + 3 * static_cast<double>(o_.max_extent);
        keep(b_.iota(dtype, s, axis, start, step, device_), -far, far, 0);
    }

    void draw_Philox(Op) { philox(shape()); }

    Item philox(const Shape &s) {
        Words words = counted({s.begin(), s.end()});
        words.push_back(device_word(device_));
        const double far = 0x1p31;
        return add(Op::Philox, {}, words, {r_.below(1 << 20), r_.below(1 << 20)}, -far, far - 1, 0);
    }

    std::optional<Item> any(int min_rank = 0) {
        return find([&](const Item &x) { return shape_of(x).rank() >= min_rank; });
    }

    void draw_Reshape(Op op) {
        const auto x = any();
        if (!x)
            return;
        // The extents' prime factors, dealt to a new number of axes.
        Words to(static_cast<size_t>(r_.between(0, o_.max_rank)), 1);
        int64_t left = shape_of(*x).numel();
        if (left == 0)
            return void(to.empty() ? 0 : (to[0] = 0, same(op, *x, counted(to)), 0));
        for (int64_t f = 2; left > 1; ++f)
            for (; left % f == 0; left /= f) {
                if (to.empty())
                    to.push_back(1);
                to[static_cast<size_t>(r_.below(static_cast<int64_t>(to.size())))] *= f;
            }
        same(op, *x, counted(to));
    }

    void draw_Permute(Op op) {
        if (const auto x = any(1))
            same(op, *x, counted(shuffled_axes(shape_of(*x).rank())));
    }

    void draw_Broadcast(Op op) {
        const auto x = any();
        if (!x)
            return;
        Words to(shape_of(*x).begin(), shape_of(*x).end());
        for (int64_t &e : to)
            e = e == 1 ? r_.between(1, o_.max_extent) : e;
        while (static_cast<int>(to.size()) < o_.max_rank && r_.chance(40))
            to.insert(to.begin(), r_.between(1, o_.max_extent));
        int64_t elements = 1;
        for (const int64_t e : to)
            elements *= e;
        if (elements <= o_.max_elements)
            same(op, *x, counted(to));
    }

    /// A range start, size, step within an extent.
    std::array<int64_t, 3> range(int64_t extent) {
        const int64_t step = r_.between(1, 3);
        const int64_t start = r_.below(extent + 1);
        const int64_t most = (extent - start + step - 1) / step;
        const int64_t size = most == 0 ? 0 : r_.between(o_.zero_size && r_.chance(10) ? 0 : 1, most);
        return {start, size, step};
    }

    void draw_Slice(Op op) {
        const auto x = any(1);
        if (!x)
            return;
        Words starts, sizes, steps;
        for (const int64_t extent : shape_of(*x)) {
            const auto [start, size, step] = extent > 0 && !o_.zero_size ? nonempty(extent) : range(extent);
            starts.push_back(start);
            sizes.push_back(size);
            steps.push_back(step);
        }
        same(op, *x, joined({{static_cast<int64_t>(starts.size())}, counted(sizes), counted(steps)}), starts);
    }

    std::array<int64_t, 3> nonempty(int64_t extent) {
        const int64_t step = r_.between(1, 3), start = r_.below(extent);
        return {start, r_.between(1, (extent - start + step - 1) / step), step};
    }

    void draw_Flip(Op op) {
        if (const auto x = any(1))
            same(op, *x, counted(some_axes(shape_of(*x).rank(), true)));
    }

    void draw_Pad(Op op) {
        const auto x = any(1);
        if (!x)
            return;
        const Item fill = maker(Op::Constant, type(*x).dtype, {});
        Words low, high;
        int64_t elements = 1;
        for (const int64_t extent : shape_of(*x)) {
            low.push_back(r_.below(3));
            high.push_back(r_.below(3));
            elements *= extent + low.back() + high.back();
        }
        if (elements <= o_.max_elements)
            add(op, {*x, fill}, joined({counted(low), counted(high)}), {}, std::min(x->low, fill.low),
                std::max(x->high, fill.high), x->error);
    }

    void draw_Concat(Op op) {
        const auto x = any(1);
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        std::vector<Item> parts{*x};
        for (int64_t n = r_.between(0, 3); n > 0; --n) {
            const auto other = find([&](const Item &y) {
                bool fits = type(y).dtype == type(*x).dtype && shape_of(y).rank() == shape_of(*x).rank();
                for (int i = 0; fits && i < shape_of(y).rank(); ++i)
                    fits = i == axis || shape_of(y)[i] == shape_of(*x)[i];
                return fits && shape_of(y).numel() * 4 <= o_.max_elements;
            });
            if (other)
                parts.push_back(*other);
        }
        std::vector<ValueId> ids;
        Item out = *x;
        for (const Item &p : parts) {
            ids.push_back(p.id);
            out = {0, std::min(out.low, p.low), std::max(out.high, p.high), std::max(out.error, p.error)};
        }
        note();
        keep(add_node(op, ids, Words{axis}, {}), out.low, out.high, out.error);
    }

    void draw_Window(Op op) {
        const auto x = any(1);
        if (!x || shape_of(*x).rank() >= o_.max_rank)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        const int64_t extent = shape_of(*x)[static_cast<int>(axis)];
        if (extent == 0)
            return;
        const int64_t begin = r_.below(extent), size = r_.between(1, extent - begin),
                      step = r_.between(1, size);
        const int64_t count = r_.between(1, (extent - begin - size) / step + 1);
        if (shape_of(*x).numel() / extent * count * size <= o_.max_elements)
            same(op, *x, {axis, begin, count, size, step});
    }

    void draw_UpdateSlice(Op op) {
        const auto x = any(1);
        if (!x)
            return;
        Words starts, steps;
        Shape s;
        for (const int64_t extent : shape_of(*x)) {
            const auto [start, size, step] = range(extent);
            starts.push_back(start);
            s.push_back(size);
            steps.push_back(step);
        }
        const auto old =
            find([&](const Item &y) { return type(y).dtype == type(*x).dtype && shape_of(y) == s; });
        const Item update = old ? *old : parameter(type(*x).dtype, s);
        add(op, {*x, update}, joined({{static_cast<int64_t>(starts.size())}, counted(steps)}), starts,
            std::min(x->low, update.low), std::max(x->high, update.high), std::max(x->error, update.error));
    }

    /// A numeric value with terms that sum up within reach.
    std::optional<Item> summand(int min_rank) {
        auto x = find(
            [&](const Item &v) { return type(v).dtype != DType::Bool && shape_of(v).rank() >= min_rank; });
        if (x && is_float(type(*x).dtype))
            x = clamp(*x, -16, 16);
        return x;
    }

    /// Bounds of a float sum of n terms: any order, in f32 or wider but for f64.
    void sum_bounds(const Item &x, double n, double &magnitude, double &error) const {
        const DType dtype = type(x).dtype;
        magnitude = n * x.magnitude();
        error =
            n <= 1 ? x.error : n * x.error + 2 * (n * unit(info(dtype).accumulate) + unit(dtype)) * magnitude;
    }

    void draw_ReduceSum(Op op) {
        const auto x = summand(0);
        if (!x)
            return;
        const Words axes = some_axes(shape_of(*x).rank(), r_.chance(90));
        double magnitude = 0, error = 0;
        sum_bounds(*x, terms(*x, axes), magnitude, error);
        add(op, {*x}, counted(axes), {}, -magnitude, magnitude, error);
    }

    double terms(const Item &x, const Words &axes) const {
        double n = 1;
        for (const int64_t axis : axes)
            n *= static_cast<double>(shape_of(x)[static_cast<int>(axis)]);
        return n;
    }

    void draw_ReduceProd(Op op) {
        auto x = summand(0);
        if (!x)
            return;
        const Words axes = some_axes(shape_of(*x).rank(), true);
        const double n = terms(*x, axes);
        if (!is_float(type(*x).dtype)) {
            add(op, {*x}, counted(axes), {}, -INFINITY, INFINITY, 0);
            return;
        }
        if (n > 16)
            return;
        x = clamp(*x, 0.5, 1.5);
        const double most = std::max(1.0, std::pow(1.5, n));
        add(op, {*x}, counted(axes), {}, 0, most,
            n <= 1 ? x->error : most * n * (2 * x->error + 2 * unit(type(*x).dtype)));
    }

    void draw_ReduceMax(Op op) {
        const auto x = any();
        if (!x)
            return;
        const Words axes = some_axes(shape_of(*x).rank(), true);
        if (terms(*x, axes) > 0)
            same(op, *x, counted(axes));
    }
    void draw_ReduceMin(Op op) { draw_ReduceMax(op); }

    std::optional<Item> sortable() {
        return find([&](const Item &x) { return shape_of(x).rank() >= 1 && x.error == 0; });
    }

    void draw_ArgMax(Op op) {
        const auto x = sortable();
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        const int64_t extent = shape_of(*x)[static_cast<int>(axis)];
        if (extent > 0)
            add(op, {*x}, {axis}, {}, 0, static_cast<double>(extent - 1), 0);
    }
    void draw_ArgMin(Op op) { draw_ArgMax(op); }

    void draw_CumSum(Op op) {
        const auto x = summand(1);
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        double magnitude = 0, error = 0;
        sum_bounds(*x, terms(*x, {axis}), magnitude, error);
        add(op, {*x}, {axis}, {}, -magnitude, magnitude, error);
    }

    void draw_CumMax(Op op) {
        const auto x = sortable();
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        const Item values = add(op, {*x}, {axis}, {}, x->low, x->high, 0);
        items_.push_back({values.id + 1, 0, static_cast<double>(shape_of(*x)[static_cast<int>(axis)]), 0});
    }
    void draw_CumMin(Op op) { draw_CumMax(op); }

    void draw_CumProd(Op op) {
        auto x = summand(1);
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        if (!is_float(type(*x).dtype)) {
            add(op, {*x}, {axis}, {}, -INFINITY, INFINITY, 0);
            return;
        }
        const double n = terms(*x, {axis});
        if (n > 16)
            return;
        x = clamp(*x, 0.5, 1.5);
        const double most = std::max(1.5, std::pow(1.5, n));
        add(op, {*x}, {axis}, {}, 0, most,
            n <= 1 ? x->error : most * n * (2 * x->error + 2 * unit(type(*x).dtype)));
    }

    void draw_Dot(Op op) {
        auto x = summand(0);
        if (!x)
            return;
        if (is_float(type(*x).dtype))
            x = clamp(*x, -8, 8);
        const Shape s = shape_of(*x);
        // Some axes of x are batch axes, some are summed; the right side is made to fit, in an order of its
        // own.
        Words batch, sum;
        for (const int64_t axis : shuffled_axes(s.rank()))
            (r_.chance(25) ? batch : r_.chance(50) ? sum : unused_).push_back(axis);
        unused_.clear();
        Words axes; // of the right side: k >= 0 stands for the left side's axis k, -1 for a new one
        axes.insert(axes.end(), batch.begin(), batch.end());
        axes.insert(axes.end(), sum.begin(), sum.end());
        for (int64_t n = r_.below(2); n >= 0; --n)
            axes.insert(axes.begin() + r_.below(static_cast<int64_t>(axes.size()) + 1), -1);
        Shape t;
        for (const int64_t k : axes)
            t.push_back(k < 0 ? r_.between(1, o_.max_extent) : s[static_cast<int>(k)]);
        const auto place = [&](const Words &of) {
            Words places;
            for (const int64_t k : of)
                places.push_back(std::ranges::find(axes, k) - axes.begin());
            return places;
        };
        const double n = terms(*x, sum);
        if (static_cast<double>(s.numel()) * static_cast<double>(t.numel()) >
                40 * static_cast<double>(o_.max_elements) ||
            s.rank() + t.rank() - static_cast<int>(batch.size() + 2 * sum.size()) > o_.max_rank)
            return;
        const DType dtype = type(*x).dtype;
        const auto old = find([&](const Item &y) { return type(y).dtype == dtype && shape_of(y) == t; });
        Item y = old ? *old : parameter(dtype, t);
        if (is_float(dtype))
            y = clamp(y, -8, 8);
        if (shape_elements(*x, y, batch, sum) > o_.max_elements)
            return;
        const double m = n * x->magnitude() * y.magnitude();
        std::vector<DType> results;
        for (int to = 0; to < kNumDTypes; ++to)
            if (can_hold_products(static_cast<DType>(to), dtype))
                results.push_back(static_cast<DType>(to));
        const DType result =
            r_.chance(70) ? dtype
                          : results[static_cast<size_t>(r_.below(static_cast<int64_t>(results.size())))];
        const double error = n * (x->magnitude() * y.error + y.magnitude() * x->error + x->error * y.error) +
                             2 * (n * unit(info(dtype).accumulate) + unit(result)) * m;
        Words words = joined({counted(batch), counted(place(batch)), counted(sum), counted(place(sum))});
        words.push_back(static_cast<int64_t>(result));
        add(op, {*x, y}, words, {}, -m, m, error);
    }

    int64_t shape_elements(const Item &x, const Item &y, const Words &batch, const Words &sum) const {
        double n = static_cast<double>(shape_of(x).numel()) * static_cast<double>(shape_of(y).numel());
        const double shared = terms(x, batch), summed = terms(x, sum);
        return n == 0 ? 0 : static_cast<int64_t>(n / shared / summed / summed);
    }

    /// Indices into an axis of this extent.
    std::optional<Item> indices(const Shape &s, int64_t extent) {
        if (o_.faults && r_.chance(30)) {
            note();
            return keep(b_.iota(DType::I64, s, 0, -1, 1, device_), -1, 1e3, 0);
        }
        if (extent == 0 && s.numel() > 0)
            return std::nullopt;
        Item i = philox(s);
        if (r_.chance(50))
            i = add(Op::Cast, {i}, {static_cast<int64_t>(DType::I64)}, {}, i.low, i.high, 0);
        const Item n = number(type(i).dtype, static_cast<double>(std::max<int64_t>(extent, 1)));
        return add(Op::Remainder, {i, n}, {}, {}, 0, static_cast<double>(extent), 0);
    }

    void draw_Gather(Op op) {
        const auto x = any(1);
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        Shape s = shape_of(*x);
        const int64_t extent = s[static_cast<int>(axis)];
        s[static_cast<int>(axis)] = r_.between(1, std::max<int64_t>(extent, 1) + 1);
        if (const auto index = indices(s, extent))
            add(op, {*x, *index}, {axis}, {}, x->low, x->high, x->error);
    }

    void draw_Scatter(Op op) {
        const bool adds = r_.chance(50);
        const auto x = adds ? summand(1) : any(1);
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        Shape s = shape_of(*x);
        const int64_t extent = s[static_cast<int>(axis)];
        const int64_t count = r_.between(1, std::max<int64_t>(extent, 1));
        s[static_cast<int>(axis)] = count;
        const auto index = indices(s, extent);
        if (!index)
            return;
        const DType dtype = type(*x).dtype;
        const auto old = find([&](const Item &y) { return type(y).dtype == dtype && shape_of(y) == s; });
        Item source = old ? *old : parameter(dtype, s);
        if (adds && is_float(dtype))
            source = clamp(source, -16, 16);
        const auto n = static_cast<double>(count);
        const double m =
            adds ? x->magnitude() + n * source.magnitude() : std::max(x->magnitude(), source.magnitude());
        const double error = adds ? x->error + n * source.error + 2 * (n + 1) * unit(dtype) * m
                                  : std::max(x->error, source.error);
        add(op, {*x, *index, source}, {axis, adds}, {}, -m, m, error);
    }

    void draw_Sort(Op op) {
        const auto x = sortable();
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        const Item values = add(op, {*x}, {axis, r_.below(2)}, {}, x->low, x->high, 0);
        items_.push_back({values.id + 1, 0, static_cast<double>(shape_of(*x)[static_cast<int>(axis)]), 0});
    }

    void draw_TopK(Op op) {
        const auto x = sortable();
        if (!x)
            return;
        const int64_t axis = r_.below(shape_of(*x).rank());
        const int64_t extent = shape_of(*x)[static_cast<int>(axis)];
        const Item values = add(op, {*x}, {axis, r_.below(2), r_.between(0, extent)}, {}, x->low, x->high, 0);
        items_.push_back({values.id + 1, 0, static_cast<double>(extent), 0});
    }

    void draw_Transfer(Op op) {
        const auto x = any();
        if (!x)
            return;
        std::vector<Item> operands = {*x};
        if (o_.mixed_devices && r_.chance(50)) // moved for an operation of these
            for (int k = 0; k < 3; ++k)
                if (const auto other = any())
                    operands.push_back(*other);
        add(op, operands, {device_word(r_.pick(o_.devices))}, {}, x->low, x->high, x->error);
    }

    void draw_Call(Op op) {
        const auto x = any();
        if (!x)
            return;
        const TensorType t = type(*x);
        Words types{static_cast<int64_t>(t.dtype), device_word(t.device), t.shape.rank()};
        types.insert(types.end(), t.shape.begin(), t.shape.end());
        if (r_.chance(50))
            types.insert(types.end(), {static_cast<int64_t>(DType::I64), 0, 1, 3});
        const Words symbol{5, 0x6c6c6163 /* "call" */ + (int64_t{'.'} << 32)};
        add(op, {*x}, joined({symbol, counted(types)}), {}, x->low, x->high, x->error);
    }

    void effect(Op op, std::span<const ValueId> operands, const Words &structural, const Words &runtime) {
        note();
        b_.add(op, operands, structural, runtime);
        dress();
        std::vector<NodeId> before;
        for (int64_t n = r_.below(3); n > 0 && b_.last_node() > 0; --n)
            before.push_back(static_cast<NodeId>(r_.below(b_.last_node())));
        b_.add_order(before);
    }
    void draw_RecordEvent(Op op) { effect(op, {}, {device_word(device_)}, {r_.below(4)}); }
    void draw_WaitEvent(Op op) { effect(op, {}, {device_word(device_)}, {r_.below(4)}); }
    void draw_WaitStream(Op op) {
        const auto x = r_.chance(30) ? any() : std::nullopt;
        effect(op, x ? std::span(&x->id, 1) : std::span<const ValueId>(),
               {device_word(device_), device_word(o_.gpus > 0 ? r_.pick(o_.devices) : device_),
                o_.first_stream + r_.below(4)},
               {});
    }
    void draw_HostCallback(Op op) {
        const auto x = any();
        effect(op, x ? std::span(&x->id, 1) : std::span<const ValueId>(), {device_word(device_)},
               {r_.below(4)});
    }

    /// Everything that nothing uses is a result, so that no node is dead.
    RandomGraph finish() {
        RandomGraph out;
        const Uses uses(b_.graph());
        for (ValueId v = 0; v < b_.graph().values().size(); ++v) {
            const auto item = std::ranges::find(items_, v, &Item::id);
            const bool shown = uses.count(v) == 0 || (item != items_.end() && r_.chance(10));
            if (!shown)
                continue;
            b_.graph().results.push_back(v);
            out.tolerance.push_back(item == items_.end() ? 0 : item->error);
        }
        for (Param &p : b_.graph().params)
            p.donated = r_.chance(20);
        out.graph = b_.take();
        verify(out.graph);
        return out;
    }

    const std::vector<Op> effects_{Op::RecordEvent, Op::WaitEvent, Op::WaitStream, Op::HostCallback};
    std::vector<Op> ops_;
    Words unused_;
};

} // namespace

RandomGraph random_graph(uint64_t seed, const RandomGraphOptions &options) {
    if (options.gpus == 0)
        return Generator(seed, options).run();
    RandomGraphOptions many = options;
    many.devices = {kCpu};
    for (int i = 0; i < options.gpus; ++i)
        many.devices.push_back({DeviceKind::Cuda, static_cast<uint8_t>(i)});
    return Generator(seed, many).run();
}

} // namespace lz::test
