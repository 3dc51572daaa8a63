// Trains a network on handwritten digits (examples/data/digits.csv.gz: 1797 images of 8x8, the label last)
// and looks at those that it has not seen.
//
//   digits examples/data/digits.csv.gz [--epochs n] [--device cuda]
#include <lazuli/data.h>
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace nn = lz::nn;
using lz::Tensor;

struct Net : nn::Module {
    nn::Linear fc1{register_module("fc1", nn::Linear(64, 128))};
    nn::Linear fc2{register_module("fc2", nn::Linear(128, 64))};
    nn::Linear fc3{register_module("fc3", nn::Linear(64, 10))};
    nn::Dropout dropout{register_module("dropout", nn::Dropout(0.2))};

    Tensor forward(const Tensor &x) { return fc3(dropout(lz::relu(fc2(dropout(lz::relu(fc1(x))))))); }
};

/// Images f32[n,64] from 0 to 1 with their labels i64[n].
lz::data::TensorDataset<2> read_digits(const std::string &path) {
    const lz::data::CsvTable table = lz::data::read_csv(path, {.header = false});
    if (table.names().size() != 65 || table.rows() < 10)
        throw std::runtime_error(path + " has " + std::to_string(table.rows()) + " lines of " +
                                 std::to_string(table.names().size()) +
                                 " numbers; images have 64 pixels and a label");
    const Tensor all = table.tensor();
    return lz::data::TensorDataset(all.narrow(1, 0, 64) / 16, all.select(1, 64).to(lz::i64));
}

int main(int argc, char **argv) try {
    if (argc < 2 || argc % 2 != 0)
        throw std::runtime_error("usage: digits examples/data/digits.csv.gz [--epochs n] [--device cuda]");
    const std::string path = argv[1];
    std::map<std::string, std::string> options = {{"--epochs", "100"}, {"--device", "cpu"}};
    for (int i = 2; i < argc; i += 2)
        if (options.contains(argv[i]))
            options[argv[i]] = argv[i + 1];
        else
            throw std::runtime_error(std::string("there is no option ") + argv[i]);
    const int epochs = std::stoi(options["--epochs"]);
    const lz::Device device(options["--device"]);

    // Every fifth image is held out: neighbours in the file are by one writer.
    lz::manual_seed(3);
    const auto digits = read_digits(path);
    std::vector<int64_t> train, test;
    for (int64_t i = 0; i < digits.size(); ++i)
        (i % 5 == 0 ? test : train).push_back(i);
    lz::data::DataLoader loader(lz::data::Subset(digits, train),
                                {.batch_size = 32, .shuffle = true, .device = device});
    auto [images, labels] = digits.get_batch(test);
    images = images.to(device);
    labels = labels.to(device);

    Net net;
    net.to(device);
    lz::optim::AdamW optimizer(net.parameters(), lz::optim::AdamWOptions(2e-3).weight_decay(0.1));
    lz::optim::CosineAnnealingLR schedule(optimizer, epochs);
    std::cout << net << '\n';
    const auto begin = std::chrono::steady_clock::now();
    for (int epoch = 1; epoch <= epochs; ++epoch) {
        net.train();
        Tensor total = lz::zeros({}, {.device = device});
        for (auto [x, y] : loader) {
            optimizer.zero_grad();
            const Tensor loss = lz::cross_entropy(net.forward(x), y);
            loss.backward();
            optimizer.step();
            total += loss.detach() * x.size(0);
            lz::sync(); // one program a step
        }
        schedule.step();
        net.eval();
        const lz::NoGradGuard no_grad;
        const Tensor right = (net.forward(images).argmax(1) == labels).to(lz::f32).mean();
        std::printf("epoch %2d  loss %.4f  accuracy on %zu held-out images %.2f %%\n", epoch,
                    total.item<double>() / static_cast<double>(train.size()), test.size(),
                    right.item<double>() * 100);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const lz::CompileStats stats = lz::compile_stats();
    std::printf("%.1f s; %lld programs compiled, %lld reused\n", took.count(),
                static_cast<long long>(stats.programs_compiled),
                static_cast<long long>(stats.programs_reused));
} catch (const std::exception &error) {
    std::cerr << "digits: " << error.what() << '\n';
    return 1;
}
