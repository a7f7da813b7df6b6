//! The second list: what the first leaves out. Common functions over every type, reductions of odd, turned and tiny tensors,
//! norms and losses of other widths, scans, copies, look-ups, orders and random numbers. `wide.py` has the same names.

use super::{Sweep, normal};
use gradus_core::{BatchNormOptions, DType, Indexing, PadMode, Result, Tensor, no_grad, s};

pub fn run(w: &Sweep) -> Result<()> {
    no_grad(|| {
        elements(w)?;
        casts(w)?;
        reductions(w)?;
        scans(w)?;
        views(w)?;
        look_ups(w)?;
        orders(w)?;
        random(w)
    })?;
    norms(w)
}

type One = fn(&Tensor) -> Result<Tensor>;
type Two = fn(&Tensor, &Tensor) -> Result<Tensor>;
type Along = fn(&Tensor, i64) -> Result<Vec<Tensor>>;

/// Types and their names.
pub const TYPES: [(&str, DType); 9] = [
    ("f32", DType::F32),
    ("f64", DType::F64),
    ("bf16", DType::BF16),
    ("f16", DType::F16),
    ("i64", DType::I64),
    ("i32", DType::I32),
    ("i16", DType::I16),
    ("u8", DType::U8),
    ("bool", DType::Bool),
];

/// Normal numbers in a type; integers from one to about forty, a half of the truths.
pub fn of(shape: &[usize], d: DType) -> Result<Tensor> {
    let x = normal(shape)?;
    let x = match d {
        DType::Bool => x.gt(0.0)?,
        _ if d.is_float() => x.to_dtype(d),
        _ => (x.abs() * 10.0 + 1.0).to_dtype(d),
    };
    x.eval()?;
    Ok(x)
}

/// Integers below a number.
pub fn below(n: i64, shape: &[usize]) -> Result<Tensor> {
    let t = Tensor::randint(0, n, shape, DType::I64)?;
    t.eval()?;
    Ok(t)
}

fn elements(w: &Sweep) -> Result<()> {
    let any: [(&str, Two); 6] = [
        ("add", |a, b| a.add(b)),
        ("mul", |a, b| a.mul(b)),
        ("lt", |a, b| a.lt(b)),
        ("eq_number", |a, _| a.eq(1)),
        ("where", |a, b| a.ne(0)?.where_(a, b)),
        ("min", |a, b| a.minimum(b)),
    ];
    let numbers: [(&str, Two); 7] = [
        ("neg", |a, _| Ok(a.neg())),
        ("abs", |a, _| Ok(a.abs())),
        ("clamp", |a, _| a.clamp(2, 7)),
        ("sub_number", |a, _| a.sub(3)),
        ("div", |a, b| a.div(b)),
        ("remainder", |a, b| a.remainder(b)),
        ("floor_divide", |a, b| a.floor_divide(b)),
    ];
    let bits: [(&str, Two); 3] = [
        ("and", |a, b| a.bitwise_and(b)),
        ("not", |a, _| Ok(a.bitwise_not())),
        ("shift", |a, _| a.bitwise_left_shift(2)),
    ];
    let floats: [(&str, Two); 6] = [
        ("sqrt", |a, _| Ok(a.sqrt())),
        ("sigmoid", |a, _| Ok(a.sigmoid())),
        ("round", |a, _| Ok(a.round())),
        ("relu", |a, _| Ok(a.relu())),
        ("isnan", |a, _| Ok(a.isnan())),
        ("lerp", |a, b| a.lerp(b, 0.3)),
    ];
    for (name, d) in TYPES {
        let (a, b) = (of(&[700, 503], d)?, of(&[700, 503], d)?);
        let truths = d == DType::Bool;
        let lists: [(bool, &[(&str, Two)]); 4] = [
            (true, &any),
            (!truths, &numbers),
            (!d.is_float(), if truths { &bits[..2] } else { &bits }),
            (d.is_float(), &floats),
        ];
        for (f, case) in lists.iter().filter(|l| l.0).flat_map(|l| l.1.iter().map(|(n, f)| (f, n))) {
            w.one(&format!("wide_el_{case}_{name}"), || f(&a, &b))?;
        }
    }
    Ok(())
}

