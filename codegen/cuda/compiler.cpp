#include "codegen/cuda/compiler.h"

#include "codegen/cuda/source.h"
#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace lz::codegen {

namespace {

class CudaCompiler final : public Compiler {
public:
    CudaCompiler(const Nvrtc &nvrtc, int sm, const CompileOptions &options, CudaCode code)
        : nvrtc_(nvrtc), options_(options) {
        int major = 0, minor = 0, count = 0;
        check(nvrtc_.version(&major, &minor), "its version");
        check(nvrtc_.num_archs(&count), "its architectures");
        std::vector<int> archs(static_cast<size_t>(count));
        check(nvrtc_.archs(archs.data()), "its architectures");
        // A device runs what was made for an older one of its generation; newer ones finish PTX of any.
        const auto known = std::ranges::find(archs, sm);
        is_cubin_ = code == CudaCode::Fitting && known != archs.end();
        int arch = 0;
        for (const int a : archs)
            arch = a <= sm ? std::max(arch, a) : arch;
        if (arch == 0)
            throw ir::Failure(
                ir::ErrorKind::Compile,
                fmt::format("NVRTC {}.{} has no architecture that sm_{} runs: the oldest is sm_{}.", major,
                            minor, sm, *std::ranges::min_element(archs)));
        architecture_ = fmt::format("--gpu-architecture={}_{}", is_cubin_ ? "sm" : "compute", arch);
        key_ = fmt::format("CUDA C++, emitter {}, NVRTC {}.{}, {}, operations {}", kCudaEmitterVersion, major,
                           minor, architecture_, kEmitterVersion);
    }

    const std::string &key() const override { return key_; }
    FileEndings endings() const override { return {"cu", "ptx"}; }

    ir::CompiledKernel compile(const ir::Kernel &kernel) const override {
        cuda::Source source = cuda::make_source(kernel);
        ir::CompiledKernel compiled;
        compiled.name = kernel.name;
        compiled.phases = std::move(source.phases);
        compiled.format = is_cubin_ ? ir::CodeFormat::Cubin : ir::CodeFormat::Ptx;
        const Unit unit(*this, kernel, source.text);
        compiled.object =
            is_cubin_ ? unit.get(nvrtc_.cubin_size, nvrtc_.cubin) : unit.get(nvrtc_.ptx_size, nvrtc_.ptx);
        if (options_.want_assembly) {
            const auto ptx = unit.get(nvrtc_.ptx_size, nvrtc_.ptx);
            compiled.assembly.assign(reinterpret_cast<const char *>(ptx.data()), ptx.size());
            compiled.assembly.resize(std::strlen(compiled.assembly.c_str()));
        }
        if (options_.want_text)
            compiled.text = std::move(source.text);
        return compiled;
    }

private:
    /// A source that NVRTC compiles, and what comes of it.
    class Unit {
    public:
        Unit(const CudaCompiler &by, const ir::Kernel &kernel, const std::string &text)
            : n_(by.nvrtc_), by_(by) {
            by.check(n_.create(&program_, text.c_str(), "kernel.cu", 0, nullptr, nullptr), "a program");
            const char *const options[] = {by.architecture_.c_str(), "--minimal", "--fmad=false"};
            const int error = n_.compile(program_, static_cast<int>(std::size(options)), options);
            if (error == 0)
                return;
            const std::string log = text_of_log();
            n_.destroy(&program_);
            throw ir::Failure(ir::ErrorKind::Compile,
                              fmt::format("NVRTC could not compile kernel {} ({}):\n{}\n{}", kernel.name,
                                          n_.error(error), log, text));
        }
        ~Unit() { n_.destroy(&program_); }
        Unit(const Unit &) = delete;
        Unit &operator=(const Unit &) = delete;

        std::vector<std::byte> get(int (*size_of)(Nvrtc::Program, size_t *),
                                   int (*read)(Nvrtc::Program, char *)) const {
            size_t size = 0;
            by_.check(size_of(program_, &size), "code");
            std::vector<std::byte> bytes(size);
            by_.check(read(program_, reinterpret_cast<char *>(bytes.data())), "code");
            return bytes;
        }

    private:
        std::string text_of_log() const {
            size_t size = 0;
            if (n_.log_size(program_, &size) != 0)
                return "";
            std::string log(size, '\0');
            if (n_.log(program_, log.data()) != 0)
                return "";
            log.resize(std::strlen(log.c_str()));
            return log;
        }

        const Nvrtc &n_;
        const CudaCompiler &by_;
        Nvrtc::Program program_ = nullptr;
    };

    void check(int error, std::string_view what) const {
        if (error != 0)
            throw ir::Failure(ir::ErrorKind::Compile,
                              fmt::format("NVRTC did not give {}: {}.", what, nvrtc_.error(error)));
    }

    const Nvrtc nvrtc_;
    const CompileOptions options_;
    std::string architecture_, key_;
    bool is_cubin_ = false;
};

} // namespace

std::unique_ptr<Compiler> make_cuda_compiler(const Nvrtc &nvrtc, int sm, CompileOptions options,
                                             CudaCode code) {
    return std::make_unique<CudaCompiler>(nvrtc, sm, options, code);
}

} // namespace lz::codegen
