//! Functions of machine code with lanes of 64 bits, and rows that no single stream reads: the CPU gives
//! the oracle's bits, for every type.

use gradus_conformance::oracle;
use gradus_core::{DType, Device, PadMode, Result, Tensor};

const DTYPES: [DType; 10] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U8,
    DType::Bool,
];

/// Numbers without a pattern, some of them equal, with edges among them where `edges`.
fn tensor(shape: &[usize], seed: u64, edges: bool, dtype: DType, device: Device) -> Result<Tensor> {
    let edge = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0, 1e-310, -3e300, 3e9, -1e19];
    let mut x = seed;
    let next = |i: usize| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if edges && i % 97 == 13 { edge[x as usize / 7 % edge.len()] } else { (x >> 45) as f64 / 65536.0 - 4.0 }
    };
    let values: Vec<f64> = (0..shape.iter().product()).map(next).collect();
    let t = Tensor::from_vec(values, shape.to_vec())?;
    let t = if dtype.is_int() { (t * 10.0).to_dtype(dtype) } else { t.to_dtype(dtype) };
    t.eval()?;
    Ok(t.to(&device))
}

/// The same work on both devices: the results bit for bit. The CPU does it twice: small kernels have machine code from the second time on.
fn compare(what: &str, f: impl Fn(Device) -> Result<Vec<Tensor>>) -> Result<()> {
    let oracle = f(oracle::device())?;
    for time in ["first", "second"] {
        let cpu = f(Device::cpu())?;
        assert_eq!(cpu.len(), oracle.len());
        for (n, (a, b)) in cpu.iter().zip(&oracle).enumerate() {
            assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()), "{what}, result {n}");
            if a.to_bytes()? == b.to_bytes()? {
                continue;
            }
            let (x, y) = (a.to_vec::<f64>()?, b.to_vec::<f64>()?);
            let same = |p: &f64, q: &f64| p.to_bits() == q.to_bits() || (p.is_nan() && q.is_nan());
            let bad = x.iter().zip(&y).position(|(p, q)| !same(p, q));
            let found = bad.map(|i| (x[i], y[i]));
            assert!(bad.is_none(), "{what}, the {time} time, result {n}, element {bad:?}: {found:?}");
        }
    }
    Ok(())
}

/// Around a vector, a group, a block, a chunk and two.
const LENGTHS: [usize; 13] = [48, 55, 63, 64, 65, 71, 130, 333, 1000, 2049, 4096, 4097, 9001];

#[test]
fn rows() -> Result<()> {
    for (dtype, n) in DTYPES.into_iter().flat_map(|t| LENGTHS.map(|n| (t, n))) {
        for edges in [false, true] {
            compare(&format!("rows of {n} {dtype}, edges {edges}"), |d| {
                let x = tensor(&[5, n], 1, edges, dtype, d)?;
                let mut out =
                    vec![x.sum_dim(1, false)?, x.amax(1, true)?, x.amin(1, false)?, x.sum(), x.argmax_dim(1, false)?];
                out.extend([
                    x.any_dim(1, false)?,
                    x.ne(0)?.all_dim(1, true)?,
                    x.any(),
                    x.eq(1)?.any_dim(1, true)?.where_(&x, x.abs())?,
                ]);
                if dtype != DType::Bool {
                    out.extend([x.prod_dim(1, false)?, x.clamp(-3.0, 5.0)?.amax(1, false)?, x.abs().sum_dim(1, true)?]);
                }
                if dtype.is_float() {
                    let w = tensor(&[n], 2, false, dtype, d)?;
                    out.extend([x.softmax(-1)?, x.layer_norm([n], Some(&w), None, 1e-5)?, x.mean_dim(1, false)?]);
                    let v = Tensor::var("x", &x);
                    out.push(v.max_dim(1, false)?.0.square().sum().backward()?.wrt(&v)?);
                }
                Ok(out)
            })?;
        }
    }
    Ok(())
}