fn casts(w: &Sweep) -> Result<()> {
    for (name, d) in TYPES {
        let a = of(&[700, 503], d)?;
        for (into, to) in TYPES.iter().filter(|t| t.0 != name) {
            w.one(&format!("wide_cast_{name}_{into}"), || Ok(a.to_dtype(*to)))?;
        }
    }
    Ok(())
}

fn reductions(w: &Sweep) -> Result<()> {
    let all: [(&str, One); 9] = [
        ("sum", |x| Ok(x.sum())),
        ("prod", |x| Ok(x.prod())),
        ("max", Tensor::max),
        ("argmax", Tensor::argmax),
        ("any", |x| Ok(x.any())),
        ("count", |x| Ok(x.count_nonzero())),
        ("var", |x| Ok(x.variance(1))),
        ("norm", |x| x.norm(2.0)),
        ("median", Tensor::median),
    ];
    let axis: [(&str, Along); 9] = [
        ("sum", |x, d| Ok(vec![x.sum_dim(d, false)?])),
        ("mean", |x, d| Ok(vec![x.mean_dim(d, false)?])),
        ("prod", |x, d| Ok(vec![x.prod_dim(d, false)?])),
        ("amin", |x, d| Ok(vec![x.amin(d, false)?])),
        ("max", |x, d| x.max_dim(d, false).map(|p| vec![p.0, p.1])),
        ("all", |x, d| Ok(vec![x.all_dim(d, false)?])),
        ("var", |x, d| Ok(vec![x.var_dim(d, 1, false)?])),
        ("norm", |x, d| Ok(vec![x.norm_dim(2.0, d, false)?])),
        ("logsumexp", |x, d| Ok(vec![x.logsumexp(d, false)?])),
    ];
    for (name, d) in TYPES {
        if d != DType::F32 && d != DType::Bool {
            let x = of(&[37, 91, 53], d)?;
            for axis in [0i64, 1, 2] {
                w.one(&format!("wide_red_sum{axis}_{name}"), || x.sum_dim(axis, false))?;
                w.time(&format!("wide_red_max{axis}_{name}"), || x.max_dim(axis, false).map(|p| vec![p.0, p.1]))?;
            }
            w.one(&format!("wide_red_sum_{name}"), || Ok(x.sum()))?;
        }
    }
    let x = normal(&[37, 91, 53])?;
    let (turned, sliced, small) = (x.permute([2, 0, 1])?, x.narrow(2, 3, 29)?, normal(&[10, 10])?);
    for (name, x) in [("odd", &x), ("turned", &turned), ("sliced", &sliced), ("small", &small)] {
        for (case, f) in &all {
            w.one(&format!("wide_red_{case}_{name}"), || f(x))?;
        }
        let axes = if name == "small" { 0..2 } else { 0..3 };
        for (case, f) in &axis {
            for d in axes.clone() {
                w.time(&format!("wide_red_{case}{d}_{name}"), || f(x, d))?;
            }
        }
    }
    let rows = of(&[30_000, 10], DType::I64)?;
    w.one("wide_red_sum1_i64_ten", || rows.sum_dim(1, false))?;
    w.one("wide_red_amax1_i64_ten", || rows.amax(1, false))?;
    w.one("wide_red_median1", || x.reshape([37 * 91, 53])?.median_dim(1, false).map(|p| p.0))?;
    let long = normal(&[4_001])?;
    for (case, f) in &all[..4] {
        w.one(&format!("wide_red_{case}_vector"), || f(&long))?;
    }
    for n in [10, 1000, 300_001] {
        let (x, y) = (normal(&[n])?, normal(&[n])?);
        w.one(&format!("wide_red_dot_{n}"), || x.dot(&y))?;
    }
    let (x, y) = (normal(&[1000, 4, 4])?, normal(&[1000, 4, 4])?);
    w.one("wide_red_products_of_four", || x.matmul(&y))?;
    let (x, y) = (normal(&[301, 403])?, normal(&[301, 403])?);
    w.one("wide_red_trace", || x.trace())?;
    w.one("wide_red_turned_both", || x.t()?.add(&y.t()?))?;
    Ok(())
}

