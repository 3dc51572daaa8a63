// A network becomes a file, and the file runs without it: what one process trains, another one serves.
//
//   program_file save FILE    writes it
//   program_file run FILE     loads it (where there need be no compiler) and prints what it gives;
//   run_program.cpp
//                             does so without liblazuli.so
//   program_file              both, one after the other
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

void save(const std::string &path) {
    lz::manual_seed(1);
    auto net = lz::nn::Sequential(lz::nn::Linear(4, 16), lz::nn::Tanh(), lz::nn::Linear(16, 3));
    const lz::NoGradGuard guard;
    auto classify = lz::compile([&](const lz::Tensor &x) {
        const lz::Tensor p = lz::softmax(net(x), -1);
        return std::pair(p, lz::argmax(p, -1));
    });
    for (int64_t batch : {1, 4}) // a signature for each shape
        for (int call = 0; call < 3; ++call)
            classify(lz::randn({batch, 4}));
    lz::save_program(path, classify, {.inputs = {"x"}, .outputs = {"p", "best"}, .name = "classify"});
}

void run(const std::string &path, bool with_numbers) {
    const lz::Program classify = lz::load_program(path);
    for (const lz::ProgramSignature &signature : classify.signatures()) {
        std::printf("takes");
        for (const lz::ProgramTensor &t : signature.inputs)
            std::printf(" %s: %s of %zu axes", t.name.c_str(), std::string(lz::name(t.dtype)).c_str(),
                        t.shape.size());
        std::printf(", gives %zu tensors\n", signature.outputs.size());
    }
    const lz::Tensor x = lz::arange(16).reshape({4, 4}).to(lz::f32) * 0.125 - 1;
    const std::vector<lz::Tensor> out = classify({x});
    if (with_numbers)
        for (const float p : out[0].to_vector<float>())
            std::printf("%.9g\n", p);
    std::printf("rows sum to %.4f\n", out[0].sum().item<double>() / 4);
    try {
        classify({lz::ones({5, 4})});
    } catch (const lz::ShapeError &error) {
        std::printf("%s\n", error.what());
    }
}

int main(int argc, char **argv) {
    if (argc == 3 && std::strcmp(argv[1], "save") == 0) {
        save(argv[2]);
    } else if (argc == 3 && std::strcmp(argv[1], "run") == 0) {
        run(argv[2], true);
    } else {
        const std::string path =
            (std::filesystem::temp_directory_path() / "lazuli_program_file.lzp").string();
        save(path);
        run(path, false);
        std::filesystem::remove(path);
    }
}