/// Columns: a few rows, whose reduction is unrolled; many of a few columns, whose chunks go abreast; wide ones, of which
/// threads take chunks of rows, several of which are one part where there are many.
#[test]
fn columns_of_any_form() -> Result<()> {
    const FORMS: [(usize, usize); 14] = [
        (2, 5000),
        (3, 1000),
        (8, 333),
        (9, 70),
        (2048, 3),
        (5000, 1),
        (2600, 2),
        (2047, 7),
        (4000, 8),
        (2100, 9),
        (300, 700),
        (1100, 2500),
        (513, 4096),
        (9000, 130),
    ];
    for (dtype, (rows, n)) in DTYPES.into_iter().flat_map(|t| FORMS.map(|f| (t, f))) {
        let large = rows * n > 1 << 20;
        if large && dtype != DType::F32 {
            continue;
        }
        for edges in [false, true].into_iter().filter(|&e| !(e && large)) {
            compare(&format!("{n} columns of {rows} {dtype}, edges {edges}"), |d| {
                let x = tensor(&[rows, n], 1, edges, dtype, d)?;
                let mut out = vec![x.sum_dim(0, false)?, x.amax(0, true)?];
                if large {
                    return Ok(out);
                }
                out.extend([
                    x.amin(0, false)?,
                    x.argmax_dim(0, false)?,
                    Tensor::stack(&[&x, &x], 1)?.sum_dim([0i64, 1], false)?,
                ]);
                if dtype != DType::Bool {
                    out.extend([x.prod_dim(0, false)?, (&x + &x.narrow(0, 1, 1)?).sum_dim(0, true)?]);
                    // One kernel, as for the gradient of a bias before an activation.
                    let twice = &x + &x;
                    out.extend([twice.sum_dim(0, false)?, twice]);
                }
                if dtype.is_float() {
                    out.extend([x.softmax(0)?, x.var_dim(0, 1, false)?, x.norm_dim(2.0, 0i64, false)?]);
                }
                Ok(out)
            })?;
        }
    }
    Ok(())
}

/// Operands that lie across: turned before an elementwise kernel, whole or with edges, and reductions that go along their
/// memory instead of along the output.
#[test]
fn operands_that_lie_across() -> Result<()> {
    const SHAPES: [[usize; 3]; 9] = [
        [1, 40, 50],
        [9, 16, 18],
        [3, 100, 12],
        [12, 5, 100],
        [33, 8, 40],
        [40, 33, 9],
        [2, 300, 70],
        [70, 17, 8],
        [10, 64, 64],
    ];
    for (dtype, shape) in DTYPES.into_iter().flat_map(|t| SHAPES.map(|f| (t, f))) {
        compare(&format!("{shape:?} of {dtype} turned"), |d| {
            let [a, b, c] = shape;
            let x = tensor(&shape, 1, false, dtype, d)?;
            let mut out = vec![];
            for (order, to) in
                [([2i64, 1, 0], [c, b, a]), ([1, 2, 0], [b, c, a]), ([0, 2, 1], [a, c, b]), ([2, 0, 1], [c, a, b])]
            {
                let y = tensor(&to, 2, false, dtype, d)?;
                let turned = x.permute(order)?;
                out.extend([turned.maximum(&y)?, turned.eq(&y)?.logical_not()]);
                // One plane of it for all others, and the other way round.
                let plane = turned.narrow(0, 0, 1)?;
                out.extend([y.minimum(&plane)?, plane.broadcast_to(to)?.contiguous()]);
                out.extend((0..3).map(|axis| turned.sum_dim(axis, false)).collect::<Result<Vec<_>>>()?);
                out.push(turned.amax(1, true)?);
                // Rows that lie across, beside others that do not.
                if dtype.is_float() {
                    out.extend([turned.softmax(-1)?, (&turned + &y).sum_dim(2, false)?]);
                }
            }
            Ok(out)
        })?;
    }
    Ok(())
}

