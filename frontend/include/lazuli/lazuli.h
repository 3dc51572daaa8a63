#pragma once
/// Everything public.

#include "lazuli/accessor.h"
#include "lazuli/autocast.h"
#include "lazuli/autograd.h"
#include "lazuli/autograd/function.h"
#include "lazuli/autograd/transforms.h"
#include "lazuli/call.h"
#include "lazuli/compile.h"
#include "lazuli/compiled.h"
#include "lazuli/cuda.h"
#include "lazuli/cuda_call.h"
#include "lazuli/device.h"
#include "lazuli/dtype.h"
#include "lazuli/error.h"
#include "lazuli/memory.h"
#include "lazuli/ops.h"
#include "lazuli/options.h"
#include "lazuli/ordered_dict.h"
#include "lazuli/profiler.h"
#include "lazuli/program.h"
#include "lazuli/scalar.h"
#include "lazuli/stream.h"
#include "lazuli/tensor.h"
#include "lazuli/version.h"

// For numbers beside tensors: INFINITY, and `sqrt(2.0)` or `pow(2.0, 3)`, which under `using namespace lz`
// would else find the functions of tensors alone.
#include <cmath>
