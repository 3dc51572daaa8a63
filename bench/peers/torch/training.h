#pragma once
/// LibTorch's eager forms of the training steps that bench_training measures: forward, backward and AdamW.

#include "bench/peers/torch/torch.h"

namespace lz::bench::torch {

/// 64 images of the digits network: 64, 128, 64 and 10 wide, dropout of 0.2.
Round digits_step();
/// The network of examples/char_gpt.cpp: 4 layers, 128 wide, 4 heads, context 128, batch 16, vocabulary 76.
Round char_gpt_step();
/// AdamW over 200 tensors of 10 shapes.
Round adamw_step();

} // namespace lz::bench::torch
