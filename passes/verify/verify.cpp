#include "passes/verify/verify.h"

#include "ir/diagnostic.h"
#include "ir/graph/verify.h"
#include "ir/program/verify.h"

#include <fmt/format.h>

namespace lz::passes {

namespace {

template <class F>
void naming(std::string_view pass, F &&check) {
    try {
        check();
    } catch (const ir::Failure &f) {
        throw ir::Failure(f.kind(), fmt::format("after pass {}: {}", pass, f.message()), f.loc(), f.node());
    }
}

} // namespace

void verify_after(std::string_view pass, const ir::Graph &graph) {
    naming(pass, [&] { ir::verify(graph); });
}

void verify_after(std::string_view pass, const ir::Program &program) {
    naming(pass, [&] { ir::verify(program); });
}

} // namespace lz::passes
