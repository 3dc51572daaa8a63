// The forward pass of GPT-2 (Radford et al. 2019), with the weights of a safetensors file or random ones, and
// how long it takes.
//
//   gpt2 [--weights model.safetensors] [--tokens 464,3290,318] [--generate n] [--batch n] [--length n]
//        [--repeat n] [--device cuda] [--dtype bf16] [--layers n] [--width n] [--heads n] [--vocabulary n]
//        [--context n]
//
// The names of the parameters are those of the published files. Without --tokens the text is random numbers,
// --batch rows of --length. --generate goes on from the first row with the likeliest token each time.
#include "gpt2.h"

#include <lazuli/device/cuda.h>
#include <lazuli/io.h>
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using lz::Tensor;

/// What the files have beside parameters is left out: masks of attention, and the name of the whole.
lz::StateDict read_weights(const std::string &path) {
    lz::StateDict weights;
    for (const auto &[name, tensor] : lz::load(path)) {
        const std::string prefix = "transformer.";
        const std::string own = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
        if (!own.ends_with(".attn.bias") && !own.ends_with(".attn.masked_bias") && own != "lm_head.weight")
            weights.insert(own, tensor);
    }
    return weights;
}

Tensor read_tokens(const std::string &text) {
    std::vector<int64_t> tokens;
    std::istringstream stream(text);
    for (std::string number; std::getline(stream, number, ',');)
        tokens.push_back(std::stoll(number));
    return lz::tensor(tokens).unsqueeze(0);
}

int main(int argc, char **argv) try {
    std::map<std::string, std::string> options = {
        {"--weights", ""},    {"--tokens", ""},   {"--generate", "0"}, {"--batch", "1"},
        {"--length", "128"},  {"--repeat", "5"},  {"--device", "cpu"}, {"--dtype", "f32"},
        {"--layers", "12"},   {"--width", "768"}, {"--heads", "12"},   {"--vocabulary", "50257"},
        {"--context", "1024"}};
    for (int i = 1; i < argc; i += 2) {
        if (!options.contains(argv[i]) || i + 1 == argc)
            throw std::runtime_error(std::string("there is no option ") + argv[i] +
                                     ", or its value is missing");
        options[argv[i]] = argv[i + 1];
    }
    const auto number = [&](const char *name) { return std::stoll(options[name]); };
    if (options["--dtype"] != "f32" && options["--dtype"] != "bf16")
        throw std::runtime_error("--dtype is f32 or bf16, and not " + options["--dtype"]);
    const lz::Device device(options["--device"]);

    lz::manual_seed(1);
    const lz::NoGradGuard no_grad;
    const gpt2::Config config{.layers = number("--layers"),
                              .width = number("--width"),
                              .heads = number("--heads"),
                              .context = number("--context"),
                              .vocabulary = number("--vocabulary")};
    gpt2::Gpt2 net(config);
    if (!options["--weights"].empty())
        net->load_state_dict(read_weights(options["--weights"]));
    net->to(device);
    if (options["--dtype"] == "bf16")
        net->to(lz::bf16);
    net->eval();

    const Tensor tokens = (options["--tokens"].empty()
                               ? lz::randint(0, config.vocabulary, {number("--batch"), number("--length")})
                               : read_tokens(options["--tokens"]))
                              .to(device);
    tokens.eval();
    double best = 0, first = 0;
    Tensor logits;
    for (int64_t i = 0; i <= number("--repeat"); ++i) {
        const auto begin = std::chrono::steady_clock::now();
        logits = net(tokens);
        logits.eval();
        if (device.is_cuda())
            lz::cuda::synchronize(device);
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        (i == 0 ? first : best) = i <= 1 ? took : std::min(best, took);
    }
    std::printf("%lld layers of %lld, %lld x %lld tokens, %s on %s: %.2f ms, the first time %.0f ms\n",
                static_cast<long long>(config.layers), static_cast<long long>(config.width),
                static_cast<long long>(tokens.size(0)), static_cast<long long>(tokens.size(1)),
                options["--dtype"].c_str(), device.str().c_str(), best * 1e3, first * 1e3);
    const Tensor last = logits.select(0, 0).select(0, -1).to(lz::f32);
    std::printf("the last row: mean %.6f, deviation %.6f, likeliest token %lld\n", last.mean().item<double>(),
                last.std().item<double>(), static_cast<long long>(last.argmax().item<int64_t>()));

    if (number("--generate") == 0)
        return 0;
    // One token after the other, which find the keys and values of all before them in the cache.
    const lz::Tensor &weight = net->wpe->weight;
    gpt2::Cache cache(config, 1, std::min<int64_t>(config.context, tokens.size(1) + number("--generate")),
                      {.dtype = weight.dtype(), .device = device});
    Tensor next = tokens.narrow(0, 0, 1);
    std::vector<double> times;
    for (int64_t i = 0; i < number("--generate"); ++i) {
        const auto begin = std::chrono::steady_clock::now();
        next = net->next(next, cache).argmax(1, true);
        std::printf("%s%lld", i == 0 ? "goes on: " : ",", static_cast<long long>(next.item<int64_t>()));
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::printf("\na token after the first two: %.2f ms\n",
                1e3 *
                    *std::min_element(times.begin() + std::min<long>(2, std::ssize(times) - 1), times.end()));
} catch (const std::exception &error) {
    std::cerr << "gpt2: " << error.what() << '\n';
    return 1;
}
