#pragma once
/// What this x86-64 processor can do, in LLVM's words.

#include <string>
#include <string_view>
#include <vector>

namespace lz::codegen {

/// The features that the processor has and the system saves registers for, of those that code of kernels may
/// use. None where the processor is no x86-64.
class X86Features {
public:
    explicit X86Features(std::vector<std::string_view> sorted) : names_(std::move(sorted)) {}
    bool has(std::string_view name) const;
    /// LLVM's form: "+avx,+avx2,...", sorted.
    std::string text() const;

private:
    std::vector<std::string_view> names_;
};
X86Features x86_features();

/// All names that are asked for.
std::vector<std::string_view> known_x86_features();

} // namespace lz::codegen
