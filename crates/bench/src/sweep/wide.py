# The second list (`wide.rs`), run after torch.py in the same script.

TYPES = dict(
    f32=torch.float32, f64=torch.float64, bf16=torch.bfloat16, f16=torch.float16, i64=torch.int64, i32=torch.int32,
    i16=torch.int16, u8=torch.uint8, bool=torch.bool,
)  # fmt: skip


def of(shape, d):
    x = r(*shape)
    if d == torch.bool:
        return x > 0
    return x.to(d) if d.is_floating_point else (x.abs() * 10 + 1).to(d)


def below(n, *shape):
    return torch.randint(0, n, shape)


def wide_elements():
    every = dict(
        add=lambda a, b: a + b, mul=lambda a, b: a * b, lt=lambda a, b: a < b, eq_number=lambda a, _: a == 1,
        where=lambda a, b: torch.where(a != 0, a, b), min=torch.minimum,
    )  # fmt: skip
    numbers = dict(
        neg=lambda a, _: -a, abs=lambda a, _: a.abs(), clamp=lambda a, _: a.clamp(2, 7), sub_number=lambda a, _: a - 3,
        div=lambda a, b: a / b, remainder=torch.remainder, floor_divide=torch.floor_divide,
    )  # fmt: skip
    bits = dict(_and=lambda a, b: a & b, _not=lambda a, _: ~a, shift=lambda a, _: a << 2)
    floats = dict(
        sqrt=lambda a, _: a.sqrt(), sigmoid=lambda a, _: a.sigmoid(), round=lambda a, _: a.round(),
        relu=lambda a, _: a.relu(), isnan=lambda a, _: a.isnan(), lerp=lambda a, b: a.lerp(b, 0.3),
    )  # fmt: skip
    for name, d in TYPES.items():
        a, b = of((700, 503), d), of((700, 503), d)
        cases = dict(every)
        if d != torch.bool:
            cases |= numbers
        if d.is_floating_point:
            cases |= floats
        else:
            cases |= {k: v for k, v in bits.items() if d != torch.bool or k != "shift"}
        for case, f in cases.items():
            t(f"wide_el_{case.lstrip('_')}_{name}", lambda: f(a, b))
    for name, d in TYPES.items():
        a = of((700, 503), d)
        for into, to in TYPES.items():
            if into != name:
                t(f"wide_cast_{name}_{into}", lambda: a.to(to))


def wide_reductions():
    every = dict(
        sum=torch.sum, prod=torch.prod, max=torch.max, argmax=torch.argmax, any=torch.any, count=torch.count_nonzero,
        var=torch.var, norm=torch.norm, median=torch.median,
    )  # fmt: skip
    axis = dict(
        sum=torch.sum, mean=torch.mean, prod=torch.prod, amin=torch.amin, max=torch.max, all=torch.all, var=torch.var,
        norm=lambda x, d: x.norm(2, d), logsumexp=torch.logsumexp,
    )  # fmt: skip
    for name, d in TYPES.items():
        if name not in ("f32", "bool"):
            y = of((37, 91, 53), d)
            for k in range(3):
                t(f"wide_red_sum{k}_{name}", lambda: y.sum(k))
                t(f"wide_red_max{k}_{name}", lambda: y.max(k))
            t(f"wide_red_sum_{name}", lambda: y.sum())
    x = r(37, 91, 53)
    for name, y in dict(odd=x, turned=x.permute(2, 0, 1), sliced=x.narrow(2, 3, 29), small=r(10, 10)).items():
        for case, f in every.items():
            t(f"wide_red_{case}_{name}", lambda: f(y))
        for case, f in axis.items():
            for k in range(y.dim()):
                t(f"wide_red_{case}{k}_{name}", lambda: f(y, k))
    rows = of((30_000, 10), torch.int64)
    t("wide_red_sum1_i64_ten", lambda: rows.sum(1))
    t("wide_red_amax1_i64_ten", lambda: rows.amax(1))
    t("wide_red_median1", lambda: x.reshape(37 * 91, 53).median(1))
    long = r(4001)
    for case in "sum prod max argmax".split():
        t(f"wide_red_{case}_vector", lambda f=every[case]: f(long))
    for n in (10, 1000, 300_001):
        t(f"wide_red_dot_{n}", lambda x=r(n), y=r(n): x.dot(y))
    t("wide_red_products_of_four", lambda x=r(1000, 4, 4), y=r(1000, 4, 4): x.matmul(y))
    x, y = r(301, 403), r(301, 403)
    t("wide_red_trace", lambda: x.trace())
    t("wide_red_turned_both", lambda: x.t() + y.t())


