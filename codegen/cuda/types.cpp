#include "codegen/cuda/types.h"

#include "codegen/cuda/writer.h"

#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace lz::codegen::cuda {

using namespace ir;

std::string_view c_type(DType dtype) {
    switch (dtype) {
    case DType::Bool:
        return "bool";
    case DType::U8:
        return "unsigned char";
    case DType::I8:
        return "signed char";
    case DType::I16:
        return "short";
    case DType::I32:
        return "int";
    case DType::I64:
        return "long long";
    case DType::F16:
    case DType::BF16:
        return "unsigned short";
    case DType::F32:
        return "float";
    case DType::F64:
        return "double";
    }
    return "?";
}

namespace {

/// Decimals where they are exact and short, else hexadecimal digits: both are read without rounding.
template <class T>
std::string real(T value, std::string_view suffix, std::string_view bits) {
    if (!std::isfinite(value))
        return std::string(bits);
    const T scaled = value * 1024;
    std::string text = scaled == std::trunc(scaled) && std::abs(value) < T(1e6)
                           ? fmt::format("{:.10f}", value)
                           : fmt::format("{:a}", value);
    if (text.find('x') == std::string::npos) {
        text.erase(text.find_last_not_of('0') + 1);
        text += text.back() == '.' ? "0" : "";
    }
    text += suffix;
    return std::signbit(value) ? "(" + text + ")" : text;
}

std::string integer(int64_t value) {
    if (value == std::numeric_limits<int64_t>::min())
        return "(-9223372036854775807ll - 1)";
    const bool wide = value != static_cast<int32_t>(value);
    if (value == std::numeric_limits<int32_t>::min())
        return "(-2147483647 - 1)";
    return fmt::format(fmt::runtime(value < 0 ? "({}{})" : "{}{}"), value, wide ? "ll" : "");
}

bool is_plain_float(DType t) {
    return t == DType::F32 || t == DType::F64;
}

std::string cast(DType to, DType from, const std::string &x) {
    const auto widened = [&] {
        return from == DType::F16    ? "from_half(" + bare(x) + ")"
               : from == DType::BF16 ? "from_bfloat(" + bare(x) + ")"
                                     : x;
    };
    if (to == from)
        return x;
    if (is_half(from))
        return to == DType::F32 ? widened() : cast(to, DType::F32, widened());
    if (is_half(to)) {
        const std::string f = from == DType::F32 ? bare(x) : "(float)" + x;
        return (to == DType::F16 ? "to_half(" : "to_bfloat(") + f + ")";
    }
    if (to == DType::Bool)
        return fmt::format("{} != 0", x);
    if (is_plain_float(from) && !is_plain_float(to)) {
        switch (to) {
        case DType::I64:
            return "to_long(" + bare(x) + ")";
        case DType::I32:
            return "to_int(" + bare(x) + ")";
        case DType::I16:
            return "(short)clamp(to_int(" + bare(x) + "), -32768, 32767)";
        case DType::I8:
            return "(signed char)clamp(to_int(" + bare(x) + "), -128, 127)";
        default:
            return "(unsigned char)clamp(to_int(" + bare(x) + "), 0, 255)";
        }
    }
    return fmt::format("({}){}", c_type(to), x);
}

std::string bitcast(DType to, DType from, const std::string &x) {
    if (to == DType::F32)
        return "__int_as_float(" + bare(x) + ")";
    if (from == DType::F32)
        return "__float_as_int(" + bare(x) + ")";
    if (to == DType::F64)
        return "__longlong_as_double(" + bare(x) + ")";
    if (from == DType::F64)
        return "__double_as_longlong(" + bare(x) + ")";
    return fmt::format("({}){}", c_type(to), x);
}

std::string_view infix(KOp op) {
    switch (op) {
    case KOp::Add:
        return "+";
    case KOp::Sub:
        return "-";
    case KOp::Mul:
        return "*";
    case KOp::Div:
        return "/";
    case KOp::Rem:
        return "%";
    case KOp::And:
        return "&";
    case KOp::Or:
        return "|";
    case KOp::Xor:
        return "^";
    case KOp::Eq:
        return "==";
    case KOp::Ne:
        return "!=";
    case KOp::Lt:
        return "<";
    case KOp::Le:
        return "<=";
    case KOp::Gt:
        return ">";
    case KOp::Ge:
        return ">=";
    default:
        return "";
    }
}

[[noreturn]] void not_defined(KOp op, DType dtype) {
    internal_failure(__FILE__, __LINE__,
                     std::string(info(op).name) + " has no CUDA for " + std::string(name(dtype)));
}

std::string real_expression(KOp op, DType dtype, const Operands &o) {
    const bool f32 = dtype == DType::F32;
    const auto call = [&](std::string_view f) {
        return fmt::format("{}{}({})", f, f32 ? "f" : "", bare(o.x));
    };
    switch (op) {
    case KOp::Add:
    case KOp::Sub:
    case KOp::Mul:
    case KOp::Div:
        return fmt::format("{} {} {}", o.x, infix(op), o.y);
    case KOp::Fma:
        return fmt::format("{}({}, {}, {})", f32 ? "__fmaf_rn" : "__fma_rn", bare(o.x), bare(o.y), bare(o.z));
    case KOp::Neg:
        return "-" + o.x;
    case KOp::Abs:
        return call("fabs");
    case KOp::Minimum:
        return fmt::format("minimum({}, {})", bare(o.x), bare(o.y));
    case KOp::Maximum:
        return fmt::format("maximum({}, {})", bare(o.x), bare(o.y));
    case KOp::Sqrt:
        return fmt::format("{}({})", f32 ? "__fsqrt_rn" : "__dsqrt_rn", bare(o.x));
    case KOp::Floor:
        return call("floor");
    case KOp::Ceil:
        return call("ceil");
    case KOp::Trunc:
        return call("trunc");
    case KOp::Rint:
        return call("rint");
    case KOp::Scalb:
        return fmt::format("scale_by_power({}, {})", bare(o.x), bare(o.y));
    default:
        not_defined(op, dtype);
    }
}

/// A negative number as the unsigned one with its bits.
std::string as_unsigned(const std::string &x) {
    const std::string number = bare(x);
    return number.starts_with('-') && number.find(' ') == std::string::npos
               ? fmt::format("{}u", static_cast<uint32_t>(std::stoll(number)))
               : x;
}

std::string integer_expression(KOp op, DType dtype, const Operands &o) {
    const auto binary = [&](std::string_view f) {
        return fmt::format("{}<{}>({}, {})", f, c_type(dtype), bare(o.x), bare(o.y));
    };
    const auto unary = [&](std::string_view f) {
        return fmt::format("{}<{}>({})", f, c_type(dtype), bare(o.x));
    };
    const auto narrowed = [&](const std::string &e) {
        return size_of(dtype) < 4 ? fmt::format("({})({})", c_type(dtype), e) : e;
    };
    switch (op) {
    case KOp::Add:
        return binary("add");
    case KOp::Sub:
        return binary("subtract");
    case KOp::Mul:
        return binary("multiply");
    case KOp::Div:
        return binary("divide");
    case KOp::Rem:
        return binary("remainder");
    case KOp::Neg:
        return unary("negate");
    case KOp::Abs:
        return unary("absolute");
    case KOp::Minimum:
        if (size_of(dtype) == 1) // by ?: NVRTC 13.0 computes two at a time, and spills
            return fmt::format("({})min({}, {})", c_type(dtype), bare(o.x), bare(o.y));
        return fmt::format("{} < {} ? {} : {}", o.x, o.y, o.x, o.y);
    case KOp::Maximum:
        if (size_of(dtype) == 1)
            return fmt::format("({})max({}, {})", c_type(dtype), bare(o.x), bare(o.y));
        return fmt::format("{} > {} ? {} : {}", o.x, o.y, o.x, o.y);
    case KOp::And:
    case KOp::Or:
    case KOp::Xor:
        return narrowed(fmt::format("{} {} {}", o.x, infix(op), o.y));
    case KOp::Not:
        return narrowed("~" + o.x);
    case KOp::Shl:
        if (o.y_is_small_const)
            return fmt::format("({0})((Unsigned<{0}>){1} << {2})", c_type(dtype), o.x, o.y);
        return binary("shift_left");
    case KOp::Shr:
        if (o.y_is_small_const)
            return narrowed(fmt::format("{} >> {}", o.x, o.y));
        return binary("shift_right");
    case KOp::LShr:
        if (o.y_is_small_const)
            return fmt::format("({0})((Unsigned<{0}>){1} >> {2})", c_type(dtype), o.x, o.y);
        return binary("shift_logical");
    case KOp::MulHiU:
        return fmt::format("(int)__umulhi({}, {})", as_unsigned(o.x), as_unsigned(o.y));
    default:
        not_defined(op, dtype);
    }
}

std::string bool_expression(KOp op, const Operands &o) {
    switch (op) {
    case KOp::And:
        return fmt::format("{} && {}", o.x, o.y);
    case KOp::Or:
        return fmt::format("{} || {}", o.x, o.y);
    case KOp::Xor:
        return fmt::format("{} != {}", o.x, o.y);
    case KOp::Not:
        return "!" + o.x;
    default:
        not_defined(op, DType::Bool);
    }
}

} // namespace

