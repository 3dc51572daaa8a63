#pragma once
/// Optimizers: everything under lz::optim.

#include "lazuli/optim/adadelta.h"
#include "lazuli/optim/adagrad.h"
#include "lazuli/optim/adam.h"
#include "lazuli/optim/grad_scaler.h"
#include "lazuli/optim/lbfgs.h"
#include "lazuli/optim/lion.h"
#include "lazuli/optim/nadam.h"
#include "lazuli/optim/optimizer.h"
#include "lazuli/optim/rmsprop.h"
#include "lazuli/optim/scheduler.h"
#include "lazuli/optim/sgd.h"