fn norms(w: &Sweep) -> Result<()> {
    let rows: [&[usize]; 7] =
        [&[8, 10], &[1, 4097], &[64, 1000], &[500, 129], &[20_000, 7], &[5, 31, 65], &[3, 50_257]];
    let each: [(&str, One); 4] = [
        ("softmax", |x| x.softmax(-1)),
        ("log_softmax", |x| x.log_softmax(-1)),
        ("layer_norm", |x| x.layer_norm([x.dims()[x.rank() - 1]], None, None, 1e-5)),
        ("rms_norm", |x| x.rms_norm([x.dims()[x.rank() - 1]], None, None)),
    ];
    for shape in rows {
        let x = normal(shape)?;
        let name = shape.iter().map(|n| n.to_string()).collect::<Vec<_>>().join("_");
        for (case, f) in &each {
            w.one(&format!("wide_norm_{case}_{name}"), || no_grad(|| f(&x)))?;
            w.gradient(&format!("wide_norm_{case}_grad_{name}"), &x, f)?;
        }
    }
    let images = normal(&[6, 12, 19, 23])?;
    let (scale, shift) = (normal(&[12])?, normal(&[12])?);
    let groups = |x: &Tensor| x.group_norm(3, Some(&scale), Some(&shift), 1e-5);
    let batch = |x: &Tensor| {
        let o = BatchNormOptions { training: true, ..Default::default() };
        x.batch_norm(None, Some(&scale), Some(&shift), &o).map(|p| p.0)
    };
    w.one("wide_norm_group", || no_grad(|| groups(&images)))?;
    w.gradient("wide_norm_group_grad", &images, groups)?;
    w.one("wide_norm_batch", || no_grad(|| batch(&images)))?;
    w.gradient("wide_norm_batch_grad", &images, batch)?;
    w.one("wide_norm_softmax1_images", || no_grad(|| images.softmax(1)))?;
    for (n, k) in [(8, 10), (64, 1000), (512, 5026), (5000, 11)] {
        let (x, classes) = (normal(&[n, k])?, below(k as i64, &[n])?);
        w.one(&format!("wide_loss_cross_{n}_{k}"), || no_grad(|| x.cross_entropy(&classes)))?;
        let v = Tensor::var("x", &x);
        w.one(&format!("wide_loss_cross_grad_{n}_{k}"), || v.cross_entropy(&classes)?.backward()?.wrt(&v))?;
        let y = normal(&[n, k])?;
        let mean = gradus_core::Reduction::Mean;
        w.one(&format!("wide_loss_mse_{n}_{k}"), || no_grad(|| x.mse_loss(&y, mean)))?;
        w.one(&format!("wide_loss_mse_grad_{n}_{k}"), || v.mse_loss(&y, mean)?.backward()?.wrt(&v))?;
    }
    Ok(())
}

fn scans(w: &Sweep) -> Result<()> {
    for (name, d) in [("f32", DType::F32), ("bf16", DType::BF16), ("i64", DType::I64)] {
        for (shape_name, shape) in [("wide", [7, 20_001]), ("narrow", [20_001, 7]), ("square", [301, 403])] {
            let x = of(&shape, d)?;
            for axis in [0i64, 1] {
                w.one(&format!("wide_scan_sum{axis}_{shape_name}_{name}"), || x.cumsum(axis))?;
                w.one(&format!("wide_scan_prod{axis}_{shape_name}_{name}"), || x.cumprod(axis))?;
                w.time(&format!("wide_scan_max{axis}_{shape_name}_{name}"), || x.cummax(axis).map(|p| vec![p.0, p.1]))?;
                if d.is_float() {
                    w.one(&format!("wide_scan_log{axis}_{shape_name}_{name}"), || x.logcumsumexp(axis))?;
                }
            }
        }
    }
    Ok(())
}

