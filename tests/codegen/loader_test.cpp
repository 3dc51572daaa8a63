#include "ir/kernel/builder.h"
#include "tests/support/kernel_run.h"

#include "ir/diagnostic.h"

#include <fstream>
#include <thread>

namespace lz::test {
namespace {

using namespace ir;

Launch scaled(double factor) {
    return elementwise({DType::F32}, 100, 64, [&](KernelBuilder &b, auto &x) {
        return b.mul(x[0], b.constant(DType::F32, factor));
    });
}

size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

TEST(Loader, CodeIsUnloadedWithItsModule) {
    const CompiledKernel compiled = codegen::compile_cpu(scaled(2).kernel, codegen::host_isa());
    const runtime::ModuleLoader load = codegen::cpu_loader();
    load(compiled);
    const size_t before = mappings();
    for (int i = 0; i < 200; ++i)
        load(compiled);
    EXPECT_LE(mappings(), before + 20);
}

TEST(Loader, ManyModulesOfOneSymbolLiveSideBySide) {
    std::vector<std::unique_ptr<runtime::Module>> modules;
    for (int i = 0; i < 20; ++i)
        modules.push_back(codegen::cpu_loader()(codegen::compile_cpu(scaled(i).kernel, codegen::host_isa())));
    for (int i = 0; i < 20; ++i) {
        const Launch l = scaled(i);
        Outcome o = prepare(l, 1, false);
        with_frame(l, o, [&](const KernelFrame &f, void *worker) {
            reinterpret_cast<PhaseEntry>(modules[static_cast<size_t>(i)]->entry("phase0"))(&f, 0, 2, worker);
        });
        EXPECT_EQ(difference(l, run_interpreted(l, 1, false), o), "");
    }
}

TEST(Loader, CompilesAndLoadsFromManyThreadsAtOnce) {
    std::vector<std::thread> threads;
    std::vector<std::string> found(4);
    for (size_t t = 0; t < found.size(); ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 5 && found[t].empty(); ++i) {
                const Launch l = scaled(static_cast<double>(t) + i);
                found[t] = difference(l, run_interpreted(l), run_compiled(l, codegen::host_isa()));
            }
        });
    for (std::thread &t : threads)
        t.join();
    for (const std::string &f : found)
        EXPECT_EQ(f, "");
}

TEST(Loader, EqualKernelsAreEqualBytesWhateverTheirName) {
    Launch a = scaled(3), b = scaled(3);
    b.kernel.name = "another";
    EXPECT_EQ(codegen::compile_cpu(a.kernel, codegen::host_isa()).object,
              codegen::compile_cpu(b.kernel, codegen::host_isa()).object);
}

/// A thread's pipeline of LLVM serves one kernel after the other: the first that a thread compiles is made by
/// a new one.
TEST(Loader, AKernelsBytesDoNotDependOnWhatItsThreadCompiledBefore) {
    const Launch roots = elementwise({DType::F64, DType::F64}, 1000, 7, [](KernelBuilder &b, auto &x) {
        return b.select(b.lt(x[0], x[1]), b.sqrt(x[0]), b.div(x[1], x[0]));
    });
    const auto made = [](const Launch &l) {
        return codegen::compile_cpu(l.kernel, codegen::host_isa()).object;
    };
    const auto by_new_thread = [&](const Launch &l) {
        std::vector<std::byte> object;
        std::thread([&] { object = made(l); }).join();
        return object;
    };
    const auto plain = by_new_thread(scaled(2)), other = by_new_thread(roots);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(made(scaled(2)), plain);
        EXPECT_EQ(made(roots), other);
    }
    EXPECT_NE(plain, other);
}

TEST(Loader, DamagedBytesAreATypedError) {
    CompiledKernel compiled = codegen::compile_cpu(scaled(2).kernel, codegen::host_isa());
    compiled.object.resize(10);
    try {
        codegen::cpu_loader()(compiled);
        FAIL() << "ten bytes were loaded";
    } catch (const Failure &f) {
        EXPECT_EQ(f.kind(), ErrorKind::Compile);
        EXPECT_NE(f.message().find("could not be loaded"), std::string::npos);
    }
}

TEST(Compile, TextAndAssemblyAreGivenWhenAskedFor) {
    const CompiledKernel compiled =
        codegen::compile_cpu(scaled(2).kernel, codegen::host_isa(),
                             {.want_text = true, .want_assembly = true, .fast_math = false});
    EXPECT_NE(compiled.text.find("define void @phase0"), std::string::npos);
    EXPECT_NE(compiled.assembly.find("phase0:"), std::string::npos);
    EXPECT_EQ(codegen::compile_cpu(scaled(2).kernel, codegen::host_isa()).text, "");
}

TEST(Compile, AnUnknownMachineIsATypedError) {
    CpuIsa isa;
    isa.triple = "pdp11-unknown-unix";
    try {
        codegen::compile_cpu(scaled(2).kernel, isa);
        FAIL() << "code for a PDP-11";
    } catch (const Failure &f) {
        EXPECT_EQ(f.kind(), ErrorKind::Compile);
        EXPECT_NE(f.message().find("pdp11"), std::string::npos);
    }
}

TEST(Compile, NothingIsContractedUnlessAskedFor) {
    const Launch l = elementwise({DType::F32, DType::F32, DType::F32}, 100, 64,
                                 [](KernelBuilder &b, auto &x) { return b.add(b.mul(x[0], x[1]), x[2]); });
    const auto assembly = [&](bool fast) {
        return codegen::compile_cpu(l.kernel, codegen::host_isa(),
                                    {.want_text = false, .want_assembly = true, .fast_math = fast})
            .assembly;
    };
    EXPECT_EQ(assembly(false).find("vfmadd"), std::string::npos);
    if (codegen::host_isa().fma) {
        EXPECT_NE(assembly(true).find("vfmadd"), std::string::npos);
    }
}

TEST(Compile, FastConversionsToHalfCallNoFunction) {
    const Launch l = elementwise({DType::F64}, 100, 64,
                                 [](KernelBuilder &b, auto &x) { return b.cast(x[0], DType::F16); });
    const CompiledKernel compiled =
        codegen::compile_cpu(l.kernel, codegen::host_isa(), {.want_assembly = true, .fast_math = true});
    EXPECT_EQ(compiled.assembly.find("call"), std::string::npos) << compiled.assembly;
}

} // namespace
} // namespace lz::test