/// Lines of a few elements: operands are fetched a block at a time, reductions across such lines too, and reductions of one
/// element each are none.
#[test]
fn lines_of_a_few_elements() -> Result<()> {
    const SHAPES: [[usize; 3]; 8] =
        [[40, 12, 3], [300, 9, 2], [33, 64, 5], [7, 600, 3], [2, 1100, 7], [70, 10, 1], [1, 90, 4], [513, 3, 6]];
    for (dtype, shape) in DTYPES.into_iter().flat_map(|t| SHAPES.map(|f| (t, f))) {
        compare(&format!("{shape:?} of {dtype}"), |d| {
            let [a, b, c] = shape;
            let x = tensor(&shape, 1, false, dtype, d)?;
            let row = tensor(&[a, 1, c], 2, false, dtype, d)?;
            let turned = tensor(&[a, c, b], 3, false, dtype, d)?.permute([0, 2, 1])?;
            let steps = tensor(&[a, b, 2 * c], 4, false, dtype, d)?.slice(2, None, None, 2)?;
            let mut out = vec![
                // Across the lines.
                x.sum_dim(1, false)?,
                x.amax(1, true)?,
                x.argmax_dim(1, false)?,
                turned.amin(1, false)?,
                x.all_dim(1, false)?,
                turned.any_dim(1, true)?,
                steps.sum_dim(1, false)?,
                // Along them, and beside others.
                x.maximum(&row)?,
                turned.minimum(&x)?,
                steps.maximum(&turned)?,
                turned.eq(&row)?,
                steps.contiguous(),
                x.pad(&[1, 2, 2, 1], PadMode::Constant(0.0))?,
                turned.pad(&[0, 1, 0, 0, 3, 0], PadMode::Constant(0.0))?,
                x.maximum(&turned.narrow(1, 0, b - 1)?.pad(&[0, 0, 1, 0], PadMode::Constant(0.0))?)?,
                // One element each.
                steps.unsqueeze(1)?.sum_dim(1, false)?,
                turned.unsqueeze(3)?.argmax_dim(3, false)?,
            ];
            if dtype != DType::Bool {
                out.extend([x.prod_dim(1, false)?, (&x + &row).sum_dim(1, false)?]);
            }
            if dtype.is_float() {
                // Elements that are written for every reduce point.
                out.extend([x.softmax(1)?, turned.log_softmax(1)?, x.var_dim(1, 1, false)?]);
                out.push(steps.unsqueeze(0)?.norm_dim(2.0, 0i64, false)?);
            }
            Ok(out)
        })?;
    }
    Ok(())
}

/// The same for operands that are large enough to be turned box by box, in boxes that are cut short along some axes.
#[test]
fn large_operands_that_lie_across() -> Result<()> {
    for (dtype, shape) in [
        (DType::F32, [1, 523, 517]),
        (DType::F32, [40, 131, 70]),
        (DType::F64, [3, 129, 400]),
        (DType::BF16, [17, 300, 111]),
        (DType::U8, [1, 1031, 1025]),
    ] {
        compare(&format!("{shape:?} of {dtype} turned"), |d| {
            let [a, b, c] = shape;
            let x = tensor(&shape, 1, false, dtype, d)?;
            let mut out = vec![];
            for (order, to) in [([2i64, 1, 0], [c, b, a]), ([0, 2, 1], [a, c, b]), ([2, 0, 1], [c, a, b])] {
                let (y, turned) = (tensor(&to, 2, false, dtype, d)?, x.permute(order)?);
                out.push(turned.maximum(&y)?);
                // Two that lie across, one of them the same for a whole axis, and one operand read both ways.
                let plane = turned.narrow(0, 0, 1)?;
                out.push(turned.minimum(&plane)?.maximum(&y)?);
                if dtype.is_float() {
                    out.push((&turned + &y).softmax(-1)?);
                }
            }
            if a == 1 {
                let square = x.reshape([b, c])?.narrow(1, 0, c.min(b))?.narrow(0, 0, c.min(b))?;
                out.push(square.maximum(&square.t()?)?);
            }
            Ok(out)
        })?;
    }
    Ok(())
}