fn views(w: &Sweep) -> Result<()> {
    let (x, z, five) = (normal(&[501, 403])?, normal(&[33, 57, 71])?, normal(&[5, 7, 11, 13, 17])?);
    let images = normal(&[4, 10, 37, 41])?;
    let parts = (0..40).map(|i| normal(&[50, 30 + i])).collect::<Result<Vec<_>>>()?;
    let parts: Vec<&Tensor> = parts.iter().collect();
    let small = (0..30).map(|_| normal(&[10])).collect::<Result<Vec<_>>>()?;
    let small: Vec<&Tensor> = small.iter().collect();
    let cases: [(&str, &dyn Fn() -> Result<Tensor>); 35] = [
        ("cat_many", &|| Tensor::cat(&parts, 1)),
        ("cat_small", &|| Tensor::cat(&small, 0)),
        ("stack_small", &|| Tensor::stack(&small, 1)),
        ("stack0", &|| Tensor::stack(&[&z, &z, &z], 0)),
        ("stack1", &|| Tensor::stack(&[&z, &z, &z], 1)),
        ("stack3", &|| Tensor::stack(&[&z, &z, &z], 3)),
        ("roll0", &|| x.roll([13], [0])),
        ("roll_both", &|| x.roll([13, 7], [0, 1])),
        ("repeat", &|| x.repeat([2, 3])),
        ("repeat_last", &|| z.repeat([1, 1, 3])),
        ("tile_row", &|| x.narrow(0, 0, 1)?.tile([300, 1])),
        ("repeat_each", &|| x.repeat_interleave(3, 1)),
        ("flip0", &|| Ok(x.flip([0])?.contiguous())),
        ("flip1", &|| Ok(x.flip([1])?.contiguous())),
        ("flip_both", &|| Ok(x.flip([0, 1])?.contiguous())),
        ("permute_021", &|| Ok(z.permute([0, 2, 1])?.contiguous())),
        ("permute_102", &|| Ok(z.permute([1, 0, 2])?.contiguous())),
        ("permute_210", &|| Ok(z.permute([2, 1, 0])?.contiguous())),
        ("permute_five", &|| Ok(five.permute([4, 2, 0, 3, 1])?.contiguous())),
        ("permute_heads", &|| Ok(five.permute([0, 2, 1, 3, 4])?.contiguous())),
        ("channels_last", &|| Ok(images.permute([0, 2, 3, 1])?.contiguous())),
        ("diagonal", &|| Ok(x.diagonal(0, 0, 1)?.contiguous())),
        ("tril", &|| z.tril(3)),
        ("triu", &|| x.triu(-5)),
        ("pad_zero", &|| images.pad(&[3, 2, 1, 4], PadMode::Constant(0.0))),
        ("pad_one", &|| images.pad(&[3, 2, 1, 4], PadMode::Constant(1.0))),
        ("pad_replicate", &|| images.pad(&[3, 2, 1, 4], PadMode::Replicate)),
        ("pad_circular", &|| images.pad(&[3, 2, 1, 4], PadMode::Circular)),
        ("unfold", &|| Ok(x.unfold(1, 9, 4)?.contiguous())),
        ("expand", &|| Ok(x.unsqueeze(1)?.expand([501, 3, 403])?.contiguous())),
        ("expand_last", &|| Ok(z.unsqueeze(3)?.expand([33, 57, 71, 3])?.contiguous())),
        ("narrow_both", &|| Ok(x.narrow(0, 10, 400)?.narrow(1, 5, 333)?.contiguous())),
        ("step_columns", &|| Ok(x.i((.., s(0..403, 3)))?.contiguous())),
        ("step_rows", &|| Ok(x.i(s(0..501, 2))?.contiguous())),
        ("turn_bf16", &|| Ok(x.to_dtype(DType::BF16).t()?.contiguous())),
    ];
    for (name, f) in cases {
        w.one(&format!("wide_view_{name}"), f)?;
    }
    let (a, b) = (normal(&[403])?, normal(&[501])?);
    w.time("wide_view_meshgrid", || {
        Ok(Tensor::meshgrid(&[&a, &b], Indexing::Ij)?.iter().map(Tensor::contiguous).collect())
    })
}

