"""Makes torch_digits.pt: a small convnet that PyTorch trained on the digits, as PyTorch saves it.

    python examples/data/make_torch_digits.py

The digits are those of the library (crates/data/assets/digits.zlib, UCI through scikit-learn, CC BY 4.0).
"""

import zlib
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

here = Path(__file__).parent
raw = zlib.decompress((here / "../../crates/data/assets/digits.zlib").read_bytes())
labels = torch.tensor(list(raw[:1797]))
images = torch.tensor(list(raw[1797:]), dtype=torch.float32).reshape(1797, 1, 8, 8) / 16
test = torch.arange(1797) % 5 == 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Linear(72, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(30):
    for batch in torch.randperm(int((~test).sum())).split(64):
        loss = F.cross_entropy(net(images[~test][batch]), labels[~test][batch])
        opt.zero_grad()
        loss.backward()
        opt.step()

net.eval()
with torch.no_grad():
    scores = net(images[test])
right = int((scores.argmax(1) == labels[test]).sum())
print(f"{right} of {int(test.sum())} right; scores of the first test image: {scores[0].tolist()}")
checkpoint = {"model": net.state_dict(), "scores": scores[:4].clone(), "right": right, "epoch": 30}
torch.save(checkpoint, here / "torch_digits.pt")
