#pragma once
/// Neural networks: everything under lz::nn.

#include "lazuli/nn/activation.h"
#include "lazuli/nn/attention.h"
#include "lazuli/nn/containers.h"
#include "lazuli/nn/data_parallel.h"
#include "lazuli/nn/dropout.h"
#include "lazuli/nn/embedding.h"
#include "lazuli/nn/functional.h"
#include "lazuli/nn/functional_call.h"
#include "lazuli/nn/init.h"
#include "lazuli/nn/linear.h"
#include "lazuli/nn/loss.h"
#include "lazuli/nn/module.h"
#include "lazuli/nn/module_holder.h"
#include "lazuli/nn/normalization.h"
#include "lazuli/nn/rnn.h"
#include "lazuli/nn/utils.h"
