#!/usr/bin/env python3
"""Writes pytorch_modules.txt: what PyTorch's modules are and do, for pytorch_test.cpp.

    python3 make_pytorch_modules.py > pytorch_modules.txt

A module is a line `module NAME`, its printed form (`prints`, with \\n for new lines), its state dict (`state NAME [sizes]
values`), its inputs (`input [sizes] values`, `integers [sizes] values`), the result (`output [sizes] values`; several are
flattened and joined), the weights of its elements (`weights values`), and of the weighted sum the gradients of
inputs (`gradient INDEX values`) and parameters (`gradient NAME values`), and what the state dict's buffers are afterwards
(`after NAME values`). All in f64 and row-major. Corners are among the inputs. PyTorch is not needed to build or to test.
"""
import torch
from torch import nn

torch.manual_seed(11)
torch.set_default_dtype(torch.float64)


def uniform(*sizes, low=-2.0, high=2.0):
    return torch.round((torch.rand(sizes) * (high - low) + low) * 1e4) / 1e4


corners = torch.tensor([-7.0, -6.0, -3.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 3.0, 6.0, 25.0, 800.0, -800.0])



class Bag(nn.EmbeddingBag):
    """With weights as its third input."""

    def __init__(self):
        super().__init__(5, 3, mode="sum")

    def forward(self, index, offsets, weights):
        return super().forward(index, offsets, weights)

    def _get_name(self):
        return "EmbeddingBag"


def called_by(call):
    """A module called in another way, which is shown as itself."""

    class Called:
        def __init__(self, module):
            self.module = module

        def __getattr__(self, name):
            return getattr(self.module, name)

        def __str__(self):
            return str(self.module)

        def __call__(self, *inputs):
            return call(self.module, *inputs)

    return Called


WithStates = called_by(lambda module, x, h, c: module(x, (h, c)))
ToItself = called_by(lambda module, x: module(x, x, x))
later = torch.triu(torch.ones(3, 3), 1).bool()
padded = torch.tensor([[False, False, True], [False, False, False]])
Masked = called_by(lambda module, x: module(x, x, x, key_padding_mask=padded, attn_mask=later,
                                            average_attn_weights=False))

