"""PyTorch's side of `gradus train char-gpt`: the same model, start, data, schedule and steps.

    python tools/char_gpt_torch.py --text plays.txt --layers 2 --heads 2 --width 64 --context 64 \\
        --batch-size 16 --epochs 3 --lr 1e-3 --seed 0

Prints the validation loss after every epoch (250 steps), as the command does.
"""

import argparse
import math
import time

import torch
from torch import nn
from torch.nn import functional as F

EPOCH = 250
VALIDATION = 40


class Block(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        last = 0.02 / math.sqrt(2 * layers)
        for linear, std in [(self.qkv, 0.02), (self.proj, last), (self.up, 0.02), (self.down, last)]:
            nn.init.normal_(linear.weight, 0.0, std)
            nn.init.zeros_(linear.bias)

    def attention(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.permute(0, 2, 1, 3).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocab, context, width, heads, layers):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        nn.init.normal_(self.tokens.weight, 0.0, 0.02)
        self.places = nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads, layers) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        nn.init.normal_(self.head.weight, 0.0, 0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--text", required=True)
    for name, default in [("layers", 4), ("heads", 4), ("width", 128), ("context", 64), ("epochs", 8), ("seed", 0)]:
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--threads", type=int, default=0)
    a = p.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)

    text = open(a.text, encoding="utf-8", newline="").read()
    chars = sorted(set(text))
    number = {c: i for i, c in enumerate(chars)}
    tokens = torch.tensor([number[c] for c in text])
    cut = len(tokens) * 9 // 10
    train, rest = tokens[:cut], tokens[cut:]

    # Windows that touch, in order: the command's validation takes the first 40 batches too.
    windows = [rest[i : i + a.context + 1] for i in range(0, len(rest) - a.context, a.context)]
    windows = torch.stack(windows[: VALIDATION * a.batch_size]).split(a.batch_size)

    gpt = Gpt(len(chars), a.context, a.width, a.heads, a.layers)
    opt = torch.optim.AdamW(gpt.parameters(), lr=a.lr, betas=(0.9, 0.99))
    total = a.epochs * EPOCH
    warm = min(-(-total // 20), 100)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        opt,
        [
            torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.01, end_factor=1.0, total_iters=warm),
            torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=total, eta_min=a.lr / 10),
        ],
        milestones=[warm],
    )

    def loss_of(w):
        return F.cross_entropy(gpt(w[:, :-1]).flatten(0, 1), w[:, 1:].flatten())

    print(f"{sum(p.numel() for p in gpt.parameters())} parameters, {len(tokens)} tokens of {len(chars)} kinds")
    began = time.time()
    for epoch in range(a.epochs):
        # A new order of all windows for each epoch, of which 250 batches are taken.
        order = torch.randperm(len(train) - a.context)
        for step in range(EPOCH):
            starts = order[step * a.batch_size : (step + 1) * a.batch_size]
            loss = loss_of(torch.stack([train[s : s + a.context + 1] for s in starts]))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
            opt.step()
            schedule.step()
        with torch.no_grad():
            val = sum(loss_of(w).item() for w in windows) / len(windows)
        print(f"epoch {epoch + 1} val_loss {val:.4f} ({time.time() - began:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
