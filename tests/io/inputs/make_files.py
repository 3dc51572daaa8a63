"""Makes the files beside it with the libraries that define the formats: numpy, safetensors, torch.

    python3 make_files.py        (numpy 2, torch 2, safetensors 0.4)

In every file the tensor of n elements named after a dtype holds 0, 1, ... n - 1, divided by 2 for floats; bools
alternate, beginning with False."""
import collections
import os

import numpy
import safetensors.torch
import torch

os.chdir(os.path.dirname(os.path.abspath(__file__)))

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}


def example(name, shape):
    count = int(numpy.prod(shape))
    numbers = torch.arange(count)
    if name == "bool":
        return (numbers % 2 == 1).reshape(shape)
    if "f" in name:
        return (numbers / 2).to(DTYPES[name]).reshape(shape)
    return numbers.to(DTYPES[name]).reshape(shape)


tensors = {name: example(name, (2, 3)) for name in DTYPES}
tensors["scalar.f32"] = example("f32", (2,))[1].clone()
tensors["none.f64"] = torch.zeros(0, 4, dtype=torch.float64)
safetensors.torch.save_file(tensors, "dtypes.safetensors", {"made by": "safetensors", "ü": "\"quoted\"\n"})

for name in DTYPES:
    if name != "bf16":
        numpy.save(f"numpy/{name}.npy", tensors[name].numpy())
numpy.save("numpy/fortran.npy", numpy.asfortranarray(example("f32", (2, 3)).numpy()))
numpy.save("numpy/big_endian.npy", example("i32", (2, 3)).numpy().astype(">i4"))
numpy.save("numpy/scalar.npy", numpy.float64(2.5))
arrays = {name: t.numpy() for name, t in tensors.items() if name != "bf16"}
numpy.savez("numpy/stored.npz", **arrays)
numpy.savez_compressed("numpy/deflated.npz", **arrays)
numpy.save("numpy/structured.npy", numpy.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
numpy.save("numpy/complex.npy", numpy.zeros(2, dtype="c8"))

net = torch.nn.Sequential(collections.OrderedDict(
    [("first", torch.nn.Linear(3, 2)), ("norm", torch.nn.BatchNorm1d(2))]))
with torch.no_grad():
    for parameter in net.parameters():
        parameter.copy_(torch.arange(parameter.numel()).reshape(parameter.shape) / 2)
torch.save(net.state_dict(), "module.pt")
torch.save(tensors, "dtypes.pt")
base = example("f32", (4, 3))
torch.save({
    "transposed": base.t(), "rows": base[1:3], "expanded": base[:1].expand(5, 3), "column": base[:, 1],
    "parameter": torch.nn.Parameter(base.clone()),
}, "views.pt")
optimizer = torch.optim.Adam(net.parameters(), lr=0.25)
net(torch.ones(4, 3)).sum().backward()
optimizer.step()
torch.save({
    "model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7, "best": 0.5, "name": "run",
    "done": False, "nothing": None, "sizes": [1, -2, 3], "pair": (2 ** 40, "x"), "shape": torch.Size([2, 3]),
}, "checkpoint.pt")
sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], 0.1)
schedule = torch.optim.lr_scheduler.MultiStepLR(sgd, [4, 2, 4], 0.5)  # kept as a Counter
for _ in range(3):
    sgd.step()
    schedule.step()
torch.save({"epoch": 3, "schedule": schedule.state_dict()}, "multi_step.pt")
torch.save({"w": base}, "legacy.pt", _use_new_zipfile_serialization=False)


class Other:
    pass


torch.save({"w": base, "other": Other()}, "other_class.pt")