#[test]
fn elements() -> Result<()> {
    for (dtype, n) in DTYPES.into_iter().flat_map(|t| [3, 64, 1001, 20_000].map(|n| (t, n))) {
        compare(&format!("{n} of {dtype}"), |d| {
            let (x, y) = (tensor(&[2, n], 3, true, dtype, d)?, tensor(&[n], 4, false, dtype, d)?);
            let mut out =
                vec![x.gt(&y)?, x.maximum(&y)?, x.ne(&y)?.where_(&x, &y)?, x.logical_and(&y)?, x.logical_not()];
            out.extend(DTYPES.map(|to| x.to_dtype(to)));
            if dtype != DType::Bool {
                out.extend([&x * &y, &x - 3, (&x + &y).to_dtype(DType::F64).sqrt(), -&x, x.abs(), x.sign(), x.relu()]);
                out.extend([x.clamp(-2, 3)?, x.le(&y)?.logical_or(x.eq(2)?)?, x.pow(3)?]);
            }
            if dtype.is_float() {
                out.extend([
                    x.exp(),
                    x.tanh(),
                    x.log(),
                    x.erf(),
                    x.sigmoid(),
                    x.expm1(),
                    x.softplus(1.0, 20.0)?,
                    x.gelu(),
                    x.log1p(),
                    x.exp2(),
                    x.lgamma(),
                    x.digamma(),
                    x.copysign(&y)?,
                    x.fmax(&y)?,
                    x.sin(),
                    x.sinh(),
                    x.atan2(&y)?,
                    x.fmod(&y)?,
                ]);
            } else if dtype != DType::Bool {
                let by = tensor(&[n], 5, false, DType::I64, d)?.to_dtype(dtype);
                out.extend([x.bitwise_left_shift(&by)?, x.bitwise_right_shift(&by)?, x.bitwise_and(&y)?]);
            }
            Ok(out)
        })?;
    }
    Ok(())
}

#[test]
fn columns() -> Result<()> {
    for (dtype, rows) in DTYPES.into_iter().flat_map(|t| [2, 7, 8, 13, 512, 1030].map(|r| (t, r))) {
        for n in [17, 64, 100, 600] {
            compare(&format!("{rows} rows of {n} columns of {dtype}"), |d| {
                let x = tensor(&[rows, n], 6, n == 100, dtype, d)?;
                let w = tensor(&[n], 7, false, dtype, d)?;
                let y = x.maximum(&w)?;
                let out = vec![x.sum_dim(0, false)?, x.amax(0, false)?, y.sum_dim(0, false)?, y.amin(0, true)?];
                Ok([out, vec![x.argmax_dim(0, false)?, x.any_dim(0, false)?, x.eq(&w)?.all_dim(0, false)?]].concat())
            })?;
        }
    }
    Ok(())
}

/// Rows of a few numbers, of which many are reduced side by side: as they lie, apart from each other, and two in one kernel.
#[test]
fn short_rows() -> Result<()> {
    for (dtype, n) in DTYPES.into_iter().flat_map(|t| (2..18).map(move |n| (t, n))) {
        for (rows, edges) in [(70, false), (1100, true)] {
            compare(&format!("{rows} rows of {n} {dtype}, edges {edges}"), |d| {
                let x = tensor(&[rows, n], 12, edges, dtype, d)?;
                let apart = tensor(&[2, rows, n + 3], 13, edges, dtype, d)?.narrow(2, 1, n)?;
                let mut out = vec![];
                for x in [&x, &apart] {
                    out.extend([x.sum_dim(-1, false)?, x.amax(-1, true)?, x.argmax_dim(-1, false)?]);
                    out.extend([x.any_dim(-1, false)?, x.all_dim(-1, false)?]);
                    if dtype != DType::Bool {
                        out.extend([x.prod_dim(-1, false)?, x.argmin_dim(-1, true)?]);
                    }
                    if dtype.is_float() {
                        out.extend([x.mean_dim(-1, false)?, x.var_dim(-1, 1, false)?, x.norm_dim(2.0, -1i64, false)?]);
                        out.extend([x.logsumexp(-1, false)?, x.softmax(-1)?]);
                    }
                }
                let w = tensor(&[n], 14, false, dtype, d)?;
                out.push(x.maximum(&w)?.amin(1, false)?);
                Ok(out)
            })?;
        }
    }
    Ok(())
}

