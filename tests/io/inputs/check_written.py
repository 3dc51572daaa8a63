"""Reads written.pt, which Lazuli wrote, as torch.load does, and says what is in it."""

import pathlib

import torch

there = torch.load(pathlib.Path(__file__).parent / "written.pt", weights_only=True)
counts = torch.arange(6).view(2, 3)
dtypes = {
    "bool": torch.bool,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
for name, dtype in dtypes.items():
    assert torch.equal(there.pop("of." + name), counts.to(dtype)), name
assert there["number"].item() == 2.5 and there["number"].shape == ()
assert there["again"].data_ptr() == there["number"].data_ptr()
assert there["none"].shape == (0, 4)
assert torch.equal(there["gradient"], torch.ones(2)) and not there["gradient"].requires_grad
assert torch.equal(there["transposed"], counts.float().t())
assert len(there) == 5, there.keys()
print("as written")