fn look_ups(w: &Sweep) -> Result<()> {
    let (x, z) = (normal(&[501, 403])?, normal(&[33, 57, 71])?);
    let mask = x.gt(0.0)?;
    mask.eval()?;
    let (rows, columns) = (below(501, &[501, 403])?, below(403, &[501, 403])?);
    let (few, flat, one) = (below(33, &[50])?, below(501 * 403, &[20_001])?, below(501, &[300])?);
    let (classes, source) = (below(37, &[20_001])?, normal(&[300, 403])?);
    let middle = below(57, &[40])?;
    let last = below(71, &[45])?;
    let cases: [(&str, &dyn Fn() -> Result<Tensor>); 24] = [
        ("gather0", &|| x.gather(0, &rows)),
        ("gather1", &|| x.gather(1, &columns)),
        ("gather_few", &|| x.gather(1, &columns.narrow(1, 0, 5)?)),
        ("scatter0", &|| x.scatter(0, &rows, &x)),
        ("scatter1", &|| x.scatter(1, &columns, &x)),
        ("scatter_add0", &|| x.scatter_add(0, &rows, &x)),
        ("scatter_add1", &|| x.scatter_add(1, &columns, &x)),
        ("select0", &|| z.index_select(0, &few)),
        ("select1", &|| z.index_select(1, &middle)),
        ("select2", &|| z.index_select(2, &last)),
        ("index_add", &|| x.index_add(0, &one, &source, 1.0)),
        ("index_copy", &|| x.index_copy(0, &one, &source)),
        ("index_fill", &|| x.index_fill(0, &one, 3.0)),
        ("masked_select", &|| x.masked_select(&mask)),
        ("masked_fill", &|| x.masked_fill(&mask, 3.0)),
        ("where", &|| mask.where_(&x, 0.0)),
        ("nonzero", &|| mask.nonzero()),
        ("take", &|| x.take(&flat)),
        ("put", &|| x.put(&flat, &x.reshape([501 * 403])?.narrow(0, 0, 20_001)?, false)),
        ("one_hot", &|| classes.one_hot(Some(37))),
        ("bincount", &|| classes.bincount(None, 0)),
        ("index_rows", &|| x.index(&[Some(&one)])),
        ("index_pairs", &|| x.index(&[Some(&one), Some(&one.remainder(403)?)])),
        ("isin", &|| classes.isin(&few)),
    ];
    for (name, f) in cases {
        w.one(&format!("wide_ind_{name}"), f)?;
    }
    for (name, tokens, width) in [("gpt", 512, 384), ("thin", 4000, 16)] {
        let (table, index) = (normal(&[3001, width])?, below(3001, &[tokens])?);
        w.one(&format!("wide_ind_embedding_{name}"), || table.embedding(&index))?;
        let v = Tensor::var("x", &table);
        w.one(&format!("wide_ind_embedding_grad_{name}"), || {
            gradus_core::enable_grad(|| v.embedding(&index)?.square().sum().backward()?.wrt(&v))
        })?;
    }
    Ok(())
}

