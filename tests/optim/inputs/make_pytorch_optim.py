#!/usr/bin/env python3
"""Writes what PyTorch's optimizers and schedulers do, for the tests in this folder.

    python3 make_pytorch_optim.py

pytorch_optim.txt: two parameters (`initial INDEX [sizes] values`) and their gradients (`gradient STEP INDEX values`; the
second parameter has none in steps 3 and 4). Each case is a line `case NAME DTYPE`, the parameters after steps 1, 2 and 10
(`after STEP INDEX values`), and what is remembered then (`state NAME [sizes] values`). pytorch_lbfgs.txt: likewise of
LBFGS after each step, with the losses that the steps return and the number of evaluations. pytorch_lr.txt: cases `case
NAME`, the `metrics values` that schedules by a metric are told, the learning rates of each group before the first step and
after each (`lr GROUP values`), and likewise momenta (`momentum GROUP values`). optimizers/*.pt: state dicts as torch.save
writes them. Numbers have as many digits as they need. PyTorch is not needed to build or to test.
"""
import copy
import os
import pathlib

import torch
from torch import optim

HERE = pathlib.Path(__file__).parent
STEPS = 10
SHAPES = [(3, 4), (5,)]

generator = torch.Generator().manual_seed(3)


def coarse(*sizes):
    """Floats that bf16 has."""
    return torch.randint(-200, 200, sizes, generator=generator) / 128.0


def text(values):
    return " ".join(repr(float(v)) for v in values.flatten().double().tolist())


def sizes(tensor):
    return "[" + ",".join(str(n) for n in tensor.shape) + "]"


