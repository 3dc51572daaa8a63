// Loading 1 GiB of safetensors from the page cache: the tensors are the file's pages, and nothing is copied.
// The file is made in a temporary directory, which is removed.
//
//   bench_files
//
// `copied` is what loading takes of the allocator's memory. With `pages_touched` one number of each page of
// every sixteenth tensor is read after it, as when a part of a model is used.
#include <lazuli/io.h>
#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

namespace fs = std::filesystem;

constexpr int64_t kTensors = 64, kTensorBytes = int64_t{16} << 20, kBytes = kTensors * kTensorBytes;

/// A folder with the file, whole or in four parts with an index.
class Files {
public:
    explicit Files(bool sharded) {
        std::string name = (fs::temp_directory_path() / "lazuli-bench-XXXXXX").string();
        if (!mkdtemp(name.data()))
            return;
        folder_ = name;
        if (fs::space(folder_).available < static_cast<uintmax_t>(kBytes + kBytes / 8))
            return;
        const lz::Tensor one = lz::rand({kTensorBytes / 4});
        lz::StateDict all;
        for (int64_t i = 0; i < kTensors; ++i)
            all.insert("layer" + std::to_string(i) + ".weight", one);
        const std::string path = folder_ / "model.safetensors";
        lz::save(all, path, {.max_shard_bytes = sharded ? kBytes / 4 : 0});
        path_ = sharded ? path + ".index.json" : path;
    }
    Files(const Files &) = delete;
    Files &operator=(const Files &) = delete;
    ~Files() {
        std::error_code ignored;
        if (!folder_.empty())
            fs::remove_all(folder_, ignored);
    }
    /// Empty where there is no room.
    const std::string &path() const { return path_; }

private:
    fs::path folder_;
    std::string path_;
};

/// Made once, and removed when the process ends.
const Files &made(bool sharded) {
    static const Files whole(false), parts(true);
    return sharded ? parts : whole;
}

void load_1GiB(benchmark::State &state, bool sharded, bool touch) {
    const Files &files = made(sharded);
    if (files.path().empty()) {
        state.SkipWithError("there is no room for 1 GiB in the temporary directory");
        return;
    }
    int64_t copied = 0;
    float sum = 0;
    for (auto _ : state) {
        const int64_t before = lz::memory_allocated();
        const lz::StateDict loaded = lz::load(files.path());
        copied = lz::memory_allocated() - before;
        if (loaded.size() != static_cast<size_t>(kTensors)) {
            state.SkipWithError("tensors are missing");
            break;
        }
        for (size_t i = 0; touch && i < loaded.size(); i += 16) {
            const auto *const numbers = loaded.items()[i].second.data<float>();
            for (int64_t at = 0; at < kTensorBytes / 4; at += 1024)
                sum += numbers[at];
        }
        benchmark::DoNotOptimize(sum);
    }
    state.counters["copied"] = static_cast<double>(copied);
}

BENCHMARK_CAPTURE(load_1GiB, safetensors, false, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load_1GiB, sharded_safetensors, true, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load_1GiB, pages_touched, false, true)->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
