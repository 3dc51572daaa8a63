#pragma once
/// Memory of a device that is not there, for tests of the PTX interpreter.

#include "tests/support/cuda/ptx/machine.h"

#include <cstring>
#include <map>
#include <vector>

namespace lz::test {

/// Allocations at addresses that mean nothing to the host, far apart: what reaches out of one is in none.
class DeviceMemory {
public:
    template <class T>
    uint64_t put(const std::vector<T> &values) {
        const uint64_t at = next_;
        auto &bytes = blocks_[at];
        bytes.resize(values.size() * sizeof(T));
        if (!values.empty()) // which may have no address
            std::memcpy(bytes.data(), values.data(), bytes.size());
        next_ += (bytes.size() + 0xffff) / 0x10000 * 0x10000 + 0x10000;
        return at;
    }
    template <class T>
    std::vector<T> get(uint64_t at) const {
        const auto &bytes = blocks_.at(at);
        std::vector<T> values(bytes.size() / sizeof(T));
        if (!values.empty())
            std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    }
    bool find(uint64_t address, ptx::Range &range) {
        auto after = blocks_.upper_bound(address);
        if (after == blocks_.begin())
            return false;
        auto &[begin, bytes] = *--after;
        range = {begin, begin + bytes.size(), bytes.data(), true};
        return address < range.end;
    }

private:
    uint64_t next_ = uint64_t{0x7f} << 40;
    std::map<uint64_t, std::vector<unsigned char>> blocks_;
};

/// A kernel of a module, its arguments, and a launch.
class PtxProgram {
public:
    explicit PtxProgram(std::string text) : text_(std::move(text)), module_(ptx::parse(text_, place, this)) {}

    template <class... A>
    ptx::Counts run(const char *kernel, ptx::Dim grid, ptx::Dim block, DeviceMemory &memory, A... arguments) {
        const ptx::Kernel &k = module_.kernels.at(kernel);
        std::vector<unsigned char> parameters(k.parameter_bytes);
        size_t i = 0;
        (std::memcpy(parameters.data() + k.parameters.at(i++).at, &arguments, sizeof arguments), ...);
        return launch(kernel, grid, block, memory, parameters);
    }
    /// The same with parameters as they lie in memory.
    ptx::Counts launch(const std::string &kernel, ptx::Dim grid, ptx::Dim block, DeviceMemory &memory,
                       const std::vector<unsigned char> &parameters) {
        ptx::Launch launch;
        launch.grid = grid;
        launch.block = block;
        launch.parameters = parameters;
        launch.seed = seed;
        launch.first = first;
        launch.max_instructions = max_instructions;
        launch.dynamic_shared = dynamic_shared;
        launch.count_bank_conflicts = count_bank_conflicts;
        launch.check_global_races = check_global_races;
        launch.find = [&](uint64_t address, ptx::Range &range) {
            return find_variable(address, range) || memory.find(address, range);
        };
        return ptx::run(module_.kernels.at(kernel), launch);
    }
    const ptx::Module &module() const { return module_; }

    uint64_t seed = 1;
    uint64_t first = 0;                    ///< block that is run: ptx::Launch::first
    uint64_t max_instructions = 5'000'000; ///< of a warp
    uint32_t dynamic_shared = 0;
    bool count_bank_conflicts = false;
    bool check_global_races = false;

private:
    static void place(ptx::Variable &v, void *self) {
        auto &next = static_cast<PtxProgram *>(self)->next_variable_;
        v.address = next = (next + v.align - 1) / v.align * v.align;
        next += v.bytes.size();
    }
    bool find_variable(uint64_t address, ptx::Range &range) {
        for (ptx::Variable &v : module_.variables)
            if (address >= v.address && address < v.address + v.bytes.size()) {
                range = {v.address, v.address + v.bytes.size(), v.bytes.data(), true};
                return true;
            }
        return false;
    }

    uint64_t next_variable_ = uint64_t{0x7e} << 40;
    std::string text_;
    ptx::Module module_;
};

} // namespace lz::test