/// Columns of a vector or two, over several chunks.
#[test]
fn narrow_columns() -> Result<()> {
    for (dtype, rows) in DTYPES.into_iter().flat_map(|t| [2047, 2048, 2049, 4700].map(|r| (t, r))) {
        for n in [1, 3, 8, 10, 17, 32, 33, 64, 65] {
            compare(&format!("{rows} rows of {n} columns of {dtype}"), |d| {
                let (x, w) = (tensor(&[rows, n], 10, n == 10, dtype, d)?, tensor(&[n], 11, false, dtype, d)?);
                let mut out = vec![x.sum_dim(0, false)?, x.amax(0, false)?, x.maximum(&w)?.sum_dim(0, true)?];
                out.extend([x.argmax_dim(0, false)?, x.any_dim(0, false)?, x.all_dim(0, true)?]);
                if dtype != DType::Bool {
                    out.extend([x.argmin_dim(0, false)?, x.gt(1)?.any_dim(0, false)?, x.prod_dim(0, false)?]);
                }
                if dtype.is_float() {
                    out.extend([x.var_dim(0, 1, false)?, x.softmax(0)?]);
                }
                Ok(out)
            })?;
        }
    }
    Ok(())
}

/// Axes that are apart, other steps than one, and padding.
#[test]
fn rows_in_pieces() -> Result<()> {
    for dtype in DTYPES {
        for (a, b, n) in [(3, 2, 40), (7, 3, 65), (20, 4, 130), (9, 2, 1000), (2, 3, 4099), (64, 1, 129)] {
            compare(&format!("[{a}, {b}, {n}] of {dtype}"), |d| {
                let x = tensor(&[a, b, n], 8, false, dtype, d)?;
                let y = tensor(&[a, 1, n], 9, false, dtype, d)?;
                let mut out = vec![x.sum_dim([0, 2], false)?, x.amax([0, 2], false)?];
                out.push(x.maximum(&y)?.sum_dim([0, 2], true)?);
                out.push(x.flatten(0, 1)?.i((.., gradus_core::s(1..n as i64, 3)))?.sum_dim(1, false)?);
                out.push(x.flip(2)?.amax(2, false)?);
                if dtype != DType::Bool {
                    out.push(x.pad(&[2, 3], PadMode::Constant(0.0))?.sum_dim(2, false)?);
                    out.push((&x * &y).sum_dim([0, 2], false)?);
                }
                if dtype.is_float() {
                    out.push(x.var_dim([0i64, 2], 1, false)?);
                    let (m, v) = (x.mean_dim([0i64, 2], true)?, x.var_dim([0i64, 2], 0, true)?);
                    out.push((&x - &m) / (v + 1e-5).sqrt());
                }
                Ok(out)
            })?;
        }
    }
    Ok(())
}

/// Of doubles and of integers, 16 bits are the nearest to the nearest float, as in PyTorch: next to the middle between two
/// of them that is not the nearest.
#[test]
fn sixteen_bits_by_way_of_a_float() -> Result<()> {
    let near = [1.0 + 2f64.powi(-8) + 2f64.powi(-40), 1.0 + 3.0 * 2f64.powi(-8) - 2f64.powi(-40)];
    for device in [Device::cpu(), oracle::device()] {
        let x = Tensor::from(near).to(&device);
        assert_eq!(x.to_dtype(DType::BF16).to_vec::<f64>()?, [1.0, 1.015625]);
        let x = Tensor::from([1.0 + 2f64.powi(-11) + 2f64.powi(-40)]).to(&device);
        assert_eq!(x.to_dtype(DType::F16).to_vec::<f64>()?, [1.0]);
        let x = Tensor::from([(1i64 << 40) + (1 << 32) + 1]).to(&device);
        assert_eq!(x.to_dtype(DType::BF16).to_vec::<f64>()?, [2f64.powi(40)]);
    }
    Ok(())
}

