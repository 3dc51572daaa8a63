"""The memory that PyTorch's eager form of the training step of examples/char_gpt.cpp takes at its peak, on the CPU.

    python3 bench/peers/peak_memory.py

Counted by PyTorch's own allocator (torch.profiler), with parameters, gradients and what AdamW keeps: beside
bench_training's peak_MiB. The network is that of bench/peers/torch_training.cpp.
"""
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, CONTEXT, BATCH, VOCABULARY = 128, 4, 128, 16, 76


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return y + self.down(F.gelu(self.up(self.norm2(y)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.characters, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, text):
        x = self.characters(text) + self.places(torch.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def main():
    torch.set_num_threads(2)
    net = Gpt()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1)
    text = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))

    def step():
        optimizer.zero_grad()
        logits = net(text[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()

    step()
    step()
    tensors = [p for p in net.parameters()] + [p.grad for p in net.parameters()] + [text]
    tensors += [v for state in optimizer.state.values() for v in state.values() if torch.is_tensor(v)]
    held = sum(t.numel() * t.element_size() for t in tensors)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    allocated, peak = 0, 0
    changes = [(e.start_ns(), e.nbytes()) for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for _, change in sorted(changes, key=lambda c: c[0]):
        allocated += change
        peak = max(peak, allocated)
    print(f"torch {torch.__version__}: {(held + peak) / 2**20:.1f} MiB at the peak of a step, "
          f"{held / 2**20:.1f} MiB between steps")


main()
