/// LLVM, with vectors of 64, 32 and 16 bytes.
#include "ir/kernel/verify.h"
#include "tests/support/kernel_run.h"

namespace lz::test {

void expect_equal(const Launch &l, const std::string &what) {
    ir::verify(l.kernel);
    for (const bool corners : {true, false}) {
        if (!corners && !is_hidden_by_corners(l.kernel))
            return;
        const Outcome oracle = run_interpreted(l, 1, corners);
        for (const int bytes : {64, 32, 16}) {
            const std::string found = difference(l, oracle, run_compiled(l, isa_with(bytes), 3, 1, corners));
            EXPECT_EQ(found, "")
                << what << (corners ? "" : " without corners") << ", vectors of " << bytes << " bytes\n"
                << (found.empty()
                        ? ""
                        : codegen::compile_cpu(l.kernel, isa_with(bytes), {.want_text = true}).text);
        }
    }
}

} // namespace lz::test
