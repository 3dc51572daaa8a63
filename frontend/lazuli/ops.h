#pragma once
/// All functions on tensors.

#include "lazuli/creation.h"
#include "lazuli/defaults.h"
#include "lazuli/elementwise.h"
#include "lazuli/functional.h"
#include "lazuli/indexing.h"
#include "lazuli/linalg.h"
#include "lazuli/random.h"
#include "lazuli/reductions.h"
#include "lazuli/views.h"
