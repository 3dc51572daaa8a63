#include "runtime/saved/library_code.h"

#include "ir/diagnostic.h"

#include <xxhash.h>

#include <algorithm>

namespace lz::runtime {

uint64_t hash_of(const KernelSource &source) {
    return XXH3_64bits(source.text.data(), source.text.size());
}

std::vector<int64_t> ints_of(const ir::Step &step, std::span<const int64_t> words) {
    std::vector<int64_t> ints;
    for (const ir::ArgSpec &spec : step.ints) {
        int64_t &value = ints.emplace_back(spec.constant);
        for (const ir::ArgSpec::Term &term : spec.terms) {
            if (term.word >= words.size())
                throw ir::Failure(ir::ErrorKind::Io, "is damaged: a call reads a word that is not there");
            value += term.coefficient * words[term.word];
        }
    }
    return ints;
}

void LibraryCode::add(const ir::SavedProgram &file) {
    const std::lock_guard lock(mutex_);
    for (const ir::SavedLibraryKernel &kernel : file.library)
        for (const uint32_t c : kernel.code) {
            const ir::SavedCode &code = file.code[c];
            auto &known = kernels_[kernel.source];
            const auto same = [&](const auto &k) { return k->sm == code.sm && k->format == code.format; };
            if (std::ranges::none_of(known, same))
                known.push_back(std::make_unique<const ir::SavedCode>(code));
        }
}

const ir::SavedCode *LibraryCode::find(const KernelSource &source, uint32_t sm) const {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(hash_of(source));
    if (found == kernels_.end())
        return nullptr;
    std::vector<const ir::SavedCode *> code;
    for (const auto &one : found->second)
        code.push_back(one.get());
    return ir::best_code(code, sm);
}

bool LibraryCode::has(const KernelSource &source, uint32_t sm) const {
    return find(source, sm) != nullptr;
}

std::shared_ptr<const Module> LibraryCode::load(const KernelSource &source, Backend &backend) const {
    const DeviceProperties properties = backend.properties();
    const ir::SavedCode *const code =
        properties.cuda ? find(source, static_cast<uint32_t>(properties.cuda->sm)) : nullptr;
    if (!code)
        return nullptr;
    return backend.load(*code);
}

} // namespace lz::runtime