modules = {
    "linear": (nn.Linear(4, 3), uniform(2, 4)),
    "linear_without_bias": (nn.Linear(4, 3, bias=False), uniform(2, 2, 4)),
    "bilinear": (nn.Bilinear(2, 3, 4), uniform(5, 2), uniform(5, 3)),
    "flatten": (nn.Flatten(), uniform(2, 3, 2)),
    "unflatten": (nn.Unflatten(1, (2, 3)), uniform(2, 6)),
    "identity": (nn.Identity(), uniform(2)),
    "sequential": (nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), uniform(2, 4)),
    "elu": (nn.ELU(1.5), corners),
    "hardshrink": (nn.Hardshrink(), corners),
    "hardsigmoid": (nn.Hardsigmoid(), corners),
    "hardtanh": (nn.Hardtanh(-1.0, 3.0), corners),
    "hardswish": (nn.Hardswish(), corners),
    "leaky_relu": (nn.LeakyReLU(0.1), corners),
    "logsigmoid": (nn.LogSigmoid(), corners),
    "prelu": (nn.PReLU(), corners),
    "prelu_channels": (nn.PReLU(3, 0.5), uniform(2, 3, 2)),
    "relu": (nn.ReLU(), corners),
    "relu6": (nn.ReLU6(), corners),
    "rrelu": (nn.RReLU().eval(), corners),
    "selu": (nn.SELU(), corners),
    "celu": (nn.CELU(2.0), corners),
    "gelu": (nn.GELU(), corners),
    "gelu_tanh": (nn.GELU("tanh"), corners),
    "sigmoid": (nn.Sigmoid(), corners),
    "silu": (nn.SiLU(), corners),
    "mish": (nn.Mish(), corners),
    "softplus": (nn.Softplus(2.0, 10.0), corners),
    "softshrink": (nn.Softshrink(), corners),
    "softsign": (nn.Softsign(), corners),
    "tanh": (nn.Tanh(), corners),
    "tanhshrink": (nn.Tanhshrink(), corners),
    "threshold": (nn.Threshold(0.5, -2.0), corners),
    "glu": (nn.GLU(), uniform(2, 6)),
    "softmin": (nn.Softmin(1), uniform(2, 4)),
    "softmax": (nn.Softmax(1), uniform(2, 4)),
    "softmax2d": (nn.Softmax2d(), uniform(2, 3, 2, 2)),
    "log_softmax": (nn.LogSoftmax(0), uniform(2, 4)),
    "embedding": (nn.Embedding(5, 3), torch.tensor([[1, 4], [0, 1]])),
    "embedding_padding": (nn.Embedding(5, 3, padding_idx=-4), torch.tensor([1, 4, 1, 0])),
    "embedding_max_norm": (nn.Embedding(5, 3, max_norm=1.0), torch.tensor([1, 4, 1, 0])),
    "embedding_bag": (nn.EmbeddingBag(5, 3), torch.tensor([[1, 4], [0, 1]])),
    "embedding_bag_sum": (nn.EmbeddingBag(5, 3, mode="sum", padding_idx=1), torch.tensor([1, 4, 1, 0, 3]),
                          torch.tensor([0, 2, 2, 4])),
    "embedding_bag_mean": (nn.EmbeddingBag(5, 3, padding_idx=1), torch.tensor([1, 4, 1, 0, 3]),
                           torch.tensor([0, 2, 3])),
    "embedding_bag_max": (nn.EmbeddingBag(5, 3, mode="max"), torch.tensor([1, 4, 1, 0, 3]), torch.tensor([0, 2, 2])),
    "embedding_bag_weights": (Bag(), torch.tensor([1, 4, 1]), torch.tensor([0, 2]), uniform(3)),
    "layer_norm": (nn.LayerNorm((2, 3)), uniform(4, 2, 3)),
    "layer_norm_without_bias": (nn.LayerNorm(3, bias=False), uniform(4, 3)),
    "rms_norm": (nn.RMSNorm(3, eps=1e-6), uniform(4, 3)),
    "rms_norm_default": (nn.RMSNorm(3), uniform(4, 3)),
    "group_norm": (nn.GroupNorm(2, 4), uniform(3, 4, 2)),
    "batch_norm": (nn.BatchNorm1d(3), uniform(4, 3)),
    "batch_norm_length": (nn.BatchNorm1d(3, momentum=None), uniform(2, 3, 4)),
    "batch_norm_2d": (nn.BatchNorm2d(3, affine=False), uniform(2, 3, 2, 2)),
    "batch_norm_eval": (nn.BatchNorm1d(3).eval(), uniform(4, 3)),
    "batch_norm_untracked": (nn.BatchNorm2d(3, track_running_stats=False).eval(), uniform(2, 3, 2, 2)),
    "dropout": (nn.Dropout(0.3).eval(), uniform(3)),
    "rnn": (nn.RNN(3, 2), uniform(4, 2, 3)),
    "rnn_relu": (nn.RNN(3, 2, 2, nonlinearity="relu", bidirectional=True, batch_first=True), uniform(2, 4, 3),
                 uniform(4, 2, 2)),
    "gru": (nn.GRU(3, 2, num_layers=2, bidirectional=True), uniform(4, 2, 3)),
    "gru_unbatched": (nn.GRU(3, 2, bias=False), uniform(4, 3), uniform(1, 2)),
    "lstm": (nn.LSTM(3, 2, num_layers=2, batch_first=True, dropout=0.5).eval(), uniform(2, 4, 3)),
    "lstm_states": (WithStates(nn.LSTM(3, 2, bidirectional=True)), uniform(4, 2, 3), uniform(2, 2, 2), uniform(2, 2, 2)),
    "rnn_cell": (nn.RNNCell(3, 2, nonlinearity="relu"), uniform(2, 3), uniform(2, 2)),
    "gru_cell": (nn.GRUCell(3, 2), uniform(2, 3), uniform(2, 2)),
    "lstm_cell": (nn.LSTMCell(3, 2), uniform(2, 3)),
    "attention": (nn.MultiheadAttention(4, 2), uniform(3, 2, 4), uniform(5, 2, 4), uniform(5, 2, 4)),
    "attention_itself": (ToItself(nn.MultiheadAttention(4, 2, batch_first=True, bias=False)), uniform(2, 3, 4)),
    "attention_extents": (nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True),
                          uniform(3, 2, 4), uniform(5, 2, 3), uniform(5, 2, 5)),
    "attention_masks": (Masked(nn.MultiheadAttention(4, 2, add_bias_kv=True)), uniform(3, 2, 4)),
    "attention_unbatched": (nn.MultiheadAttention(4, 2), uniform(3, 4), uniform(5, 4), uniform(5, 4)),
    "encoder_layer": (nn.TransformerEncoderLayer(4, 2, dim_feedforward=3, dropout=0.0), uniform(3, 2, 4)),
    "encoder_layer_norm_first": (nn.TransformerEncoderLayer(4, 2, 3, 0.0, "gelu", batch_first=True, norm_first=True),
                                 uniform(2, 3, 4)),
    "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3, 0.0), 2, nn.LayerNorm(4),
                                      enable_nested_tensor=False), uniform(3, 2, 4)),
}


def numbers(tensor):
    return " ".join(f"{float(v):.13g}" for v in tensor.detach().flatten())


def sizes(tensor):
    return "[" + ",".join(str(n) for n in tensor.shape) + "]"


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result if part is not None for t in flat(part)]


for name, (module, *inputs) in modules.items():
    for parameter in module.parameters():
        parameter.data = torch.round(parameter.data * 1e3) / 1e3  # shorter to write
    print("module", name)
    print("prints", str(module).replace("NonDynamicallyQuantizable", "").replace("\n", "\\n"))
    for key, value in module.state_dict().items():
        print("state", key, sizes(value), numbers(value))
    inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    for x in inputs:
        print("input" if x.is_floating_point() else "integers", sizes(x), numbers(x))
    results = flat(module(*inputs))
    result = results[0] if len(results) == 1 else torch.cat([r.flatten() for r in results])
    weights = uniform(*result.shape, low=0.5, high=1.5)
    print("output", sizes(result), numbers(result))
    print("weights", numbers(weights))
    (result * weights).sum().backward()
    for i, x in enumerate(inputs):
        if x.grad is not None:
            print("gradient", i, numbers(x.grad))
    for key, value in module.named_parameters():
        if value.grad is not None:
            print("gradient", key, numbers(value.grad))
    for key, value in module.named_buffers():
        print("after", key, numbers(value))
