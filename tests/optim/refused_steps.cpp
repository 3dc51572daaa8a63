#include "refused_steps.h"

#include "frontend/engine/devices.h"

namespace lz::test {

namespace {

struct Behind {
    std::unique_ptr<runtime::Backend> backend;
};
class Faulty final : private Behind, public runtime::FaultInjectingBackend {
public:
    explicit Faulty(std::unique_ptr<runtime::Backend> backend)
        : Behind{std::move(backend)}, FaultInjectingBackend(*Behind::backend) {}
};

[[maybe_unused]] const bool wrapped = [] {
    engine::Devices::wrap_cpu() = [](runtime::Backend &backend) {
        auto faulty = std::make_unique<runtime::FaultInjectingBackend>(backend);
        faulty_cpu() = faulty.get();
        return faulty;
    };
    engine::Devices::wrap() = [](std::unique_ptr<runtime::Backend> backend) {
        auto faulty = std::make_unique<Faulty>(std::move(backend));
        faulty_gpus().push_back(faulty.get());
        return faulty;
    };
    return true;
}();

} // namespace

std::vector<runtime::FaultInjectingBackend *> &faulty_gpus() {
    static std::vector<runtime::FaultInjectingBackend *> gpus;
    return gpus;
}
runtime::FaultInjectingBackend *&faulty_cpu() {
    static runtime::FaultInjectingBackend *cpu = nullptr;
    return cpu;
}

} // namespace lz::test
