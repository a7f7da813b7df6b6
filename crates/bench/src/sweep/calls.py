# The calls of `calls/list.txt`, under the same names.


def argument(text):
    if "+" in text:
        return [argument(t) for t in text.split("+") if t]
    if "@" in text:
        return operand(text)
    if "/" in text:
        return [argument(t) for t in text.split("/") if t]
    words = dict(true=True, false=False, none=None)
    if text in words:
        return words[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text.replace("&", ",")


# What PyTorch has under other names or in other orders than its samples.
CALLS = {
    "einsum": lambda x, e: torch.einsum(e, *x),
    "pdist": F.pdist,
    "nn.functional.normalize": F.normalize,
    "permute_copy": torch.permute_copy,
    "narrow_copy": torch.narrow_copy,
    "tile": lambda x, d: x.tile(d),
    "repeat": lambda x, d: x.repeat(d),
    "unfold": lambda x, *a: x.unfold(*a).contiguous(),
    "cartesian_prod": lambda x: torch.cartesian_prod(*x),
    "meshgrid": lambda x: torch.meshgrid(*x, indexing="ij"),
    "block_diag": lambda x: torch.block_diag(*x),
    "where": lambda x, c, y: x.where(c, y),
    "masked_scatter": lambda x, m, s: x.masked_scatter(m, s),
    "scatter_reduce": lambda x, d, i, s, how: x.scatter_reduce(d, i, s, how),
    "index_put": lambda x, i, v, accumulate: x.index_put(tuple(i), v, accumulate),
    "linalg.lstsq": lambda a, b: torch.linalg.lstsq(a, b).solution,
    "topk": lambda x, k, *d: x.topk(k, *d),
    "sort": lambda x, *d: x.sort(*d),
    "polygamma": torch.polygamma,
    "rsub": torch.rsub,
    "isclose": torch.isclose,
    "nn.functional.adaptive_max_pool2d": F.adaptive_max_pool2d,
}


def find(op):
    if op in CALLS:
        return CALLS[op]
    op = op.split("__")[0]
    f = torch
    for part in op.split("."):
        f = getattr(f, part, None)
    return f or getattr(torch.Tensor, op)


def call_case(name):
    kind, rest = name.split(":", 1)
    op, inside = rest[:-1].split("(", 1)
    args, kwargs = [], {}
    for text in inside.split(","):
        key, _, value = text.rpartition("=")
        if key:
            kwargs[key] = argument(value)
        elif text:
            args.append(argument(text))
    f = find(op)
    if kind == "call":
        quietly(name, lambda: f(*args, **kwargs))
        return
    given = [x for a in [*args, *kwargs.values()] for x in (a if isinstance(a, list) else [a])]
    inputs = [x.requires_grad_() for x in given if isinstance(x, torch.Tensor) and x.is_floating_point()]

    def step():
        y = f(*args, **kwargs)
        outs = [x for x in (y if isinstance(y, (list, tuple)) else [y]) if x.is_floating_point()]
        return torch.autograd.grad(sum(x.square().sum() for x in outs), inputs)

    t(name, step)
