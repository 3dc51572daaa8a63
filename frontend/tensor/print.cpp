// Printing as PyTorch's _tensor_str.py does (S64): the same alignment, precision, scientific notation,
// summary and line breaks.
#include "frontend/ops/compose.h"
#include "ir/host/float_environment.h"
#include "lazuli/autograd.h"
#include "lazuli/core/defaults.h"
#include "lazuli/core/text.h"
#include "lazuli/ops/views.h"
#include "lazuli/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>

namespace lz {
namespace {

constexpr size_t kLineWidth = 80;
constexpr int64_t kEdgeItems = 3, kThreshold = 1000;

/// Reads elements of a dense tensor in memory as what is printed.
class Elements {
public:
    Elements(DType dtype, const std::byte *data) : dtype_(dtype), data_(data) {}

    bool is_float() const { return is_floating_point(dtype_); }
    double number(int64_t i) const {
        switch (dtype_) {
        case DType::F16:
            return load<Half>(i);
        case DType::BF16:
            return load<BFloat>(i);
        case DType::F32:
            return load<float>(i);
        default:
            return load<double>(i);
        }
    }
    std::string whole(int64_t i) const {
        switch (dtype_) {
        case DType::Bool:
            return load<uint8_t>(i) ? "True" : "False";
        case DType::U8:
            return std::to_string(load<uint8_t>(i));
        case DType::I8:
            return std::to_string(load<int8_t>(i));
        case DType::I16:
            return std::to_string(load<int16_t>(i));
        case DType::I32:
            return std::to_string(load<int32_t>(i));
        default:
            return std::to_string(load<int64_t>(i));
        }
    }

private:
    template <class T>
    T load(int64_t i) const {
        T value;
        std::memcpy(&value, data_ + static_cast<size_t>(i) * sizeof(T), sizeof(T));
        return value;
    }
    DType dtype_;
    const std::byte *data_;
};

std::string formatted(const char *format, double value) {
    if (std::isnan(value))
        return "nan";
    if (std::isinf(value))
        return value > 0 ? "inf" : "-inf";
    char text[512];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

/// Chooses one notation for all elements that are shown, and its width.
class Formatter {
public:
    Formatter(const Elements &elements, const std::vector<int64_t> &shown) : elements_(elements) {
        if (elements.is_float())
            choose_float(shown);
        else
            for (const int64_t i : shown)
                width_ = std::max(width_, elements.whole(i).size());
    }

    size_t width() const { return width_; }
    std::string operator()(int64_t i) const {
        std::string text = elements_.is_float() ? float_text(elements_.number(i)) : elements_.whole(i);
        return text.size() < width_ ? std::string(width_ - text.size(), ' ') + text : text;
    }

private:
    void choose_float(const std::vector<int64_t> &shown) {
        double least = INFINITY, most = 0;
        bool any = false;
        for (const int64_t i : shown) {
            const double v = elements_.number(i);
            if (v == 0 || !std::isfinite(v))
                continue;
            any = true;
            least = std::min(least, std::abs(v));
            most = std::max(most, std::abs(v));
            whole_ &= v == std::ceil(v);
        }
        if (!any)
            return;
        scientific_ = most / least > 1000 || most > 1e8 || (!whole_ && least < 1e-4);
        for (const int64_t i : shown) {
            const double v = elements_.number(i);
            if (v == 0 || !std::isfinite(v))
                continue;
            const size_t length = scientific_ ? formatted("%.4e", v).size()
                                  : whole_    ? formatted("%.0f", v).size() + 1
                                              : formatted("%.4f", v).size();
            width_ = std::max(width_, length);
        }
    }

    std::string float_text(double v) const {
        if (scientific_)
            return formatted("%.4e", v);
        if (!whole_)
            return formatted("%.4f", v);
        const std::string text = formatted("%.0f", v);
        return std::isfinite(v) ? text + "." : text;
    }

    const Elements &elements_;
    bool whole_ = true, scientific_ = false;
    size_t width_ = 1;
};

struct Picture {
    std::vector<int64_t> sizes, strides;
    bool summarize = false;

    bool cuts(size_t axis) const { return summarize && sizes[axis] > 2 * kEdgeItems; }
    /// Positions of an axis that are shown.
    std::vector<int64_t> shown(size_t axis) const {
        std::vector<int64_t> out;
        for (int64_t i = 0; i < sizes[axis]; ++i)
            if (!cuts(axis) || i < kEdgeItems || i >= sizes[axis] - kEdgeItems)
                out.push_back(i);
        return out;
    }
};

void collect(const Picture &layout, size_t axis, int64_t offset, std::vector<int64_t> &out) {
    if (axis == layout.sizes.size()) {
        out.push_back(offset);
        return;
    }
    for (const int64_t i : layout.shown(axis))
        collect(layout, axis + 1, offset + i * layout.strides[axis], out);
}

std::string vector_text(const Picture &layout, int64_t offset, size_t indent, const Formatter &format) {
    std::vector<std::string> items;
    for (const int64_t i : layout.shown(layout.sizes.size() - 1)) {
        if (layout.cuts(layout.sizes.size() - 1) && i == layout.sizes.back() - kEdgeItems)
            items.emplace_back(" ...");
        items.push_back(format(offset + i));
    }
    const size_t room = kLineWidth > indent ? kLineWidth - indent : 0;
    const size_t per_line = std::max<size_t>(1, room / (format.width() + 2));
    std::string text = "[";
    for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0)
            text += i % per_line == 0 ? ",\n" + std::string(indent + 1, ' ') : ", ";
        text += items[i];
    }
    return text + "]";
}

std::string nested_text(const Picture &layout, size_t axis, int64_t offset, size_t indent,
                        const Formatter &format) {
    const size_t rank = layout.sizes.size();
    if (rank == 0)
        return format(offset);
    if (axis + 1 == rank)
        return vector_text(layout, offset, indent, format);
    const std::string separator = "," + std::string(rank - axis - 1, '\n') + std::string(indent + 1, ' ');
    std::string text = "[";
    bool first = true;
    for (const int64_t i : layout.shown(axis)) {
        if (!first)
            text += separator;
        if (layout.cuts(axis) && i == layout.sizes[axis] - kEdgeItems)
            text += "..." + separator;
        text += nested_text(layout, axis + 1, offset + i * layout.strides[axis], indent + 1, format);
        first = false;
    }
    return text + "]";
}

std::string values_text(const Tensor &x, size_t indent, Location loc) {
    const Tensor here = to(x, Device::cpu(), loc);
    Picture layout{x.sizes(), {}, x.numel() > kThreshold};
    layout.strides.resize(layout.sizes.size());
    int64_t stride = 1;
    for (size_t a = layout.sizes.size(); a-- > 0; stride *= layout.sizes[a])
        layout.strides[a] = stride;
    const Elements elements(x.dtype(), here.data<std::byte>(loc));
    std::vector<int64_t> shown;
    collect(layout, 0, 0, shown);
    return nested_text(layout, 0, 0, indent, Formatter(elements, shown));
}

/// `(2, 0)`.
std::string size_tuple(const std::vector<int64_t> &sizes) {
    std::string text;
    for (const int64_t s : sizes)
        text += (text.empty() ? "" : ", ") + std::to_string(s);
    return "(" + text + ")";
}

} // namespace

