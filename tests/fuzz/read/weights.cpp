// libFuzzer: safetensors files that program files refer to, as the runtime reads them. What `load` accepts,
// it does, too, and finds the same in it.
#include "safetensors.h"

#include "frontend/io/formats.h"
#include "ir/diagnostic.h"
#include "runtime/saved/weights_file.h"

#include <memory>
#include <span>

namespace {

using namespace lz;

void need(bool good) {
    if (!good)
        std::abort();
}

/// Null where it is refused, as it has to be.
std::unique_ptr<const runtime::WeightsFile> opened(const std::string &path) {
    try {
        runtime::read_weights_index(path);
    } catch (const ir::Failure &failure) {
        need(failure.kind() == ir::ErrorKind::Io);
    }
    try {
        return std::make_unique<const runtime::WeightsFile>(path);
    } catch (const ir::Failure &failure) {
        need(failure.kind() == ir::ErrorKind::Io);
        return nullptr;
    }
}

/// The elements, once read and once mapped.
std::vector<std::byte> elements_of(const runtime::WeightsFile &file, const runtime::WeightsTensor &tensor) {
    const std::unique_ptr<std::byte[]> block(new std::byte[tensor.bytes]); // it ends where they end
    file.read(tensor, {block.get(), tensor.bytes});
    std::vector<std::byte> elements(block.get(), block.get() + tensor.bytes);
    const std::shared_ptr<const std::byte> pages = file.map();
    need(std::equal(elements.begin(), elements.end(), pages.get() + tensor.begin));
    return elements;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    return lz::fuzz::mutate(data, size, max_size, seed, lz::fuzz::change_safetensors);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static lz::fuzz::MemoryFile memory;
    memory.write(data, size);
    const std::unique_ptr<const runtime::WeightsFile> file = opened(memory.path());
    if (file)
        for (const runtime::WeightsTensor &tensor : file->tensors()) {
            need(file->find(tensor.name) == &tensor);
            elements_of(*file, tensor);
        }
    StateDict loaded;
    try {
        loaded = io::read_safetensors(
            {"input", {reinterpret_cast<const std::byte *>(data), size}, nullptr, "load", {}});
    } catch (const IoError &) {
        return 0;
    }
    need(file && file->tensors().size() == loaded.size());
    for (const auto &[name, tensor] : loaded) {
        const runtime::WeightsTensor *const found = file->find(name);
        need(found && found->dtype && static_cast<int>(*found->dtype) == static_cast<int>(tensor.dtype()));
        need(std::ranges::equal(found->extents, tensor.sizes()));
        const std::vector<std::byte> elements = elements_of(*file, *found);
        need(elements.empty() || std::memcmp(elements.data(), tensor.data<void>(), elements.size()) == 0);
    }
    return 0;
}
