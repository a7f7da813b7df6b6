# The drawn cases of `any/run.rs`, under the same names.
TYPES = dict(f32=torch.float32, f64=torch.float64, bf16=torch.bfloat16, f16=torch.float16, i64=torch.int64, i32=torch.int32, i16=torch.int16, u8=torch.uint8, bool=torch.bool)  # fmt: skip


def whole(text):
    return [int(n) for n in text.split("x")]


def of_type(shape, d):
    x = r(*shape)
    if d == torch.bool:
        return x > 0
    return x.to(d) if d.is_floating_point else (x.abs() * 10 + 1).to(d)


def values(shape, d, value):
    if value == "":
        return of_type(shape, d)
    x = r(*shape)
    made = dict(p=lambda: x.abs() + 0.1, o=lambda: x.abs() + 1.1, u=lambda: torch.rand(*shape) * 0.9 + 0.05)
    made["spd"] = lambda: x @ x.mT / shape[-1] + torch.eye(shape[-1])
    return (made[value]() if value in made else torch.randint(0, int(value[1:]), shape)).to(d)


def operand(text):
    kind, shape, layout, value = (text.split("@") + ["c", ""])[:4] if text.count("@") == 1 else (text.split("@") + [""])[:4]
    shape = whole(shape)
    held = list(shape)
    if layout == "t":
        held[-1], held[-2] = held[-2], held[-1]
    elif layout == "s":
        held[-1] += 5
    elif layout == "r":
        held[0] *= 2
    elif layout == "e":
        held[-1] *= 2
    elif layout == "k":
        held = [shape[0], shape[2], shape[3], shape[1]]
    x = values(held, TYPES[kind], value)
    if layout == "t":
        return x.transpose(-2, -1)
    if layout == "s":
        return x.narrow(-1, 3, shape[-1])
    if layout == "r":
        return x[::2]
    if layout == "e":
        return x[..., ::2]
    return x.permute(0, 3, 1, 2) if layout == "k" else x


ELEMENTS = {n: getattr(F, n) for n in "gelu silu relu softplus elu".split()}
ELEMENTS |= {n: getattr(torch, n) for n in "exp tanh sigmoid sin sqrt log square abs neg reciprocal rsqrt round".split()}
PAIRS = {n: getattr(torch, n) for n in "add mul sub div maximum lt eq".split()}
PAIRS["where"] = lambda a, b: torch.where(a > 0, a, b)
ALONG = {n: (lambda x, d, n=n: getattr(torch, n)(x, d)) for n in "sum mean prod amax argmax max all var logsumexp softmax log_softmax cumsum sort".split()}
ALONG["norm"] = lambda x, d: torch.linalg.vector_norm(x, 2, d)
ALONG["topk"] = lambda x, d: x.topk(min(5, x.shape[d]), d)


def quietly(name, f):
    def g():
        with torch.no_grad():
            return f()

    t(name, g)


