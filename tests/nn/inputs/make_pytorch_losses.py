#!/usr/bin/env python3
"""Writes pytorch_losses.txt: what PyTorch's losses are, for losses_test.cpp.

    python3 make_pytorch_losses.py > pytorch_losses.txt

A loss is a line `loss NAME`, its printed form (`prints`), its inputs (`input [sizes] values`, `constant [sizes] values`,
which wants no gradient, `integers [sizes] values`), the result (`output [sizes] values`), the weights of its elements
(`weights values`), and of the weighted sum the gradients of inputs (`gradient INDEX values`). All in f64 and row-major. Corners
are among the inputs. PyTorch is not needed to build or to test.
"""
import torch
from torch import nn

torch.manual_seed(12)
torch.set_default_dtype(torch.float64)


def uniform(*sizes, low=-2.0, high=2.0):
    return torch.round((torch.rand(sizes) * (high - low) + low) * 1e4) / 1e4


class Constant:
    """An input that wants no gradient."""

    def __init__(self, value):
        self.value = value


x, y = uniform(3, 4), uniform(3, 4)
near = torch.tensor([[0.0, 0.5, 1.0, 2.0], [-0.5, -1.0, -2.0, 0.25]])  # differences at the bounds
none = torch.zeros(2, 4)
classes = torch.tensor([1, 0, 4, -100, 2])
images = torch.tensor([[[1, 0], [2, -100]], [[2, 2], [0, 1]]])
class_weight = torch.tensor([0.5, 2.0, 1.0, 0.25, 3.0])
image_weight = torch.tensor([0.5, 2.0, 1.5])
of_samples = uniform(5, 5)
of_images = uniform(2, 3, 2, 2)
chances = torch.softmax(uniform(5, 5), 1)
wide = torch.tensor([[-800.0, 800.0, 0.0, 30.0], [-30.0, 45.0, -45.0, 1.5]])
halves = torch.tensor([[0.0, 1.0, 1.0, 0.0], [1.0, 0.25, 0.5, 1.0]])
inside = torch.tensor([[0.0, 1.0, 1.0, 0.0], [1e-20, 0.25, 0.5, 0.9]])
signs = torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0])
log = torch.log_softmax