def wide_norms():
    each = dict(
        softmax=lambda x: x.softmax(-1), log_softmax=lambda x: x.log_softmax(-1),
        layer_norm=lambda x: F.layer_norm(x, [x.shape[-1]]), rms_norm=lambda x: F.rms_norm(x, [x.shape[-1]]),
    )  # fmt: skip
    for shape in ((8, 10), (1, 4097), (64, 1000), (500, 129), (20_000, 7), (5, 31, 65), (3, 50_257)):
        x = r(*shape)
        name = "_".join(map(str, shape))
        for case, f in each.items():
            with torch.no_grad():
                t(f"wide_norm_{case}_{name}", lambda: f(x))
            gradient(f"wide_norm_{case}_grad_{name}", x, f)
    images, scale, shift = r(6, 12, 19, 23), r(12), r(12)
    groups = lambda x: F.group_norm(x, 3, scale, shift)
    batch = lambda x: F.batch_norm(x, None, None, scale, shift, True)
    for name, f in dict(group=groups, batch=batch).items():
        with torch.no_grad():
            t(f"wide_norm_{name}", lambda: f(images))
        gradient(f"wide_norm_{name}_grad", images, f)
    t("wide_norm_softmax1_images", lambda: images.softmax(1))
    for n, k in ((8, 10), (64, 1000), (512, 5026), (5000, 11)):
        x, y, c = r(n, k), r(n, k), below(k, n)
        v = x.clone().requires_grad_()
        for name, f in dict(cross=lambda x: F.cross_entropy(x, c), mse=lambda x: F.mse_loss(x, y)).items():
            with torch.no_grad():
                t(f"wide_loss_{name}_{n}_{k}", lambda: f(x))
            t(f"wide_loss_{name}_grad_{n}_{k}", lambda: torch.autograd.grad(f(v), v))


def wide_scans():
    for name in "f32 bf16 i64".split():
        for shape_name, shape in dict(wide=(7, 20_001), narrow=(20_001, 7), square=(301, 403)).items():
            x = of(shape, TYPES[name])
            for k in (0, 1):
                t(f"wide_scan_sum{k}_{shape_name}_{name}", lambda: x.cumsum(k))
                t(f"wide_scan_prod{k}_{shape_name}_{name}", lambda: x.cumprod(k))
                t(f"wide_scan_max{k}_{shape_name}_{name}", lambda: x.cummax(k))
                if x.is_floating_point():
                    t(f"wide_scan_log{k}_{shape_name}_{name}", lambda: x.logcumsumexp(k))


def wide_views():
    x, z, five, images = r(501, 403), r(33, 57, 71), r(5, 7, 11, 13, 17), r(4, 10, 37, 41)
    parts, small = [r(50, 30 + i) for i in range(40)], [r(10) for _ in range(30)]
    pad = (3, 2, 1, 4)
    a, b = r(403), r(501)
    cases = dict(
        cat_many=lambda: torch.cat(parts, 1),
        cat_small=lambda: torch.cat(small, 0),
        stack_small=lambda: torch.stack(small, 1),
        stack0=lambda: torch.stack([z, z, z], 0),
        stack1=lambda: torch.stack([z, z, z], 1),
        stack3=lambda: torch.stack([z, z, z], 3),
        roll0=lambda: x.roll(13, 0),
        roll_both=lambda: x.roll((13, 7), (0, 1)),
        repeat=lambda: x.repeat(2, 3),
        repeat_last=lambda: z.repeat(1, 1, 3),
        tile_row=lambda: x.narrow(0, 0, 1).tile(300, 1),
        repeat_each=lambda: x.repeat_interleave(3, 1),
        flip0=lambda: x.flip(0),
        flip1=lambda: x.flip(1),
        flip_both=lambda: x.flip(0, 1),
        permute_021=lambda: z.permute(0, 2, 1).contiguous(),
        permute_102=lambda: z.permute(1, 0, 2).contiguous(),
        permute_210=lambda: z.permute(2, 1, 0).contiguous(),
        permute_five=lambda: five.permute(4, 2, 0, 3, 1).contiguous(),
        permute_heads=lambda: five.permute(0, 2, 1, 3, 4).contiguous(),
        channels_last=lambda: images.permute(0, 2, 3, 1).contiguous(),
        diagonal=lambda: x.diagonal().contiguous(),
        tril=lambda: z.tril(3),
        triu=lambda: x.triu(-5),
        pad_zero=lambda: F.pad(images, pad),
        pad_one=lambda: F.pad(images, pad, value=1.0),
        pad_replicate=lambda: F.pad(images, pad, mode="replicate"),
        pad_circular=lambda: F.pad(images, pad, mode="circular"),
        unfold=lambda: x.unfold(1, 9, 4).contiguous(),
        expand=lambda: x.unsqueeze(1).expand(501, 3, 403).contiguous(),
        expand_last=lambda: z.unsqueeze(3).expand(33, 57, 71, 3).contiguous(),
        narrow_both=lambda: x.narrow(0, 10, 400).narrow(1, 5, 333).contiguous(),
        step_columns=lambda: x[:, ::3].contiguous(),
        step_rows=lambda: x[::2].contiguous(),
        turn_bf16=lambda: x.bfloat16().t().contiguous(),
        meshgrid=lambda: [g.contiguous() for g in torch.meshgrid(a, b, indexing="ij")],
    )
    for name, f in cases.items():
        t(f"wide_view_{name}", f)


