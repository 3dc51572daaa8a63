// Loaders and files: S76, S77. tests/data and tests/io have the details.
#include "support.h"

#include <lazuli/data.h>
#include <lazuli/io.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <unistd.h>

namespace {

using namespace lz::test;
using lz::StateDict;
using lz::Tensor;

TEST(Semantics, S76_a_loader_shuffles_with_workers_and_its_batches_reach_the_gpu) {
    LZ_NEEDS_GPUS(2);
    const lz::data::TensorDataset set(lz::arange(64, {.dtype = lz::f32}).view({32, 2}), lz::arange(32));
    std::vector<std::vector<int64_t>> orders;
    for (const int workers : {0, 2}) {
        lz::Generator generator(7);
        lz::data::DataLoader loader(set, {.batch_size = 8,
                                          .shuffle = true,
                                          .num_workers = workers,
                                          .pin_memory = true,
                                          .generator = &generator});
        std::vector<int64_t> order;
        Tensor sum = lz::zeros({2}, {.device = kGpu1});
        for (auto [x, y] : loader) {
            EXPECT_TRUE(x.is_pinned() && y.is_pinned());
            const Tensor there = x.cuda(kGpu1, {.non_blocking = true});
            sum = sum + there.sum(0); // recorded: the next batch is taken before this has run
            const std::vector<int64_t> labels = y.to_vector<int64_t>();
            order.insert(order.end(), labels.begin(), labels.end());
        }
        EXPECT_EQ(floats(sum), (std::vector<float>{32 * 31, 32 * 32}));
        EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 32u);
        orders.push_back(order);
    }
    EXPECT_EQ(orders[0], orders[1]);
    EXPECT_FALSE(std::is_sorted(orders[0].begin(), orders[0].end()));
}

/// The file that the environment names, on a machine without a GPU.
TEST(Child, DISABLED_LoadWithoutAGpu) {
    EXPECT_FALSE(lz::cuda::is_available());
    for (const char *ending : {".safetensors", ".npz"}) {
        const StateDict dict = lz::load(std::string(std::getenv("LAZULI_TEST_FILE")) + ending);
        EXPECT_EQ(floats(dict.at("w")), (std::vector<float>{0, 1, 2, 3}));
        EXPECT_EQ(dict.at("n").item<int64_t>(), 5);
        EXPECT_TRUE(dict.at("w").device().is_cpu());
    }
}

TEST(Semantics, S77_a_file_written_on_a_gpu_loads_on_a_machine_without_one) {
    LZ_NEEDS_GPUS(3);
    const std::string path =
        (std::filesystem::temp_directory_path() / ("lazuli-s77-" + std::to_string(getpid()))).string();
    const StateDict dict{{"w", lz::arange(4, {.dtype = lz::f32, .device = kGpu1}).view({2, 2})},
                         {"n", lz::tensor(5, {.device = kGpu0})}};
    for (const char *ending : {".safetensors", ".npz"}) {
        lz::save(dict, path + ending);
        const StateDict loaded = lz::load(path + ending, {.device = kGpu2});
        EXPECT_EQ(loaded.at("w").device(), kGpu2);
        EXPECT_EQ(floats(loaded.at("w").cpu()), (std::vector<float>{0, 1, 2, 3}));
    }
    run_child("LAZULI_TEST_PLAIN=1 LAZULI_VIRTUAL_GPUS= LAZULI_CUDA_DRIVER=none LAZULI_TEST_CUDA= "
              "LAZULI_TEST_FILE=" +
                  path,
              "LoadWithoutAGpu");
    lz::save(dict.at("w"), path + ".npy");
    EXPECT_EQ(floats(lz::load_tensor(path + ".npy")), (std::vector<float>{0, 1, 2, 3}));
    for (const char *ending : {".safetensors", ".npz", ".npy"})
        std::filesystem::remove(path + ending);
}

TEST(Semantics, S77_a_damaged_file_is_a_clear_error) {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("lazuli-s77-" + std::to_string(getpid()) + ".safetensors"))
            .string();
    lz::save(StateDict{{"w", lz::ones({4})}}, path);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::IoError>([&] { (void)lz::load(path); });
    EXPECT_TRUE(error.has("load: cannot read \"" + path +
                          "\": tensor \"w\" lies at bytes [0, 16] of the 15 bytes of elements"))
        << error.what;
    EXPECT_EQ(error.line, line);
    std::filesystem::remove(path);
}

} // namespace
