#pragma once
/// Everything public.

#include "lazuli/autocast.h"
#include "lazuli/autograd.h"
#include "lazuli/autograd/function.h"
#include "lazuli/autograd/swap.h"
#include "lazuli/autograd/transforms.h"
#include "lazuli/call.h"
#include "lazuli/compile.h"
#include "lazuli/compiled.h"
#include "lazuli/core/accessor.h"
#include "lazuli/core/array_ref.h"
#include "lazuli/core/check.h"
#include "lazuli/core/dtype.h"
#include "lazuli/core/error.h"
#include "lazuli/core/options.h"
#include "lazuli/core/ordered_dict.h"
#include "lazuli/core/scalar.h"
#include "lazuli/core/text.h"
#include "lazuli/device/cuda.h"
#include "lazuli/device/cuda_call.h"
#include "lazuli/device/device.h"
#include "lazuli/device/memory.h"
#include "lazuli/device/profiler.h"
#include "lazuli/device/stream.h"
#include "lazuli/ops.h"
#include "lazuli/ops/aliases.h"
#include "lazuli/program.h"
#include "lazuli/tensor.h"
#include "lazuli/version.h"

// For numbers beside tensors: INFINITY, and `sqrt(2.0)` or `pow(2.0, 3)`, which under `using namespace lz`
// would else find the functions of tensors alone.
#include <cmath>
