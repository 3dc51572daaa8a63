#pragma once
/// All functions on tensors.

#include "lazuli/core/defaults.h"
#include "lazuli/ops/creation.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/functional.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/linalg.h"
#include "lazuli/ops/random.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/statistics.h"
#include "lazuli/ops/views.h"