def wide_look_ups():
    x, z = r(501, 403), r(33, 57, 71)
    mask, rows, columns = x > 0, below(501, 501, 403), below(403, 501, 403)
    few, flat, one = below(33, 50), below(501 * 403, 20_001), below(501, 300)
    classes, source, middle, last = below(37, 20_001), r(300, 403), below(57, 40), below(71, 45)
    cases = dict(
        gather0=lambda: x.gather(0, rows),
        gather1=lambda: x.gather(1, columns),
        gather_few=lambda: x.gather(1, columns.narrow(1, 0, 5)),
        scatter0=lambda: x.scatter(0, rows, x),
        scatter1=lambda: x.scatter(1, columns, x),
        scatter_add0=lambda: x.scatter_add(0, rows, x),
        scatter_add1=lambda: x.scatter_add(1, columns, x),
        select0=lambda: z.index_select(0, few),
        select1=lambda: z.index_select(1, middle),
        select2=lambda: z.index_select(2, last),
        index_add=lambda: x.index_add(0, one, source),
        index_copy=lambda: x.index_copy(0, one, source),
        index_fill=lambda: x.index_fill(0, one, 3.0),
        masked_select=lambda: x.masked_select(mask),
        masked_fill=lambda: x.masked_fill(mask, 3.0),
        where=lambda: torch.where(mask, x, 0.0),
        nonzero=lambda: mask.nonzero(),
        take=lambda: x.take(flat),
        put=lambda: x.put(flat, x.reshape(-1)[:20_001]),
        one_hot=lambda: F.one_hot(classes, 37),
        bincount=lambda: classes.bincount(),
        index_rows=lambda: x[one],
        index_pairs=lambda: x[one, one % 403],
        isin=lambda: torch.isin(classes, few),
    )
    for name, f in cases.items():
        t(f"wide_ind_{name}", f)
    for name, tokens, width in (("gpt", 512, 384), ("thin", 4000, 16)):
        table, index = r(3001, width), below(3001, tokens)
        t(f"wide_ind_embedding_{name}", lambda: F.embedding(index, table))
        with torch.enable_grad():
            gradient(f"wide_ind_embedding_grad_{name}", table, lambda x: F.embedding(index, x))


def wide_orders():
    shapes = (("rows", (301, 203), 1), ("columns", (203, 301), 0), ("short", (4001, 9), 1), ("one", (1, 30_001), 1))
    for name in "f32 f64 bf16 i64".split():
        for shape_name, shape, axis in shapes:
            x = of(shape, TYPES[name])
            t(f"wide_sort_{shape_name}_{name}", lambda: x.sort(axis))
            t(f"wide_sort_topk_{shape_name}_{name}", lambda: x.topk(5, axis))
        y = of((30_001,), TYPES[name])
        t(f"wide_sort_argsort_{name}", lambda: y.argsort(descending=True))
        t(f"wide_sort_unique_{name}", lambda: y.unique())
    edges, x = r(1001).sort()[0], r(50_001)
    t("wide_sort_searchsorted", lambda: torch.searchsorted(edges, x))
    t("wide_sort_bucketize", lambda: torch.bucketize(x, edges[:10]))
    t("wide_sort_kth", lambda: x.reshape(1, -1).kthvalue(25_000, 1))
    t("wide_sort_histc", lambda: x.histc(100, -3, 3))


def wide_random():
    x, p, weights, n = r(301, 403), torch.rand(301, 403), torch.rand(50, 201), (301, 403)
    bf16 = torch.bfloat16
    cases = dict(
        rand=lambda: torch.rand(n),
        rand_ten=lambda: torch.rand(10),
        randn=lambda: torch.randn(n),
        randn_ten=lambda: torch.randn(10),
        randn_f64=lambda: torch.randn(n, dtype=torch.float64),
        randn_bf16=lambda: torch.randn(n, dtype=bf16),
        randint=lambda: torch.randint(0, 1000, n),
        randperm=lambda: torch.randperm(60_001),
        randperm_small=lambda: torch.randperm(101),
        dropout=lambda: F.dropout(x, 0.3),
        bernoulli=lambda: p.bernoulli(),
        multinomial=lambda: weights.multinomial(20, True),
        multinomial_without=lambda: weights.multinomial(20),
        exponential=lambda: torch.empty(n).exponential_(),
        arange=lambda: torch.arange(100_001),
        arange_f32=lambda: torch.arange(0.0, 50_000.0, 0.5),
        arange_ten=lambda: torch.arange(10),
        zeros=lambda: torch.zeros(n),
        zeros_ten=lambda: torch.zeros(10),
        full_i64=lambda: torch.full(n, 7),
        ones_bf16=lambda: torch.ones(n, dtype=bf16),
        eye=lambda: torch.eye(403),
        linspace=lambda: torch.linspace(0.0, 1.0, 100_001),
    )
    for name, f in cases.items():
        t(f"wide_make_{name}", f)