losses = {
    "l1": (nn.L1Loss(), x, y),
    "l1_none": (nn.L1Loss(reduction="none"), near, none),
    "mse": (nn.MSELoss(), x, y),
    "mse_sum": (nn.MSELoss(reduction="sum"), x, y),
    "mse_none": (nn.MSELoss(reduction="none"), x, y),
    "smooth_l1": (nn.SmoothL1Loss(), x, y),
    "smooth_l1_beta": (nn.SmoothL1Loss(reduction="none", beta=0.5), near, none),
    "smooth_l1_of_beta_0": (nn.SmoothL1Loss(reduction="sum", beta=0.0), near, none),
    "huber": (nn.HuberLoss(), x, y),
    "huber_delta": (nn.HuberLoss(reduction="none", delta=0.5), near, none),
    "cross_entropy": (nn.CrossEntropyLoss(), of_samples, classes),
    "cross_entropy_weight": (nn.CrossEntropyLoss(weight=class_weight), of_samples, classes),
    "cross_entropy_weight_sum": (nn.CrossEntropyLoss(weight=class_weight, reduction="sum"), of_samples, classes),
    "cross_entropy_weight_none": (nn.CrossEntropyLoss(weight=class_weight, reduction="none", ignore_index=2), of_samples,
                                  torch.tensor([1, 0, 4, 2, 2])),
    "cross_entropy_weight_smooth": (nn.CrossEntropyLoss(weight=class_weight, label_smoothing=0.2), of_samples, classes),
    "cross_entropy_weight_smooth_none": (nn.CrossEntropyLoss(weight=class_weight, label_smoothing=0.2, reduction="none"),
                                         of_samples, classes),
    "cross_entropy_smooth": (nn.CrossEntropyLoss(label_smoothing=0.3), of_samples, classes),
    "cross_entropy_probabilities": (nn.CrossEntropyLoss(weight=class_weight), of_samples, chances),
    "cross_entropy_probabilities_smooth": (nn.CrossEntropyLoss(weight=class_weight, label_smoothing=0.2, reduction="sum"),
                                           of_samples, chances),
    "cross_entropy_probabilities_none": (nn.CrossEntropyLoss(reduction="none"), of_samples, chances),
    "cross_entropy_images": (nn.CrossEntropyLoss(weight=image_weight, label_smoothing=0.1), of_images, images),
    "cross_entropy_images_none": (nn.CrossEntropyLoss(weight=image_weight, reduction="none"), of_images, images),
    "cross_entropy_one_sample": (nn.CrossEntropyLoss(weight=class_weight), uniform(5), torch.tensor(3)),
    "nll": (nn.NLLLoss(), log(of_samples, 1), classes),
    "nll_weight": (nn.NLLLoss(weight=class_weight), log(of_samples, 1), classes),
    "nll_weight_sum": (nn.NLLLoss(weight=class_weight, ignore_index=0, reduction="sum"), log(of_samples, 1),
                       torch.tensor([1, 0, 4, 3, 2])),
    "nll_images": (nn.NLLLoss(weight=image_weight, reduction="none"), log(of_images, 1), images),
    "bce": (nn.BCELoss(), uniform(3, 4, low=0.05, high=0.95), uniform(3, 4, low=0.0, high=1.0)),
    "bce_bounds": (nn.BCELoss(reduction="none"), inside, Constant(halves)),
    "bce_weight": (nn.BCELoss(weight=torch.tensor([0.5, 1.0, 2.0, 0.0]), reduction="sum"),
                   uniform(3, 4, low=0.05, high=0.95), uniform(3, 4, low=0.0, high=1.0)),
    "bce_logits": (nn.BCEWithLogitsLoss(), uniform(3, 4), uniform(3, 4, low=0.0, high=1.0)),
    "bce_logits_wide": (nn.BCEWithLogitsLoss(reduction="none"), wide, halves),
    "bce_logits_weights": (nn.BCEWithLogitsLoss(weight=torch.tensor([[0.5], [2.0]]), reduction="none",
                                                pos_weight=torch.tensor([1.0, 3.0, 0.5, 2.0])), wide, halves),
    "kl_div": (nn.KLDivLoss(), log(of_samples, 1), chances),
    "kl_div_batchmean": (nn.KLDivLoss(reduction="batchmean"), log(of_samples, 1), chances),
    "kl_div_of_zeros": (nn.KLDivLoss(reduction="sum"), uniform(3), Constant(torch.tensor([0.0, 1.0, 0.25]))),
    "kl_div_log": (nn.KLDivLoss(reduction="none", log_target=True), log(of_samples, 1), log(uniform(5, 5), 1)),
    "cosine": (nn.CosineEmbeddingLoss(margin=0.1), uniform(5, 3), uniform(5, 3), Constant(signs)),
    "cosine_none": (nn.CosineEmbeddingLoss(reduction="none"), torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]),
                    torch.tensor([[0.0, 2.0], [1.0, 1.0], [1.0, 2.0]]), Constant(torch.tensor([-1.0, -1.0, 1.0]))),
    "cosine_of_one": (nn.CosineEmbeddingLoss(), uniform(3), uniform(3), Constant(torch.tensor(1.0))),
    "triplet": (nn.TripletMarginLoss(), uniform(4, 3), uniform(4, 3), uniform(4, 3)),
    "triplet_swap": (nn.TripletMarginLoss(margin=2.0, p=1.0, swap=True, reduction="sum"), uniform(6, 3), uniform(6, 3),
                     uniform(6, 3)),
    "triplet_3": (nn.TripletMarginLoss(p=3.0, eps=1e-3, reduction="none"), uniform(2, 4, 3), uniform(2, 4, 3),
                  uniform(2, 4, 3)),
    "margin_ranking": (nn.MarginRankingLoss(margin=0.5), uniform(5), uniform(5), Constant(signs)),
    "margin_ranking_none": (nn.MarginRankingLoss(reduction="none"), torch.tensor([1.0, 2.0, 0.5]),
                            torch.tensor([1.0, 1.0, 1.0]), Constant(torch.tensor([1.0, -1.0, 1.0]))),
    "hinge": (nn.HingeEmbeddingLoss(), uniform(5), Constant(signs)),
    "hinge_none": (nn.HingeEmbeddingLoss(margin=0.5, reduction="none"), torch.tensor([0.5, 0.5, 2.0, 0.25, -1.0]),
                   Constant(signs)),
    "soft_margin": (nn.SoftMarginLoss(), uniform(5), Constant(signs)),
    "soft_margin_wide": (nn.SoftMarginLoss(reduction="none"), torch.tensor([-30.0, 30.0, 50.0, 700.0, 0.0]), Constant(signs)),
    "poisson": (nn.PoissonNLLLoss(), uniform(3, 4), uniform(3, 4, low=0.0, high=5.0)),
    "poisson_full": (nn.PoissonNLLLoss(full=True, reduction="none"), uniform(5),
                     Constant(torch.tensor([0.0, 1.0, 1.5, 3.0, 20.0]))),
    "poisson_rates": (nn.PoissonNLLLoss(log_input=False, eps=1e-4, reduction="sum"), uniform(5, low=0.0, high=3.0),
                      Constant(torch.tensor([0.0, 1.0, 1.5, 3.0, 20.0]))),
    "gaussian": (nn.GaussianNLLLoss(), x, y, uniform(3, 4, low=0.2, high=3.0)),
    "gaussian_one": (nn.GaussianNLLLoss(full=True), x, y, uniform(3, 1, low=0.2, high=3.0)),
    "gaussian_row": (nn.GaussianNLLLoss(eps=0.5, reduction="none"), x, y, torch.tensor([0.0, 0.5, 2.0])),
}


def numbers(tensor):
    return " ".join(f"{float(v):.15g}" for v in tensor.detach().flatten())


def sizes(tensor):
    return "[" + ",".join(str(n) for n in tensor.shape) + "]"


for name, (module, *given) in losses.items():
    print("loss", name)
    print("prints", module)
    inputs = []
    for value in given:
        constant = isinstance(value, Constant)
        value = (value.value if constant else value).clone()
        kind = "constant" if constant else "input" if value.is_floating_point() else "integers"
        print(kind, sizes(value), numbers(value))
        inputs.append(value.requires_grad_() if kind == "input" else value)
    result = module(*inputs)
    weights = uniform(*result.shape, low=0.5, high=1.5)
    print("output", sizes(result), numbers(result))
    print("weights", numbers(weights))
    (result * weights).sum().backward()
    for i, value in enumerate(inputs):
        if value.grad is not None:
            print("gradient", i, numbers(value.grad))
