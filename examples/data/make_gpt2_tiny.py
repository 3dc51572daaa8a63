"""Makes gpt2_tiny.safetensors, a GPT-2 of two layers with random weights, and prints what PyTorch computes with it: what
the test examples.gpt2 expects (examples/CMakeLists.txt)."""
import json
import os
import struct

import torch

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 2, 16, 2, 32, 30
torch.manual_seed(3)
weights = {"wte.weight": torch.randn(VOCABULARY, WIDTH), "wpe.weight": torch.randn(CONTEXT, WIDTH)}
for layer in range(LAYERS):
    for name, shape in {
        "attn.c_attn": (WIDTH, 3 * WIDTH),
        "attn.c_proj": (WIDTH, WIDTH),
        "mlp.c_fc": (WIDTH, 4 * WIDTH),
        "mlp.c_proj": (4 * WIDTH, WIDTH),
    }.items():
        weights[f"h.{layer}.{name}.weight"] = torch.randn(shape) * 0.3
        weights[f"h.{layer}.{name}.bias"] = torch.randn(shape[1]) * 0.3
    for name in ("ln_1", "ln_2"):
        weights[f"h.{layer}.{name}.weight"] = torch.rand(WIDTH) + 0.5
        weights[f"h.{layer}.{name}.bias"] = torch.randn(WIDTH) * 0.1
weights["ln_f.weight"] = torch.rand(WIDTH) + 0.5
weights["ln_f.bias"] = torch.randn(WIDTH) * 0.1


def save(path):
    """https://github.com/huggingface/safetensors#format"""
    header, data = {}, b""
    for name, tensor in weights.items():
        piece = tensor.contiguous().numpy().tobytes()
        header["transformer." + name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(piece)],
        }
        data += piece
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def forward(tokens):
    w = {name: tensor.double() for name, tensor in weights.items()}
    f = torch.nn.functional
    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    for layer in range(LAYERS):

        def linear(name, y):
            return y @ w[f"h.{layer}.{name}.weight"] + w[f"h.{layer}.{name}.bias"]

        def norm(name, y):
            return f.layer_norm(y, (WIDTH,), w[f"h.{layer}.{name}.weight"], w[f"h.{layer}.{name}.bias"])

        q, k, v = linear("attn.c_attn", norm("ln_1", x)).view(len(tokens), 3, HEADS, -1).permute(1, 2, 0, 3)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear("attn.c_proj", y.transpose(0, 1).reshape(len(tokens), WIDTH))
        x = x + linear("mlp.c_proj", f.gelu(linear("mlp.c_fc", norm("ln_2", x)), approximate="tanh"))
    return f.layer_norm(x, (WIDTH,), w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].t()


save(os.path.join(os.path.dirname(__file__), "gpt2_tiny.safetensors"))
tokens = [3, 1, 4, 1, 5, 9, 2, 6]
last = forward(tokens)[-1]
print(f"mean {last.mean():.6f}, deviation {last.std():.6f}, likeliest token {last.argmax()}")
for _ in range(6):
    tokens.append(int(forward(tokens)[-1].argmax()))
print("goes on:", ",".join(str(token) for token in tokens[8:]))
