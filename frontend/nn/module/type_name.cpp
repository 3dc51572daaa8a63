#include "frontend/nn/module/type_name.h"

#include <cstdlib>
#include <cxxabi.h>
#include <memory>

namespace lz::nn::detail {

std::string type_name(const std::type_info &type) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void *)> demangled(
        abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
    std::string name = status == 0 ? demangled.get() : type.name();
    if (const size_t arguments = name.find('<'); arguments != std::string::npos)
        name.resize(arguments);
    if (const size_t space = name.rfind("::"); space != std::string::npos)
        name.erase(0, space + 2);
    if (name.size() > 4 && name.ends_with("Impl"))
        name.resize(name.size() - 4);
    return name;
}

} // namespace lz::nn::detail