std::string literal(DType dtype, uint64_t bits) {
    switch (dtype) {
    case DType::Bool:
        return bits == 0 ? "false" : "true";
    case DType::U8:
        return fmt::format("{}", static_cast<uint8_t>(bits));
    case DType::I8:
        return integer(static_cast<int8_t>(bits));
    case DType::I16:
        return integer(static_cast<int16_t>(bits));
    case DType::I32:
        return integer(static_cast<int32_t>(bits));
    case DType::I64:
        return integer(static_cast<int64_t>(bits));
    case DType::F16:
    case DType::BF16:
        return fmt::format("0x{:x}", bits);
    case DType::F32:
        return real(std::bit_cast<float>(static_cast<uint32_t>(bits)), "f",
                    fmt::format("__uint_as_float(0x{:x})", bits));
    case DType::F64:
        return real(std::bit_cast<double>(bits), "", fmt::format("__longlong_as_double(0x{:x}ll)", bits));
    }
    return "?";
}

std::string expression(KOp op, DType dtype, const Operands &o) {
    if (is_choice(op))
        return fmt::format("{} ? {} : {}", o.x, o.y, o.z);
    if (op == KOp::Cast)
        return cast(dtype, o.from, o.x);
    if (op == KOp::Bitcast)
        return bitcast(dtype, o.from, o.x);
    if (info(op).cls == KOpClass::Compare)
        return fmt::format("{} {} {}", o.x, infix(op), o.y);
    if (dtype == DType::Bool)
        return bool_expression(op, o);
    return is_float(dtype) ? real_expression(op, dtype, o) : integer_expression(op, dtype, o);
}

std::string index_expression(KOp op, const Operands &o) {
    switch (op) {
    case KOp::Neg:
        return "-" + o.x;
    case KOp::Minimum:
        return fmt::format("{} < {} ? {} : {}", o.x, o.y, o.x, o.y);
    case KOp::Maximum:
        return fmt::format("{} > {} ? {} : {}", o.x, o.y, o.x, o.y);
    case KOp::Select:
        return fmt::format("{} ? {} : {}", o.x, o.y, o.z);
    default:
        return fmt::format("{} {} {}", o.x, infix(op), o.y);
    }
}

std::string known_result(KOp op, const Operands &o) {
    const bool zero_x = o.x == "0", zero_y = o.y == "0";
    if (!zero_x && !zero_y)
        return "";
    switch (op) {
    case KOp::Add:
    case KOp::Or:
    case KOp::Xor:
        return zero_x ? o.y : o.x;
    case KOp::Mul:
    case KOp::MulHiU:
    case KOp::And:
        return "0";
    default:
        return "";
    }
}

} // namespace lz::codegen::cuda