fn orders(w: &Sweep) -> Result<()> {
    for (name, d) in [("f32", DType::F32), ("f64", DType::F64), ("bf16", DType::BF16), ("i64", DType::I64)] {
        for (shape_name, shape, axis) in
            [("rows", [301, 203], 1), ("columns", [203, 301], 0), ("short", [4001, 9], 1), ("one", [1, 30_001], 1)]
        {
            let x = of(&shape, d)?;
            w.time(&format!("wide_sort_{shape_name}_{name}"), || x.sort(axis, false).map(|p| vec![p.0, p.1]))?;
            w.time(&format!("wide_sort_topk_{shape_name}_{name}"), || x.topk(5, axis, true).map(|p| vec![p.0, p.1]))?;
        }
        let x = of(&[30_001], d)?;
        w.one(&format!("wide_sort_argsort_{name}"), || x.argsort(0, true))?;
        w.one(&format!("wide_sort_unique_{name}"), || x.unique(None).map(|u| u.values))?;
    }
    let (edges, x) = (normal(&[1001])?.sort(0, false)?.0, normal(&[50_001])?);
    edges.eval()?;
    w.one("wide_sort_searchsorted", || edges.searchsorted(&x, false))?;
    w.one("wide_sort_bucketize", || x.bucketize(&edges.narrow(0, 0, 10)?.contiguous(), false))?;
    w.time("wide_sort_kth", || x.reshape([1, 50_001])?.kthvalue(25_000, 1, false).map(|p| vec![p.0, p.1]))?;
    w.one("wide_sort_histc", || x.histc(100, -3.0, 3.0))
}

fn random(w: &Sweep) -> Result<()> {
    let (x, p) = (normal(&[301, 403])?, Tensor::rand([301, 403]));
    let weights = Tensor::rand([50, 201]);
    Tensor::eval_all(&[&p, &weights])?;
    let cases: [(&str, &dyn Fn() -> Result<Tensor>); 23] = [
        ("rand", &|| Ok(Tensor::rand([301, 403]))),
        ("rand_ten", &|| Ok(Tensor::rand([10]))),
        ("randn", &|| Ok(Tensor::randn([301, 403]))),
        ("randn_ten", &|| Ok(Tensor::randn([10]))),
        ("randn_f64", &|| Tensor::randn_of([301, 403], DType::F64)),
        ("randn_bf16", &|| Tensor::randn_of([301, 403], DType::BF16)),
        ("randint", &|| Tensor::randint(0, 1000, [301, 403], DType::I64)),
        ("randperm", &|| Ok(Tensor::randperm(60_001))),
        ("randperm_small", &|| Ok(Tensor::randperm(101))),
        ("dropout", &|| x.dropout(0.3, true)),
        ("bernoulli", &|| p.bernoulli()),
        ("multinomial", &|| weights.multinomial(20, true)),
        ("multinomial_without", &|| weights.multinomial(20, false)),
        ("exponential", &|| Tensor::exponential(1.0, [301, 403])),
        ("arange", &|| Tensor::arange(0, 100_001, 1, DType::I64)),
        ("arange_f32", &|| Tensor::arange(0.0, 50_000.0, 0.5, DType::F32)),
        ("arange_ten", &|| Tensor::arange(0, 10, 1, DType::I64)),
        ("zeros", &|| Ok(Tensor::zeros([301, 403], DType::F32).contiguous())),
        ("zeros_ten", &|| Ok(Tensor::zeros([10], DType::F32).contiguous())),
        ("full_i64", &|| Ok(Tensor::full([301, 403], 7, DType::I64).contiguous())),
        ("ones_bf16", &|| Ok(Tensor::ones([301, 403], DType::BF16).contiguous())),
        ("eye", &|| Ok(Tensor::eye(403, 403, DType::F32).contiguous())),
        ("linspace", &|| Ok(Tensor::linspace(0.0, 1.0, 100_001, DType::F32))),
    ];
    for (name, f) in cases {
        w.one(&format!("wide_make_{name}"), f)?;
    }
    Ok(())
}
