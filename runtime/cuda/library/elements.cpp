#include "runtime/cuda/library/elements.h"

#include <fmt/format.h>

namespace lz::runtime::cuda {

std::string_view element_type(ir::DType dtype) {
    switch (dtype) {
    case ir::DType::Bool:
        return "bool";
    case ir::DType::U8:
        return "unsigned char";
    case ir::DType::I8:
        return "signed char";
    case ir::DType::I16:
        return "short";
    case ir::DType::I32:
        return "int";
    case ir::DType::I64:
        return "long long";
    case ir::DType::F16:
    case ir::DType::BF16:
        return "unsigned short";
    case ir::DType::F32:
        return "float";
    case ir::DType::F64:
        return "double";
    }
    return "?";
}

std::string element_source(ir::DType dtype) {
    const ir::DType accumulate = ir::info(dtype).accumulate;
    std::string text = fmt::format(
        R"(using Element = {};
using Running = {};
template <class T> __device__ __forceinline__ Running widen(T x) {{ return (Running)x; }}
template <class T> __device__ __forceinline__ T narrow(Running x) {{ return (T)x; }}
)",
        element_type(dtype), accumulate == ir::DType::I64 ? "unsigned long long" : element_type(accumulate));
    if (ir::is_half(dtype))
        text += fmt::format(
            R"(template <> __device__ __forceinline__ float widen(Element x) {{ return from_{0}(x); }}
template <> __device__ __forceinline__ Element narrow<Element>(float x) {{ return to_{0}(x); }}
)",
            dtype == ir::DType::F16 ? "half" : "bfloat");
    return text;
}

} // namespace lz::runtime::cuda
