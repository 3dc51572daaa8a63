// Launches on the device, as the runtime makes them.
#include "emitted/emitted.h"

#include "device.h"
#include "ir/kernel/key.h"
#include "runtime/api/unaligned_kernel.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>

namespace lz::test {

using namespace ir;

namespace {

struct Loaded {
    CompiledKernel code;
    std::unique_ptr<runtime::Module> module;
    std::unique_ptr<runtime::UnalignedKernel> unaligned;
};

const Loaded &loaded(const Kernel &kernel) {
    static auto *const known = new std::map<std::string, Loaded>;
    const std::string key = cache_key(kernel);
    if (const auto at = known->find(key); at != known->end())
        return at->second;
    Loaded made{gpu()->compiler->compile(kernel), nullptr, nullptr};
    made.module = gpu()->backend->load(made.code);
    made.unaligned = std::make_unique<runtime::UnalignedKernel>([kernel]() -> runtime::LoadedKernel {
        const CompiledKernel other = gpu()->compiler->compile(any_address(kernel));
        return {gpu()->backend->load(other), other.phases};
    });
    return known->emplace(key, std::move(made)).first->second;
}

void move_bytes(void *to, const void *from, size_t bytes) {
    runtime::Backend &backend = *gpu()->backend;
    backend.copy(to, from, bytes, 0);
    backend.synchronize(0, backend.record(0));
}

/// A segment's memory on the device. Around each buffer lie bytes that nothing may write.
class OnDevice {
public:
    OnDevice(const Launch &l, const CudaRun &run, uint64_t seed) : outcome_(prepare(l, seed, run.corners)) {
        runtime::Backend &backend = *gpu()->backend;
        for (size_t b = 0; b < outcome_.buffers.size(); ++b) {
            // Temporaries are planned, and so aligned.
            const bool planned = l.kernel.buffers[b].mode == BufferMode::Temp;
            const size_t shift =
                planned ? 0 : static_cast<size_t>(run.shift * size_of(l.kernel.buffers[b].dtype));
            std::vector<std::byte> bytes(kGuard + shift + outcome_.buffers[b].size() + kGuard, kUntouched);
            std::copy_n(outcome_.buffers[b].data(), outcome_.buffers[b].size(),
                        bytes.data() + kGuard + shift);
            auto *const memory = static_cast<std::byte *>(backend.allocate(bytes.size()));
            move_bytes(memory, bytes.data(), bytes.size());
            blocks_.push_back({memory, bytes.size(), kGuard + shift});
            pointers_.push_back(memory + kGuard + shift);
        }
        checks_ = static_cast<size_t>(std::ranges::count_if(
            l.kernel.instrs, [](const Instr &i) { return info(i.op).cls == KOpClass::Check; }));
        faults_ = backend.allocate_faults(checks_ + 1);
        frame_ = {pointers_.data(), l.args.data(), l.scalars.data(), faults_};
    }
    ~OnDevice() {
        for (const Block &block : blocks_)
            gpu()->backend->free(block.memory, block.bytes);
        gpu()->backend->free_faults(faults_, checks_ + 1);
    }
    OnDevice(const OnDevice &) = delete;
    OnDevice &operator=(const OnDevice &) = delete;

    const KernelFrame &frame() const { return frame_; }

    Outcome take() {
        for (size_t b = 0; b < outcome_.buffers.size(); ++b) {
            std::vector<std::byte> bytes(blocks_[b].bytes);
            move_bytes(bytes.data(), blocks_[b].memory, bytes.size());
            const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(blocks_[b].shift),
                       end = begin + static_cast<std::ptrdiff_t>(outcome_.buffers[b].size());
            const auto untouched = [](std::byte x) { return x == kUntouched; };
            EXPECT_TRUE(std::all_of(bytes.begin(), begin, untouched) &&
                        std::all_of(end, bytes.end(), untouched))
                << "something was written beside buffer " << b;
            std::copy(begin, end, outcome_.buffers[b].data());
        }
        const Fault *found = nullptr;
        for (size_t i = 0; i <= checks_; ++i) {
            outcome_.faults.push_back(faults_[i].code);
            if (!found && (faults_[i].code != 0 || i == checks_))
                found = &faults_[i];
        }
        outcome_.fault = found->code;
        outcome_.fault_source = found->source;
        outcome_.fault_value = found->value;
        outcome_.fault_limit = found->limit;
        return std::move(outcome_);
    }

private:
    static constexpr size_t kGuard = 512;
    static constexpr std::byte kUntouched{0x5a};
    struct Block {
        std::byte *memory;
        size_t bytes, shift;
    };
    Outcome outcome_;
    std::vector<Block> blocks_;
    std::vector<void *> pointers_;
    size_t checks_ = 0;
    Fault *faults_ = nullptr;
    KernelFrame frame_{};
};

} // namespace

const std::string &why_not_run() {
    return why_no_gpu();
}

std::vector<Outcome> run_cuda(std::span<const Launch> segments, const CudaRun &run) {
    if (run.bank_conflicts) // a device does not say
        *run.bank_conflicts = 0;
    const Kernel &kernel = segments[0].kernel;
    const Loaded &code = loaded(kernel);
    std::vector<std::unique_ptr<OnDevice>> device;
    std::vector<KernelFrame> frames;
    for (const Launch &l : segments) {
        device.push_back(std::make_unique<OnDevice>(l, run, run.seed + device.size()));
        frames.push_back(device.back()->frame());
    }
    for (size_t p = 0; p < kernel.phases.size(); ++p) {
        std::vector<int64_t> ends;
        int64_t items = 0;
        for (const Launch &l : segments)
            ends.push_back(items += work_items(kernel, kernel.phases[p], l.args));
        if (items == 0)
            continue;
        runtime::Backend::Launch launch{};
        launch.entry = code.module->entry(code.code.phases[p].symbol);
        launch.frames = frames.data();
        launch.ends = ends.data();
        launch.segments = static_cast<uint32_t>(frames.size());
        launch.buffers = static_cast<uint32_t>(kernel.buffers.size());
        launch.args = static_cast<uint32_t>(kernel.args.size());
        launch.scalars = static_cast<uint32_t>(kernel.scalars.size());
        launch.unaligned = code.unaligned.get();
        launch.phase = static_cast<uint32_t>(p);
        gpu()->backend->launch(launch, 0);
    }
    gpu()->backend->synchronize(0, gpu()->backend->record(0));
    std::vector<Outcome> all;
    for (const auto &d : device)
        all.push_back(d->take());
    return all;
}

} // namespace lz::test