std::string Tensor::str(Location loc) const {
    const ir::FloatEnvironment environment; // digits are rounded alike, and subnormals shown
    if (!detail::Access::given(*this))
        return "tensor(<empty handle>)";
    static constexpr std::string_view kPrefix = "tensor(";
    const DType type = dtype();
    std::vector<std::string> suffixes;
    std::string text(kPrefix);
    if (detail::type(*this).device != detail::default_device(loc))
        suffixes.push_back("device='" + device().str() + "'");
    const std::string dtype_suffix = "dtype=" + std::string(name(type));
    if (numel() == 0) {
        text += "[]";
        if (dim() != 1)
            suffixes.push_back("size=" + size_tuple(sizes()));
        if (type != get_default_dtype())
            suffixes.push_back(dtype_suffix);
    } else {
        if (type != get_default_dtype() && type != DType::I64 && type != DType::Bool)
            suffixes.push_back(dtype_suffix);
        text += values_text(*this, kPrefix.size(), loc);
    }
    if (requires_grad(loc)) {
        const std::shared_ptr<const GradFn> made_by = grad_fn(loc);
        suffixes.push_back(made_by ? "grad_fn=<" + made_by->name() + ">" : "requires_grad=True");
    }
    const size_t last_break = text.rfind('\n');
    size_t length = last_break == std::string::npos ? text.size() + 2 : text.size() - last_break + 1;
    for (const std::string &suffix : suffixes) {
        const bool wraps = length + suffix.size() + 2 > kLineWidth;
        text += wraps ? ",\n" + std::string(kPrefix.size(), ' ') + suffix : ", " + suffix;
        length = wraps ? kPrefix.size() + suffix.size() : length + suffix.size() + 2;
    }
    return text + ")";
}

std::ostream &operator<<(std::ostream &out, const Sizes &sizes) {
    out << '[';
    for (size_t i = 0; i < sizes.size(); ++i)
        out << (i == 0 ? "" : ", ") << sizes[i];
    return out << ']';
}

std::ostream &operator<<(std::ostream &out, const TensorOptions &options) {
    out << "TensorOptions(dtype=" << (options.dtype ? name(*options.dtype) : "default")
        << ", device=" << (options.device ? options.device->str() : "default");
    return out << ", requires_grad=" << (options.requires_grad ? "true" : "false")
               << ", pinned=" << (options.pinned ? "true" : "false") << ')';
}

std::string detail::written(void (*write)(std::ostream &, const void *), const void *values) {
    std::ostringstream out;
    write(out, values);
    return out.str();
}

std::string Tensor::toString(Location loc) const {
    static constexpr const char *kNames[] = {"Bool", "Byte", "Char",     "Short", "Int",
                                             "Long", "Half", "BFloat16", "Float", "Double"};
    return std::string(is_cuda(loc) ? "CUDA" : "CPU") + kNames[static_cast<size_t>(dtype(loc))] + "Type";
}

void Tensor::print() const {
    if (defined())
        std::cout << '[' << toString() << ' ' << sizes() << "]\n";
    else
        std::cout << "[UndefinedTensor]\n";
}

/// `<<` cannot take the caller's line. What fails without one names the line where the tensor was made.
std::ostream &operator<<(std::ostream &out, const Tensor &tensor) {
    std::string text;
    try {
        text = tensor.str({});
    } catch (const Error &error) {
        if (error.file())
            throw;
        const ir::Location made = detail::origin_of(detail::Access::node(tensor));
        const std::string by =
            made.function != 0 ? " by " + std::string(ir::function_name(made.function)) : "";
        detail::throw_again(error, "while printing the tensor that was made" + by, detail::from_ir(made));
    }
    return out << text;
}

} // namespace lz