def any_case(name):
    kind, *a = name.split(":")[1:]
    if kind == "un":
        f, x = ELEMENTS[a[0]], operand(a[1])
        quietly(name, lambda: f(x))
    elif kind == "ung":
        gradient(name, operand(a[1]).contiguous(), ELEMENTS[a[0]])
    elif kind == "bin":
        f, x, y = PAIRS[a[0]], operand(a[1]), operand(a[2])
        quietly(name, lambda: f(x, y))
    elif kind == "red":
        f, x, d = ALONG[a[0]], operand(a[1]), int(a[2])
        quietly(name, lambda: f(x, d))
    elif kind == "redg":
        gradient(name, operand(a[1]).contiguous(), lambda x: ALONG[a[0]](x, int(a[2])))
    elif kind == "norm":
        x = operand(a[1])
        scale = of_type(x.shape[-1:], x.dtype)
        f = lambda x: F.layer_norm(x, scale.shape, scale, scale) if a[0].startswith("layer") else F.rms_norm(x, scale.shape, scale)
        gradient(name, x.contiguous(), f) if a[0].endswith("g") else quietly(name, lambda: f(x))
    elif kind == "mm":
        x, y = operand(a[0]), operand(a[1])
        quietly(name, lambda: x @ y)
    elif kind == "linear":
        d, (m, k, n) = TYPES[a[1]], whole(a[2])
        x, w, b = of_type((m, k), d), of_type((n, k), d), of_type((n,), d)
        if a[0] == "g":
            inputs = [v.requires_grad_() for v in (x, w, b)]
            y, up = F.linear(x, w, b), of_type((m, n), d)
            t(name, lambda: torch.autograd.grad(y, inputs, up, retain_graph=True))
        else:
            quietly(name, lambda: F.linear(x, w, b))
    elif kind == "conv":
        x = operand(a[1])
        w = of_type(whole(a[2]), x.dtype)
        stride, padding, dilation, groups = map(int, a[3:])
        conv = (F.conv1d, F.conv2d, F.conv3d)[x.dim() - 3]
        f = lambda: conv(x, w, None, stride, padding, dilation, groups)
        if a[0] == "f":
            quietly(name, f)
        else:
            v = (x.requires_grad_() if a[0] == "i" else w.requires_grad_())
            y = f()
            up = of_type(y.shape, y.dtype)
            t(name, lambda: torch.autograd.grad(y, v, up, retain_graph=True))
    elif kind == "pool":
        x, (k, stride, padding) = operand(a[1]), map(int, a[2:])
        pool = F.max_pool2d if a[0].startswith("max") else F.avg_pool2d
        f = lambda x: pool(x, k, stride, padding)
        gradient(name, x, f) if a[0].endswith("g") else quietly(name, lambda: f(x))
    elif kind == "move":
        any_movement(name, a[0], operand(a[1]), a[2])
    elif kind == "ind":
        any_look_up(name, a[0], operand(a[1]), int(a[2]), int(a[3]))
    elif kind == "net":
        any_network(name, a[0], a[1], whole(a[2]), int(a[3]))
    elif kind == "attention":
        q, k, v = (r(*whole(a[1])).requires_grad_() for _ in range(3))
        f = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=a[2] == "1")
        if a[0] == "f":
            quietly(name, f)
        else:
            t(name, lambda: torch.autograd.grad(f().square().sum(), [q, k, v]))
    else:
        raise ValueError(name)


def any_movement(name, f, x, argument):
    d = None if f == "cast" else whole(argument)[0]
    times = [3 if i == d else 1 for i in range(x.dim())]
    made = dict(
        cat=lambda: torch.cat([x, x, x], d),
        stack=lambda: torch.stack([x, x, x], d),
        permute=lambda: x.permute(whole(argument)).contiguous(),
        flip=lambda: x.flip(d),
        roll=lambda: x.roll(1, d),
        repeat=lambda: x.repeat(times),
        pad=lambda: F.pad(x, [1, 2, 2, 1]),
        tril=lambda: x.tril(),
        copy=lambda: x.narrow(d, 0, -(-x.shape[d] // 2)).contiguous(),
        cast=lambda: x.to(TYPES[argument]),
    )
    quietly(name, made[f])


def any_look_up(name, f, x, d, count):
    n = x.shape[d]
    some, every, mask = torch.randint(0, n, (count,)), torch.randint(0, n, x.shape), x > 0
    part = of_type([count if i == d else m for i, m in enumerate(x.shape)], x.dtype) if f == "index_add" else None
    index = torch.randint(0, x.shape[0], (count,))
    made = dict(
        select=lambda: x.index_select(d, some),
        gather=lambda: x.gather(d, every),
        scatter_add=lambda: x.scatter_add(d, every, x),
        index_add=lambda: x.index_add(d, some, part),
        masked_fill=lambda: x.masked_fill(mask, 3),
        embedding=lambda: F.embedding(index, x),
    )
    gradient(name, x, lambda x: F.embedding(index, x)) if f == "embeddingg" else quietly(name, made[f])


def any_network(name, how, kind, s, batch):
    if kind == "mlp":
        layers = [m for a, b in zip(s, s[1:]) for m in (nn.Linear(a, b), nn.ReLU())][:-1]
        both(name, nn.Sequential(*layers), r(batch, s[0]), classes(batch), how)
    elif kind == "cnn":
        inputs, side, a, b = s
        both(name, cnn(inputs, side, a, b), r(batch, inputs, side, side), classes(batch), how)
    elif kind == "gpt":
        both(name, GPT(*s), torch.randint(0, 65, (batch, s[3])), classes(batch * s[3], 65), how)
    else:
        layer = (nn.LSTM if kind == "lstm" else nn.GRU)(s[0], s[1], batch_first=True)
        both(name, Recurrent(layer, s[1]), r(batch, s[2], s[0]), classes(batch), how)
