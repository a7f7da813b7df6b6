"""Makes the files of this folder with the real libraries: see README.md."""
import collections, io, os, zipfile
import numpy as np
import torch
from safetensors.torch import save_file

os.chdir(os.path.dirname(os.path.abspath(__file__)))

def checkpoint():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    shared = torch.tensor([1.5, -2.0, 3.0], dtype=torch.bfloat16)
    model = collections.OrderedDict()
    model["linear.weight"] = base                                   # contiguous
    model["linear.t"] = base.t()                                    # non-contiguous, same storage
    model["linear.part"] = base[1:3, ::2]                           # offset and step, same storage
    model["linear.expanded"] = torch.tensor([7.0]).expand(3, 4)     # stride 0
    model["tied.a"] = shared
    model["tied.b"] = shared.detach()                               # another tensor, same storage
    model["param"] = torch.nn.Parameter(torch.tensor([[0.25, 0.5]], dtype=torch.float64))
    return {
        "model": model,
        "types": {
            "f16": torch.tensor([1.0, 65504.0], dtype=torch.float16),
            "i8": torch.tensor([-128, 127], dtype=torch.int8),
            "i16": torch.tensor([-32768, 32767], dtype=torch.int16),
            "i32": torch.tensor([-2**31, 2**31 - 1], dtype=torch.int32),
            "i64": torch.tensor([-2**63, 2**63 - 1], dtype=torch.int64),
            "u8": torch.tensor([0, 255], dtype=torch.uint8),
            "bool": torch.tensor([True, False, True]),
            "scalar": torch.tensor(3.5),
            "empty": torch.zeros(0, 3),
        },
        "history": [torch.tensor([1.0]), torch.tensor([2.0])],
        "optimizer": {"state": {0: {"step": torch.tensor(5.0)}}, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0]}]},
        "epoch": 7,
        "loss": 0.125,
        "name": "tiny é",
        "done": False,
        "none": None,
        "seed": 2**64 - 1,
        "dtype": torch.bfloat16,
        "device": torch.device("cuda", 1),
        "size": torch.Size([2, 3]),
        "np": np.float64(0.5),
        "np32": np.int32(-3),
    }

torch.save(checkpoint(), "checkpoint.pt")
torch.save(checkpoint(), "checkpoint_legacy.pt", _use_new_zipfile_serialization=False)
torch.save(checkpoint(), "checkpoint_protocol4.pt", pickle_protocol=4)
torch.save(checkpoint(), "checkpoint_legacy_protocol4.pt", _use_new_zipfile_serialization=False, pickle_protocol=4)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
torch.save(net.state_dict(), "state_dict.pt")
torch.save(torch.tensor([[1, 2], [3, 4]]), "tensor.pt")
torch.save({"w": torch.ones(2), "c": torch.ones(2, dtype=torch.complex64)}, "complex.pt")
torch.save({"w": torch.ones(2), "q": torch.ones(2).to(torch.float8_e4m3fn)}, "float8.pt")
torch.save(net, "module.pt")  # pickles classes: must be refused
# A checkpoint that another tool has zipped anew, deflated.
with zipfile.ZipFile("checkpoint.pt") as a, zipfile.ZipFile("deflated.pt", "w", zipfile.ZIP_DEFLATED) as b:
    for name in a.namelist():
        b.writestr(zipfile.ZipInfo(name), a.read(name), zipfile.ZIP_DEFLATED)

save_file({"bf16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16), "w": torch.arange(6.0).reshape(2, 3),
           "b": torch.tensor([True, False]), "i": torch.tensor([1, -2]), "f16": torch.tensor(0.5, dtype=torch.float16),
           "empty": torch.zeros(0, 2), "naïve \"name\"\n": torch.zeros(1)},
          "tensors.safetensors", metadata={"format": "pt", "quote": "\"\\\u0001 é 😀"})
save_file({"q": torch.ones(2).to(torch.float8_e4m3fn), "u": torch.ones(2).to(torch.uint16), "w": torch.ones(1)}, "foreign.safetensors")

a = np.arange(6).reshape(2, 3)
np.save("f4.npy", a.astype("<f4"))
np.save("big_endian.npy", a.astype(">i4"))
np.save("fortran.npy", np.asfortranarray(a.astype("f8")))
np.save("fortran_big.npy", np.asfortranarray(np.arange(24).reshape(2, 3, 4).astype(">f2")))
np.save("scalar.npy", np.array(2.5, dtype="f4"))
np.save("empty.npy", np.zeros((0, 3), dtype="i8"))
np.save("bool.npy", np.array([True, False, True]))
np.save("complex.npy", np.ones(2, dtype="c8"))
np.save("string.npy", np.array(["ab", "c"]))
np.save("record.npy", np.zeros(2, dtype=[("x", "f4"), ("y", "i2")]))
for version in [(2, 0), (3, 0)]:
    with open(f"version{version[0]}.npy", "wb") as f:
        np.lib.format.write_array(f, a.astype("i2"), version=version)
arrays = {"w": a.astype("f4"), "layer.0/b": a.astype("u1"), "h": a.astype("f2"), "s": np.array(1.5), "z": np.zeros((64, 64), dtype="f4")}
np.savez("stored.npz", **{k: v for k, v in arrays.items() if k != "z"})
np.savez_compressed("deflated.npz", **arrays)