/// Every number of 16 bits as an integer of every size: those too large for one keep their lowest bits.
#[test]
fn every_number_of_sixteen_bits_as_an_integer() -> Result<()> {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let numbers = [
        Tensor::from_vec(bits.iter().map(|&b| half::bf16::from_bits(b)).collect::<Vec<_>>(), [1 << 16])?,
        Tensor::from_vec(bits.iter().map(|&b| half::f16::from_bits(b)).collect::<Vec<_>>(), [1 << 16])?,
    ];
    for x in numbers {
        compare(&format!("{} as integers", x.dtype()), |d| {
            let x = x.to(&d);
            [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64].map(|t| Ok(x.to_dtype(t))).into_iter().collect()
        })?;
    }
    Ok(())
}

/// Joined and repeated tensors, large enough for threads: parts go line by line, element by element, or as kernels of their own.
#[test]
fn joins_and_repeats() -> Result<()> {
    for dtype in DTYPES {
        compare(&format!("joined and repeated {dtype}"), |d| {
            let (x, y) = (tensor(&[301, 203], 1, true, dtype, d)?, tensor(&[301, 203], 2, true, dtype, d)?);
            let (thin, z) = (tensor(&[301, 7], 3, true, dtype, d)?, tensor(&[5, 37, 29, 31], 4, true, dtype, d)?);
            let (long, cut) = (tensor(&[3, 40_001], 5, true, dtype, d)?, x.narrow(1, 3, 50)?);
            let mut out = vec![
                Tensor::cat(&[&x, &thin, &y], 1)?,
                Tensor::cat(&[&x, &cut, &cut], 1)?,
                Tensor::cat(&[&cut, &x.t()?.narrow(0, 0, 50)?.t()?], 1)?,
                Tensor::cat(&[&cut, &cut], 0)?,
                Tensor::cat(&[&long, &long.narrow(1, 0, 17)?, &long], 1)?,
                Tensor::cat(&[&z.narrow(3, 1, 20)?, &z, &z.narrow(3, 0, 3)?], 3)?,
                Tensor::cat(&[&z.narrow(2, 1, 20)?, &z], 2)?,
                x.roll([7], [1])?,
                z.roll([3, -2], [1, 3])?,
                x.repeat([2, 3])?,
                z.repeat([1, 1, 2, 1])?,
                x.unsqueeze(1)?.expand([301, 3, 203])?.contiguous(),
                z.permute([0, 2, 1, 3])?.contiguous(),
            ];
            for dim in 0..3 {
                out.push(Tensor::stack(&[&x, &y], dim)?);
                out.push(Tensor::stack(&[&x, &y, &x], dim)?);
                out.push(Tensor::stack(&[&x, &y, &x, &y, &y], dim)?);
            }
            Ok(out)
        })?;
    }
    Ok(())
}

/// Divisions of small integers, which go by floats.
#[test]
fn divisions_of_small_integers() -> Result<()> {
    for dtype in [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64] {
        compare(&format!("divided {dtype}"), |d| {
            let (x, y) = (tensor(&[701, 103], 1, true, dtype, d)?, tensor(&[701, 103], 2, false, dtype, d)?);
            let y = y.eq(0)?.where_(y.ones_like(), &y)?;
            Ok(vec![x.floor_divide(&y)?, x.remainder(&y)?, x.fmod(&y)?, x.remainder(7)?, (&x + 3).floor_divide(&y)?])
        })?;
    }
    Ok(())
}
