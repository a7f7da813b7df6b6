"""PyTorch's side of `gradus-bench --sweep`: the same cases under the same names, `name ms` a line."""

import os, sys, time
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(2)
torch.manual_seed(0)
names = sys.argv[1:]
r = torch.randn


def t(name, f):
    if names and not any(name.startswith(n) for n in names):
        return
    for _ in range(4):
        f()

    turns = "GRADUS_BENCH_TURNS" in os.environ

    def measure():
        start = time.perf_counter()
        while turns and time.perf_counter() - start < 0.01:
            f()
        v, start = [], time.perf_counter()
        while len(v) < 5 or (len(v) < 200 and time.perf_counter() - start < 0.06):
            a = time.perf_counter()
            f()
            v.append((time.perf_counter() - a) * 1e3)
        v.sort()
        print(name, "%.5f" % v[len(v) // 2], flush=True)

    # See `turns.rs`.
    if not turns:
        measure()
        return
    print("ready", name, flush=True)
    while sys.stdin.readline().strip() == "go":
        measure()


def gradient(name, x, f):
    x = x.clone().requires_grad_()
    t(name, lambda: torch.autograd.grad(f(x).square().sum(), x))


def elements():
    x, y, row, column = r(1000, 1003), r(1000, 1003), r(1003), r(1000, 1)
    p = x.abs() + 0.1
    for n in "exp tanh sin sigmoid relu gelu silu mish erf atan expm1 floor".split():
        t("ew_" + n, lambda f=getattr(F, n) if n in ("gelu", "silu", "mish") else getattr(torch, n): f(x))
    for n in "sqrt log log1p lgamma digamma".split():
        t("ew_" + n, lambda f=getattr(torch, n): f(p))
    t("ew_clamp", lambda: x.clamp(-0.5, 0.5))
    t("ew_pow3", lambda: x.pow(3.0))
    t("ew_pow1.7", lambda: p.pow(1.7))
    t("ew_pow", lambda: p.pow(y))
    t("ew_atan2", lambda: x.atan2(y))
    t("ew_fmod", lambda: x.fmod(p))
    t("ew_where", lambda: torch.where(x > 0, x, y))
    t("ew_add", lambda: x + y)
    t("ew_add_row", lambda: x + row)
    t("ew_add_column", lambda: x + column)
    t("ew_outer", lambda: row * column)
    for n in (1, 10, 1000):
        a, b = r(n), r(n)
        t(f"ew_add_{n}", lambda: a + b)
        t(f"ew_exp_{n}", lambda: a.exp())
    turned, z, images = r(1003, 1000), r(64, 96, 130), r(8, 20, 45, 45)
    t("view_add_turned", lambda: x + turned.t())
    t("view_step", lambda: x[:, 0:1000:2] * 2)
    t("view_rows", lambda: x[0:1000:3] * 2)
    t("view_narrow", lambda: x.narrow(1, 100, 333).exp())
    t("view_flip", lambda: x.flip(1) + 1)
    t("view_permute", lambda: z.permute(2, 0, 1).contiguous())
    t("view_permute4", lambda: images.permute(0, 2, 3, 1).contiguous())
    t("view_turn", lambda: x.t().contiguous())
    t("view_roll", lambda: x.roll(7, 1))
    t("view_pad", lambda: F.pad(images, [1, 1, 1, 1]))
    t("view_pad_reflect", lambda: F.pad(images, [2, 2, 2, 2], mode="reflect"))
    t("view_cat0", lambda: torch.cat([x, y], 0))
    t("view_cat1", lambda: torch.cat([x, y], 1))
    t("view_stack", lambda: torch.stack([x, y], 2))
    t("view_tril", lambda: x.tril())
    t("view_repeat", lambda: z.repeat(1, 2, 1))
    tall, wide, short = r(300_000, 3), r(3, 300_000), r(80_000, 10)
    for n, q in (("odd", x), ("tall", tall), ("wide", wide), ("short", short)):
        for axis in (0, 1):
            t(f"red_sum{axis}_{n}", lambda: q.sum(axis))
            t(f"red_amax{axis}_{n}", lambda: q.amax(axis))
            t(f"red_argmax{axis}_{n}", lambda: q.argmax(axis))
            t(f"red_var{axis}_{n}", lambda: q.var(axis))
            t(f"red_softmax{axis}_{n}", lambda: q.softmax(axis))
            t(f"red_cumsum{axis}_{n}", lambda: q.cumsum(axis))
        t(f"red_mean_{n}", lambda: q.mean())
        t(f"red_logsumexp_{n}", lambda: q.logsumexp(1))
    t("red_sum_middle", lambda: z.sum(1))
    t("red_amax_middle", lambda: z.amax(1))
    t("red_layer_norm", lambda: F.layer_norm(z, [130]))
    part = x.narrow(1, 0, 100)
    t("red_layer_norm_slice", lambda: F.layer_norm(part, [100]))
    t("red_sort", lambda: x.sort(1))
    t("red_topk", lambda: x.topk(10, 1))
    table, source = r(1000, 100), r(5000, 100)
    index, columns = torch.randint(0, 1000, (5000,)), torch.randint(0, 1000, (300,))
    t("ind_embedding", lambda: F.embedding(index, table))
    t("ind_select_rows", lambda: table.index_select(0, index))
    t("ind_select_columns", lambda: x.index_select(1, columns))
    t("ind_add", lambda: table.index_add(0, index, source))
    types = dict(f64=torch.float64, bf16=torch.bfloat16, f16=torch.float16, i64=torch.int64, u8=torch.uint8)
    for n, d in types.items():
        a, b = [(v if d.is_floating_point else v.abs() * 10 + 1).to(d) for v in (x, y)]
        t(f"type_add_{n}", lambda: a + b)
        t(f"type_sum1_{n}", lambda: a.sum(1))
        t(f"type_amax0_{n}", lambda: a.amax(0))
        t(f"type_gt_{n}", lambda: a > b)
        t(f"type_to_f32_{n}", lambda: a.to(torch.float32))
        if d.is_floating_point:
            t(f"type_exp_{n}", lambda: a.exp())
            t(f"type_softmax_{n}", lambda: a.softmax(1))
            t(f"type_gelu_{n}", lambda: F.gelu(a))
    for m, k, n in [(100, 300, 77), (1000, 1000, 1000), (33, 1000, 999), (1, 4096, 4096), (4096, 64, 64), (17, 17, 17), (500, 3, 500), (2000, 2000, 3)]:
        a, b, bt = r(m, k), r(k, n), r(n, k)
        t(f"mm_{m}_{k}_{n}", lambda: a @ b)
        t(f"mmt_{m}_{k}_{n}", lambda: a @ bt.t())
    for m, k, n in [(256, 256, 256), (768, 128, 512), (1, 2048, 2048)]:
        a, b = r(m, k).bfloat16(), r(k, n).bfloat16()
        t(f"mm_bf16_{m}_{k}_{n}", lambda: a @ b)
    a, b = r(512, 16, 16), r(512, 16, 16)
    t("mm_batch_16", lambda: a @ b)
    c, d = r(48, 50, 70), r(48, 70, 30)
    t("mm_batch_50", lambda: c @ d)
    for n, shape, causal in (("100", (8, 8, 100, 64), False), ("513", (2, 4, 513, 80), True)):
        q = r(*shape)
        t(f"mm_attention_{n}", lambda: F.scaled_dot_product_attention(q, q, q, is_causal=causal))


CONVOLUTIONS = [
    [3, 32, 32, 3, 1, 1, 1, 32], [3, 17, 45, 3, 2, 1, 1, 8], [30, 50, 27, 3, 1, 1, 1, 8], [64, 64, 28, 3, 2, 1, 1, 16],
    [64, 128, 28, 1, 1, 0, 1, 16], [64, 128, 28, 1, 2, 0, 1, 16], [24, 24, 28, 5, 1, 2, 1, 16], [3, 64, 64, 7, 2, 3, 1, 8],
    [64, 64, 28, 3, 1, 1, 64, 16], [64, 64, 28, 3, 2, 1, 64, 16], [64, 64, 28, 5, 1, 2, 64, 16], [64, 64, 28, 3, 1, 1, 16, 16],
    [64, 64, 28, 3, 2, 1, 16, 16], [64, 64, 28, 3, 1, 1, 8, 16],
]  # fmt: skip


def layers():
    for c, o, side, k, stride, padding, groups, n in CONVOLUTIONS:
        x, w = r(n, c, side, side), r(o, c // groups, k, k)
        name = f"{c}_{o}_{side}_k{k}_s{stride}_g{groups}"
        f = lambda x, w: F.conv2d(x, w, None, stride, padding, 1, groups)
        with torch.no_grad():
            t(f"conv_forward_{name}", lambda: f(x, w))
            up = torch.randn_like(f(x, w))
        vx, vw = x.clone().requires_grad_(), w.clone().requires_grad_()
        # The forward pass is no part of gradus' plan for a gradient alone; here it is not timed either.
        yx, yw = f(vx, w), f(x, vw)
        t(f"conv_input_{name}", lambda: torch.autograd.grad(yx, vx, up, retain_graph=True))
        t(f"conv_weight_{name}", lambda: torch.autograd.grad(yw, vw, up, retain_graph=True))
    for name, shape in (("odd", (8, 20, 45, 45)), ("even", (16, 32, 28, 28))):
        x = r(*shape)
        gradient(f"img_max2_{name}", x, lambda x: F.max_pool2d(x, 2))
        gradient(f"img_max3s2_{name}", x, lambda x: F.max_pool2d(x, 3, 2, 1))
        gradient(f"img_avg3s3_{name}", x, lambda x: F.avg_pool2d(x, 3))
        gradient(f"img_avg3s1_{name}", x, lambda x: F.avg_pool2d(x, 3, 1, 1))
        gradient(f"img_adaptive1_{name}", x, lambda x: F.adaptive_avg_pool2d(x, 1))
        gradient(f"img_adaptive7_{name}", x, lambda x: F.adaptive_avg_pool2d(x, 7))
        for mode in ("nearest", "bilinear"):
            gradient(f"img_{mode}2_{name}", x, lambda x: F.interpolate(x, scale_factor=2, mode=mode))
        scale, shift = r(shape[1]), r(shape[1])
        gradient(f"img_batch_norm_{name}", x, lambda x: F.batch_norm(x, None, None, scale, shift, True))
        gradient(f"img_relu_{name}", x, lambda x: x.relu())
    for inputs, hidden, outputs, batch in [(100, 300, 10, 50), (37, 1111, 5, 33), (784, 64, 10, 128)]:
        x = r(batch, inputs)
        a = (r(hidden, inputs) / inputs**0.5).requires_grad_()
        b = (r(outputs, hidden) / hidden**0.5).requires_grad_()
        classes = torch.randint(0, outputs, (batch,))
        f = lambda: torch.autograd.grad(F.cross_entropy(F.linear(F.gelu(F.linear(x, a)), b), classes), [a, b])
        t(f"net_mlp_{inputs}_{hidden}_{outputs}", f)
    x = r(16, 50, 30)
    gru, lstm = torch.nn.GRU(30, 48, batch_first=True), torch.nn.LSTM(30, 48, batch_first=True)
    with torch.no_grad():
        t("net_gru_forward", lambda: gru(x))
        t("net_lstm_forward", lambda: lstm(x))
    t("net_gru", lambda: torch.autograd.grad(gru(x)[0].square().sum(), list(gru.parameters())))
    t("net_lstm", lambda: torch.autograd.grad(lstm(x)[0].square().sum(), list(lstm.parameters())))

# Input, weight, stride, whether zeros go around it that keep the extents, dilation, groups.
SHAPES = [
    ([1, 3, 112, 112], [64, 3, 7, 7], 2, True, 1, 1),
    ([1, 64, 56, 56], [64, 64, 3, 3], 1, True, 1, 1),
    ([1, 256, 56, 56], [64, 256, 1, 1], 1, True, 1, 1),
    ([1, 512, 7, 7], [512, 512, 3, 3], 1, True, 1, 1),
    ([3, 256, 14, 14], [256, 256, 3, 3], 1, True, 1, 1),
    ([1, 512, 7, 7], [1024, 512, 1, 1], 1, True, 1, 1),
    ([3, 96, 14, 14], [96, 96, 3, 3], 1, True, 1, 1),
    ([3, 48, 31, 31], [48, 48, 3, 3], 1, True, 1, 1),
    ([3, 10, 31, 31], [20, 10, 5, 5], 1, False, 1, 1),
    ([64, 1, 28, 28], [32, 1, 5, 5], 1, False, 1, 1),
    ([3, 3, 112, 112], [48, 3, 11, 11], 4, True, 1, 1),
    ([1, 3, 224, 224], [192, 3, 16, 16], 16, False, 1, 1),
    ([3, 48, 31, 31], [48, 48, 1, 7], 1, True, 1, 1),
    ([3, 48, 31, 31], [48, 48, 7, 1], 1, True, 1, 1),
    ([3, 48, 28, 28], [96, 48, 2, 2], 2, False, 1, 1),
    ([3, 96, 56, 56], [96, 1, 7, 7], 1, True, 1, 96),
    ([1, 128, 28, 28], [128, 4, 3, 3], 1, True, 1, 32),
    ([3, 128, 28, 28], [128, 4, 3, 3], 2, True, 1, 32),
    ([3, 64, 28, 28], [64, 64, 3, 3], 1, True, 2, 1),
    ([3, 64, 31, 31], [64, 32, 3, 3], 1, True, 1, 2),
    ([3, 64, 31, 31], [64, 16, 1, 1], 1, True, 1, 4),
    ([3, 32, 31, 31], [32, 32, 3, 3], 3, False, 1, 1),
    ([1, 32, 112, 112], [32, 1, 3, 3], 1, True, 1, 32),
    ([1, 96, 56, 56], [96, 1, 3, 3], 2, True, 1, 96),
    ([1, 16, 112, 112], [96, 16, 1, 1], 1, True, 1, 1),
    ([1, 96, 56, 56], [24, 96, 1, 1], 1, True, 1, 1),
    ([3, 256, 14, 14], [512, 256, 1, 1], 2, True, 1, 1),
    ([1, 3, 31, 31], [10, 3, 3, 3], 1, True, 1, 1),
    ([3, 1, 16000], [32, 1, 25], 4, True, 1, 1),
    ([3, 32, 4000], [32, 32, 9], 1, True, 1, 1),
    ([8, 64, 500], [64, 64, 3], 1, True, 1, 1),
    ([1, 80, 300], [256, 80, 3], 1, True, 1, 1),
    ([3, 32, 4000], [32, 32, 3], 1, True, 4, 1),
    ([3, 144, 400], [144, 1, 31], 1, True, 1, 144),
    ([2, 3, 8, 32, 32], [16, 3, 3, 3, 3], 1, True, 1, 1),
    ([1, 16, 8, 28, 28], [32, 16, 3, 3, 3], 1, True, 1, 1),
    ([1, 16, 8, 28, 28], [32, 16, 3, 3, 3], 2, True, 1, 1),
]
PRODUCTS = [
    [1, 1000, 10],
    [3, 3000, 100],
    [10, 10, 3000],
    [31, 127, 255],
    [129, 257, 65],
    [64, 2048, 512],
    [7, 768, 768],
    [128, 768, 50],
    [200, 200, 200],
    [512, 512, 512],
    [1500, 31, 700],
    [2999, 17, 5],
    [5, 2999, 17],
    [17, 5, 2999],
    [2, 3, 1000],
]


def shapes():
    for input, kernel, stride, padded, dilation, groups in SHAPES:
        x, w = r(*input), r(*kernel)
        padding = [dilation * (k - 1) // 2 if padded else 0 for k in kernel[2:]]
        join = lambda s: "x".join(map(str, s))
        name = f"{join(input)}_{join(kernel)}_s{stride}_d{dilation}_g{groups}"
        conv = (F.conv1d, F.conv2d, F.conv3d)[len(input) - 3]
        f = lambda x, w: conv(x, w, None, stride, padding, dilation, groups)
        with torch.no_grad():
            t(f"cv_forward_{name}", lambda: f(x, w))
            up = torch.randn_like(f(x, w))
        vx, vw = x.clone().requires_grad_(), w.clone().requires_grad_()
        yx, yw = f(vx, w), f(x, vw)
        t(f"cv_input_{name}", lambda: torch.autograd.grad(yx, vx, up, retain_graph=True))
        t(f"cv_weight_{name}", lambda: torch.autograd.grad(yw, vw, up, retain_graph=True))
    for n, c, o, side, k, stride, padding in [
        (3, 64, 32, 14, 2, 2, 0), (3, 64, 32, 16, 4, 2, 1), (1, 256, 128, 8, 4, 2, 1), (8, 100, 128, 1, 4, 1, 0),
        (3, 32, 16, 31, 3, 2, 1), (3, 16, 3, 31, 5, 1, 2),
    ]:  # fmt: skip
        x, w = r(n, c, side, side).requires_grad_(), r(c, o, k, k).requires_grad_()
        name = f"{n}_{c}_{o}_{side}_k{k}_s{stride}"
        f = lambda: F.conv_transpose2d(x, w, None, stride, padding)
        with torch.no_grad():
            t(f"ct_forward_{name}", f)
        y = f()
        up = torch.randn_like(y)
        t(f"ct_both_{name}", lambda: torch.autograd.grad(y, [x, w], up, retain_graph=True))
    with torch.no_grad():
        shape_views()
    shape_images()
    with torch.no_grad():
        shape_products()


def shape_views():
    every, last = r(8, 64, 30, 30), r(8, 28, 28, 32)
    views = dict(
        channels=every[:, 3:35], crop=every[:, :32, 1:29, 1:29], last=last.permute(0, 3, 1, 2)
    )
    for name, x in views.items():
        three, one, own = r(32, 32, 3, 3), r(32, 32, 1, 1), r(32, 1, 3, 3)
        t(f"cview_k3_{name}", lambda: F.conv2d(x, three, None, 1, 1))
        t(f"cview_k1_{name}", lambda: F.conv2d(x, one))
        t(f"cview_own_{name}", lambda: F.conv2d(x, own, None, 1, 1, 1, 32))
        t(f"cview_max_{name}", lambda: F.max_pool2d(x, 2))
        t(f"cview_mean_{name}", lambda: F.avg_pool2d(x, 2))
    x, bias, three = every[:, :32].contiguous(), r(48), r(48, 32, 3, 3)
    t("cview_bias_relu", lambda: F.conv2d(x, three, bias, 1, 1).relu())
    for name, d in dict(f64=torch.float64, bf16=torch.bfloat16, f16=torch.float16).items():
        x, three, one = (r(*s).to(d) for s in ((2, 32, 30, 30), (48, 32, 3, 3), (48, 32, 1, 1)))
        t(f"ctype_k3_{name}", lambda: F.conv2d(x, three, None, 1, 1))
        t(f"ctype_k1_{name}", lambda: F.conv2d(x, one))
        t(f"ctype_max_{name}", lambda: F.max_pool2d(x, 2))
        t(f"ctype_mean_{name}", lambda: F.adaptive_avg_pool2d(x, 1))


def shape_images():
    def image(name, shape, f):
        x = r(*shape)
        name += "_" + "x".join(map(str, shape))
        with torch.no_grad():
            t("pool_" + name, lambda: f(x))
        gradient("poolgrad_" + name, x, f)

    image("max3s2", (1, 64, 112, 112), lambda x: F.max_pool2d(x, 3, 2, 1))
    image("max3s2", (3, 48, 31, 31), lambda x: F.max_pool2d(x, 3, 2))
    image("max2", (3, 10, 31, 31), lambda x: F.max_pool2d(x, 2))
    image("max5s1", (1, 64, 14, 14), lambda x: F.max_pool2d(x, 5, 1, 2))
    image("max1d4", (3, 32, 4000), lambda x: F.max_pool1d(x, 4))
    image("max3d2", (2, 16, 8, 28, 28), lambda x: F.max_pool3d(x, 2))
    image("mean2", (3, 48, 31, 31), lambda x: F.avg_pool2d(x, 2))
    image("mean7s1", (3, 48, 14, 14), lambda x: F.avg_pool2d(x, 7, 1))
    image("mean3s2", (3, 48, 56, 56), lambda x: F.avg_pool2d(x, 3, 2, 1))
    image("mean1d4", (3, 32, 4000), lambda x: F.avg_pool1d(x, 4))
    image("global", (1, 512, 7, 7), lambda x: F.adaptive_avg_pool2d(x, 1))
    image("global", (3, 256, 14, 14), lambda x: F.adaptive_avg_pool2d(x, 1))
    image("globalmax", (3, 256, 14, 14), lambda x: F.adaptive_max_pool2d(x, 1))
    image("adaptive6", (3, 256, 13, 13), lambda x: F.adaptive_avg_pool2d(x, 6))
    image("adaptive5", (3, 10, 31, 31), lambda x: F.adaptive_max_pool2d(x, 5))
    for shape, to in ((1, 64, 28, 28), 56), ((3, 10, 31, 31), 17), ((1, 3, 112, 112), 224), ((3, 48, 17, 17), 31):
        for mode in ("nearest", "bilinear", "bicubic"):
            image(f"{mode}{to}", shape, lambda x: F.interpolate(x, size=to, mode=mode))


def shape_products():
    for m, k, n in PRODUCTS:
        a, b, at, bt, wide_a, wide_b = r(m, k), r(k, n), r(k, m), r(n, k), r(m, k + 9), r(k, n + 9)
        t(f"prod_{m}_{k}_{n}", lambda: a @ b)
        t(f"prodt_{m}_{k}_{n}", lambda: a @ bt.t())
        t(f"tprod_{m}_{k}_{n}", lambda: at.t() @ b)
        t(f"prodview_{m}_{k}_{n}", lambda: wide_a[:, 5 : 5 + k] @ wide_b[:, 3 : 3 + n])
    for name, d in dict(f64=torch.float64, bf16=torch.bfloat16, f16=torch.float16).items():
        for m, k, n in (
            (100, 300, 77), (512, 512, 512), (64, 1024, 1024), (8, 768, 3072), (129, 257, 65), (33, 33, 33), (1, 768, 768),
        ):  # fmt: skip
            a, b, at, bt, bias = (r(*s).to(d) for s in ((m, k), (k, n), (k, m), (n, k), (n,)))
            t(f"prod_{name}_{m}_{k}_{n}", lambda: a @ b)
            t(f"tprod_{name}_{m}_{k}_{n}", lambda: at.t() @ b)
            t(f"linear_{name}_{m}_{k}_{n}", lambda: F.linear(a, bt, bias))
        q, k = r(24, 128, 64).to(d), r(24, 128, 64).to(d)
        t(f"batch_{name}_qk", lambda: q @ k.transpose(1, 2))
    for b, m, k, n in ((24, 128, 64, 128), (32, 1, 64, 100), (100, 5, 7, 3), (8, 50, 70, 30), (2, 300, 300, 300)):
        x, y, turned, flat = r(b, m, k), r(b, k, n), r(b, n, k), r(k, n)
        t(f"batch_{b}_{m}_{k}_{n}", lambda: x @ y)
        t(f"batcht_{b}_{m}_{k}_{n}", lambda: x @ turned.transpose(1, 2))
        t(f"batchflat_{b}_{m}_{k}_{n}", lambda: x @ flat)
    heads = r(2, 100, 8, 64)
    t("batch_heads", lambda: heads.transpose(1, 2) @ heads.transpose(1, 2).transpose(2, 3))


class Block(nn.Module):
    def __init__(s, d, h):
        super().__init__()
        s.h, s.ln1, s.qkv, s.proj = h, nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        s.ln2, s.fc, s.out = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(s, x):
        n, t, d = x.shape
        q, k, v = (p.view(n, t, s.h, d // s.h).transpose(1, 2) for p in s.qkv(s.ln1(x)).split(d, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + s.proj(a.transpose(1, 2).reshape(n, t, d))
        return x + s.out(F.gelu(s.fc(s.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(s, layers, heads, d, block):
        super().__init__()
        s.tokens, s.places = nn.Embedding(65, d), nn.Parameter(r(block, d) * 0.02)
        s.blocks = nn.Sequential(*(Block(d, heads) for _ in range(layers)))
        s.last, s.head = nn.LayerNorm(d), nn.Linear(d, 65, bias=False)

    def forward(s, x):
        return s.head(s.last(s.blocks(s.tokens(x) + s.places[: x.shape[1]])))


class Recurrent(nn.Module):
    def __init__(s, layer, hidden):
        super().__init__()
        s.layer, s.head = layer, nn.Linear(hidden, 10)

    def forward(s, x):
        return s.head(s.layer(x)[0][:, -1])


def cnn(inputs, side, a, b):
    return nn.Sequential(
        nn.Conv2d(inputs, a, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(b * (side // 4) ** 2, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip


def pair(name, model, x, y):
    both("infer_" + name, model, x, y, "infer")
    both("step_" + name, model, x, y, "step")


def both(name, model, x, y, how):
    def infer():
        with torch.no_grad():
            return model(x)

    opt = torch.optim.Adam(model.parameters(), 1e-3)

    def step():
        opt.zero_grad()
        o = model(x)
        loss = F.cross_entropy(o.view(-1, o.shape[-1]), y)
        loss.backward()
        opt.step()
        return loss.item()

    t(name, infer if how == "infer" else step)


def classes(n, k=10):
    return torch.randint(0, k, (n,))


def steps():
    for sizes, batch in (
        ((20, 64, 10), 1), ((20, 64, 10), 100), ((784, 300, 100, 10), 32), ((100, 500, 500, 500, 10), 1000),
        ((3072, 2000, 10), 100),
    ):  # fmt: skip
        layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())][:-1]
        name = "_".join(map(str, sizes))
        pair(f"mlp_{name}x{batch}", nn.Sequential(*layers), r(batch, sizes[0]), classes(batch))
    for inputs, side, (a, b), batch in (
        (3, 32, (16, 48), 16), (1, 45, (24, 24), 8), (3, 64, (8, 100), 1), (5, 20, (130, 70), 33),
    ):  # fmt: skip
        pair(f"cnn_{inputs}_{side}_{a}_{b}x{batch}", cnn(inputs, side, a, b), r(batch, inputs, side, side), classes(batch))
    for layers, heads, width, block, batch in (
        (2, 3, 96, 50, 7), (2, 8, 256, 128, 8), (2, 2, 64, 17, 1), (3, 5, 320, 200, 3), (1, 12, 768, 64, 2),
    ):  # fmt: skip
        x = torch.randint(0, 65, (batch, block))
        name = f"gpt_{layers}_{heads}_{width}_{block}x{batch}"
        pair(name, GPT(layers, heads, width, block), x, classes(batch * block, 65))
    for i, h, time_, batch in ((10, 50, 30, 8), (128, 256, 32, 64), (33, 100, 100, 1), (64, 512, 20, 16)):
        for kind, layer in (("lstm", nn.LSTM), ("gru", nn.GRU)):
            model = Recurrent(layer(i, h, batch_first=True), h)
            pair(f"{kind}_{i}_{h}_{time_}x{batch}", model, r(batch, time_, i), classes(batch))
