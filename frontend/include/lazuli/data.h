#pragma once
/// Data sets, and loaders that make batches of them.

#include "lazuli/data/csv.h"
#include "lazuli/data/dataset.h"
#include "lazuli/data/datasets.h"
#include "lazuli/data/images.h"
#include "lazuli/data/loader.h"
#include "lazuli/data/progress.h"
#include "lazuli/data/sampler.h"
