/// LLVM, with vectors of 64, 32 and 16 bytes.
#include "ir/kernel/verify.h"
#include "tests/support/kernel_run.h"

namespace lz::test {

void expect_equal(const Launch &l, const std::string &what) {
    ir::verify(l.kernel);
    const Outcome oracle = run_interpreted(l);
    for (const int bytes : {64, 32, 16}) {
        const std::string found = difference(l, oracle, run_compiled(l, isa_with(bytes)));
        EXPECT_EQ(found, "")
            << what << ", vectors of " << bytes << " bytes\n"
            << (found.empty() ? ""
                              : codegen::compile_cpu(l.kernel, isa_with(bytes), {.want_text = true}).text);
    }
}

} // namespace lz::test
