#!/usr/bin/env python3
"""Writes pytorch_files.pt and pytorch_files.safetensors: state dicts of all layers with parameters or buffers as Python's users
save them, for files_test.cpp.

    python3 make_pytorch_files.py

A layer NAME is there as NAME.state.* (its state dict), NAME.input.0, NAME.input.1, ... and NAME.output, all results flattened
and joined: in the .pt as nested dictionaries, in the .safetensors under these names. f32, in eval mode. Needs torch and
safetensors; neither is needed to build or to test.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

HERE = pathlib.Path(__file__).parent
torch.manual_seed(13)


def x(*sizes):
    return torch.randn(sizes)


layers = {
    "linear": (nn.Linear(4, 3), x(2, 4)),
    "bilinear": (nn.Bilinear(2, 3, 4), x(5, 2), x(5, 3)),
    "embedding": (nn.Embedding(5, 3), torch.tensor([[1, 4], [0, 1]])),
    "embedding_bag": (nn.EmbeddingBag(5, 3), torch.tensor([[1, 4], [0, 1]])),
    "layer_norm": (nn.LayerNorm((2, 3)), x(4, 2, 3)),
    "rms_norm_default": (nn.RMSNorm(3), x(4, 3)),
    "group_norm": (nn.GroupNorm(2, 4), x(3, 4, 2)),
    "batch_norm": (nn.BatchNorm1d(3), x(4, 3)),
    "batch_norm_2d_affine": (nn.BatchNorm2d(3), x(2, 3, 2, 2)),
    "prelu_channels": (nn.PReLU(3), x(2, 3, 2)),
    "rnn": (nn.RNN(3, 2), x(4, 2, 3)),
    "gru": (nn.GRU(3, 2, num_layers=2, bidirectional=True), x(4, 2, 3)),
    "lstm": (nn.LSTM(3, 2, num_layers=2, batch_first=True, dropout=0.5), x(2, 4, 3)),
    "rnn_cell": (nn.RNNCell(3, 2, nonlinearity="relu"), x(2, 3), x(2, 2)),
    "gru_cell": (nn.GRUCell(3, 2), x(2, 3), x(2, 2)),
    "lstm_cell": (nn.LSTMCell(3, 2), x(2, 3)),
    "attention": (nn.MultiheadAttention(4, 2), x(3, 2, 4), x(5, 2, 4), x(5, 2, 4)),
    "encoder_layer": (nn.TransformerEncoderLayer(4, 2, dim_feedforward=3, dropout=0.0), x(3, 2, 4)),
    "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 3, 0.0), 2, nn.LayerNorm(4),
                                      enable_nested_tensor=False), x(3, 2, 4)),
    "sequential": (nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), x(2, 4)),
}


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for part in result if part is not None for t in flat(part)]


nested, joined = {}, {}
for name, (module, *inputs) in layers.items():
    with torch.no_grad():
        for parameter in module.parameters():  # not the ones and zeros that some begin with
            parameter.copy_(torch.randn_like(parameter) / 2)
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            for _ in range(3):  # running statistics that are not those of the beginning
                module(inputs[0] * 2 + 1)
        module.eval()
        torch.backends.mha.set_fastpath_enabled(False)
        results = flat(module(*inputs))
    state = module.state_dict()
    output = results[0] if len(results) == 1 else torch.cat([r.flatten() for r in results])
    nested[name] = {"state": state, "input": {str(i): value for i, value in enumerate(inputs)}, "output": output}
    for key, value in state.items():
        joined[f"{name}.state.{key}"] = value.contiguous().clone()
    for i, value in enumerate(inputs):
        joined[f"{name}.input.{i}"] = value.clone()
    joined[f"{name}.output"] = output.clone()
torch.save(nested, HERE / "pytorch_files.pt")
save_file(joined, HERE / "pytorch_files.safetensors")