class Lion(optim.Optimizer):
    """The program of the paper's authors (google/automl, lion_pytorch.py), and `maximize`."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.mul_(1 - group["lr"] * group["weight_decay"])
                grad = -p.grad if group["maximize"] else p.grad
                state = self.state[p]
                if len(state) == 0:
                    state["exp_avg"] = torch.zeros_like(p)
                exp_avg = state["exp_avg"]
                beta1, beta2 = group["betas"]
                update = exp_avg * beta1 + grad * (1 - beta1)
                p.add_(torch.sign(update), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(grad, alpha=1 - beta2)


initial = [coarse(*shape) for shape in SHAPES]
gradients = [[coarse(*shape) if i == 0 or step not in (3, 4) else None for i, shape in enumerate(SHAPES)]
             for step in range(1, STEPS + 1)]

cases = {
    "sgd": (optim.SGD, dict(lr=0.1)),
    "sgd_decay": (optim.SGD, dict(lr=0.1, weight_decay=0.2, maximize=True)),
    "sgd_momentum": (optim.SGD, dict(lr=0.05, momentum=0.9, dampening=0.3)),
    "sgd_nesterov": (optim.SGD, dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1)),
    "adam": (optim.Adam, dict(lr=0.1)),
    "adam_decay": (optim.Adam, dict(lr=0.02, betas=(0.4, 0.9), eps=1e-3, weight_decay=0.2, maximize=True)),
    "adam_amsgrad": (optim.Adam, dict(lr=0.1, betas=(0.8, 0.7), amsgrad=True)),
    "adamw": (optim.AdamW, dict(lr=0.1)),
    "adamw_amsgrad": (optim.AdamW, dict(lr=0.05, weight_decay=0.3, amsgrad=True, betas=(0.5, 0.6))),
    "adamw_maximize": (optim.AdamW, dict(lr=0.05, weight_decay=0, maximize=True)),
    "nadam": (optim.NAdam, dict(lr=0.1)),
    "nadam_decay": (optim.NAdam, dict(lr=0.1, weight_decay=0.2, momentum_decay=0.1, maximize=True)),
    "nadam_decoupled": (optim.NAdam, dict(lr=0.1, weight_decay=0.2, decoupled_weight_decay=True, betas=(0.7, 0.9))),
    "rmsprop": (optim.RMSprop, dict(lr=0.05)),
    "rmsprop_momentum": (optim.RMSprop, dict(lr=0.05, momentum=0.9, alpha=0.8, weight_decay=0.1)),
    "rmsprop_centered": (optim.RMSprop, dict(lr=0.02, centered=True, alpha=0.9, eps=1e-3, maximize=True)),
    "rmsprop_both": (optim.RMSprop, dict(lr=0.02, centered=True, momentum=0.5, alpha=0.9, eps=1e-2)),
    "adagrad": (optim.Adagrad, dict(lr=0.1)),
    "adagrad_decay": (optim.Adagrad, dict(lr=0.1, lr_decay=0.1, weight_decay=0.2, initial_accumulator_value=0.5,
                                          eps=1e-3, maximize=True)),
    "adadelta": (optim.Adadelta, dict(lr=1.0)),
    "adadelta_decay": (optim.Adadelta, dict(lr=0.5, rho=0.6, eps=1e-3, weight_decay=0.2, maximize=True)),
    "lion": (Lion, dict(lr=0.02)),
    "lion_decay": (Lion, dict(lr=0.02, betas=(0.5, 0.7), weight_decay=0.5, maximize=True)),
}
# In bf16. On the CPU PyTorch rounds numbers that are added (`alpha`, `eps`) to bf16, which it does not on CUDA: bf16 has
# these. And in the last elements, which fill no vector, it rounds products: `whole_vectors` has no such elements.
half_cases = {
    "sgd_half": (optim.SGD, dict(lr=0.125, momentum=0.8, nesterov=False, dampening=0.25, weight_decay=0.0625)),
    "adam_half": (optim.Adam, dict(lr=0.1, betas=(0.8, 0.7), eps=2**-10, weight_decay=0.125, amsgrad=True)),
    "adamw_half": (optim.AdamW, dict(lr=0.1, eps=2**-10)),
    "nadam_half": (optim.NAdam, dict(lr=0.1, eps=2**-10, weight_decay=0.125)),
    "rmsprop_half": (optim.RMSprop, dict(lr=0.03125, centered=True, momentum=0.5, alpha=0.9, eps=2**-7)),
    "adagrad_half": (optim.Adagrad, dict(lr=0.1, weight_decay=0.25, initial_accumulator_value=0.5, eps=2**-10)),
    "adadelta_half": (optim.Adadelta, dict(lr=0.5, rho=0.6, eps=2**-10, weight_decay=0.25)),
    "lion_half": (Lion, dict(lr=0.03125, betas=(0.6, 0.75), weight_decay=0.5)),
}


def whole_vectors(value):
    return value.flatten().repeat(128)


def run(name, dtype, out):
    make, options = (cases | half_cases)[name]
    prepared = (lambda value: value.clone()) if dtype == torch.float32 else lambda value: whole_vectors(value).to(dtype)
    stored = (lambda value, i: value) if dtype == torch.float32 else (
        lambda value, i: value if value.dim() == 0 else value[:initial[i].numel()].reshape(initial[i].shape))
    parameters = [torch.nn.Parameter(prepared(value)) for value in initial]
    optimizer = make(parameters, **options)
    out.append(f"case {name} {str(dtype).removeprefix('torch.')}")
    for step, row in enumerate(gradients, 1):
        for parameter, gradient in zip(parameters, row):
            parameter.grad = None if gradient is None else prepared(gradient)
        optimizer.step()
        if step in (1, 2, STEPS):
            out += [f"after {step} {i} {text(stored(p.data, i))}" for i, p in enumerate(parameters)]
    for i, entries in optimizer.state_dict()["state"].items():
        for key, value in entries.items():
            value = stored(value, i)
            out.append(f"state state.{i}.{key} {sizes(value)} {text(value)}")
    return optimizer


def optimizers():
    out = [f"initial {i} {sizes(value)} {text(value)}" for i, value in enumerate(initial)]
    for step, row in enumerate(gradients, 1):
        out += [f"gradient {step} {i} {text(g)}" for i, g in enumerate(row) if g is not None]
    os.makedirs(HERE / "optimizers", exist_ok=True)
    for name in cases:
        optimizer = run(name, torch.float32, out)
        if name in ("sgd_momentum", "adamw_amsgrad", "nadam", "rmsprop_both"):
            torch.save(optimizer.state_dict(), HERE / "optimizers" / f"{name}.pt")
    for name in half_cases:
        run(name, torch.bfloat16, out)
    (HERE / "pytorch_optim.txt").write_text("\n".join(out) + "\n")

def continued():
    """optimizers/continued.pt: of each, the state dict after STEPS steps, the parameters then, gradients, and the parameters after
    one step more with these."""
    file = {}
    for name in ("sgd", "sgd_nesterov", "adam", "adam_amsgrad", "adamw", "adamw_amsgrad", "nadam", "nadam_decoupled", "rmsprop",
                 "rmsprop_both", "adagrad", "adagrad_decay", "adadelta", "adadelta_decay"):
        optimizer = run(name, torch.float32, [])
        parameters = optimizer.param_groups[0]["params"]
        # As the file has it: the step below changes tensors of the state in place.
        state = copy.deepcopy(optimizer.state_dict())
        before = {str(i): p.detach().clone() for i, p in enumerate(parameters)}
        for parameter, gradient in zip(parameters, gradients[0]):
            parameter.grad = gradient.clone()
        optimizer.step()
        file[name] = {"optimizer": state, "before": before,
                      "gradients": {str(i): g.clone() for i, g in enumerate(gradients[0])},
                      "after": {str(i): p.detach().clone() for i, p in enumerate(parameters)}}
    torch.save(file, HERE / "optimizers" / "continued.pt")



lr = optim.lr_scheduler
schedules = {
    "lambda": lambda o: lr.LambdaLR(o, [lambda epoch: 0.9**epoch, lambda epoch: 1 / (1 + epoch)]),
    "step": lambda o: lr.StepLR(o, 4, 0.3),
    "multi_step": lambda o: lr.MultiStepLR(o, [12, 3, 5, 5], 0.5),
    "constant": lambda o: lr.ConstantLR(o, 0.25, 6),
    "linear": lambda o: lr.LinearLR(o, 0.1, 0.8, 7),
    "exponential": lambda o: lr.ExponentialLR(o, 0.85),
    "cosine": lambda o: lr.CosineAnnealingLR(o, 8, 0.01),
    "warm_restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 3, 2, 0.002),
    "one_cycle": lambda o: lr.OneCycleLR(o, max_lr=[0.5, 1.0], total_steps=25),
    "one_cycle_three": lambda o: lr.OneCycleLR(o, max_lr=0.5, total_steps=24, three_phase=True, pct_start=0.4,
                                               anneal_strategy="linear", base_momentum=0.7, max_momentum=0.8,
                                               div_factor=10, final_div_factor=100),
    "warm_up": lambda o: lr.SequentialLR(o, [lr.LinearLR(o, 0.01, 1.0, 5), lr.CosineAnnealingLR(o, 15)], [5]),
    "sequential": lambda o: lr.SequentialLR(
        o, [lr.ConstantLR(o, 0.5, 3), lr.ExponentialLR(o, 0.9), lr.CosineAnnealingWarmRestarts(o, 4),
            lr.StepLR(o, 2)], [4, 9, 18]),
    "chained": lambda o: lr.ChainedScheduler([lr.ConstantLR(o, 0.1, 4), lr.ExponentialLR(o, 0.9)]),
    "plateau": lambda o: lr.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1, min_lr=[0.01, 0.02]),
    "plateau_max": lambda o: lr.ReduceLROnPlateau(o, mode="max", threshold_mode="abs", threshold=0.05, patience=1),
}


def rates():
    out = []
    for name, make in schedules.items():
        groups = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
        optimizer = optim.SGD([{"params": [groups[0]]}, {"params": [groups[1]], "lr": 0.05}], lr=0.1, momentum=0.9)
        schedule = make(optimizer)
        seen = {key: [[], []] for key in ("lr", "momentum")}
        metrics = [float(v) for v in (coarse(25).cumsum(0) / 20)]

        def look():
            for key, values in seen.items():
                for i, group in enumerate(optimizer.param_groups):
                    values[i].append(group[key])

        look()
        for step in range(24):
            optimizer.step()
            if name.startswith("plateau"):
                schedule.step(metrics[step])
            else:
                schedule.step()
            look()
        out.append(f"case {name}")
        out.append("metrics " + " ".join(map(repr, metrics)))
        for key, values in seen.items():
            out += [f"{key} {i} " + " ".join(map(repr, row)) for i, row in enumerate(values)]
        if name in ("warm_up", "one_cycle", "plateau", "chained"):
            torch.save(schedule.state_dict(), HERE / "optimizers" / f"schedule_{name}.pt")
    (HERE / "pytorch_lr.txt").write_text("\n".join(out) + "\n")


lbfgs_cases = {
    "lbfgs": dict(lr=0.01, max_iter=3),
    "lbfgs_history": dict(lr=0.02, max_iter=5, history_size=2, max_eval=5),
    "lbfgs_wolfe": dict(line_search_fn="strong_wolfe", max_iter=3),
    "lbfgs_wolfe_history": dict(line_search_fn="strong_wolfe", max_iter=4, history_size=2, max_eval=11, lr=0.7),
    "lbfgs_wolfe_far": dict(line_search_fn="strong_wolfe", max_iter=8, lr=20.0),
}


def lbfgs():
    """A valley of Rosenbrock's along the first parameter, and a bowl; in f64."""
    out = []
    for name, options in lbfgs_cases.items():
        parameters = [torch.nn.Parameter(value.double()) for value in initial]
        optimizer = optim.LBFGS(parameters, **options)

        def closure():
            optimizer.zero_grad()
            x, y = parameters[0].flatten(), parameters[1]
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + (y**4 + x[:5] * y).sum()
            loss.backward()
            return loss

        out.append(f"case {name} float64")
        losses = []
        for step in range(1, STEPS + 1):
            losses.append(optimizer.step(closure))
            out += [f"after {step} {i} {text(p.data)}" for i, p in enumerate(parameters)]
        out.append("losses " + text(torch.stack(losses).detach()))
        out.append(f"evaluations {optimizer.state_dict()['state'][0]['func_evals']}")
        if name == "lbfgs_wolfe":
            torch.save(optimizer.state_dict(), HERE / "optimizers" / "lbfgs.pt")
    (HERE / "pytorch_lbfgs.txt").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    optimizers()
    continued()
    lbfgs()
    rates()
