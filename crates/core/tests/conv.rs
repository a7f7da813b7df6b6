//! Convolution against plain loops, its derivatives, and what it refuses.

mod common;

use common::{check_twice, close, numbers, tensor, vec};
use gradus_core::{ConvOptions, ConvTransposeOptions, DType, Padding, PatchOptions, Tensor};
use proptest::prelude::*;

/// A two-dimensional problem.
#[derive(Clone, Debug)]
struct Problem {
    n: usize,
    groups: usize,
    c: usize,
    o: usize,
    image: [usize; 2],
    window: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
}

fn problem() -> impl Strategy<Value = Problem> {
    let two = |r: std::ops::Range<usize>| [r.clone(), r];
    (1..3usize, 1..4usize, 1..3usize, 1..3usize, two(1..8), two(1..4), two(1..4), two(0..4), two(1..4)).prop_map(
        |(n, groups, c, o, image, window, stride, padding, dilation)| Problem {
            n,
            groups,
            c,
            o,
            image,
            window,
            stride,
            padding,
            dilation,
        },
    )
}

impl Problem {
    fn reach(&self, a: usize) -> usize {
        self.dilation[a] * (self.window[a] - 1) + 1
    }

    /// `(batch, input channel, input place, output channel, output place, weight place)` of every product.
    fn products(&self, out: [usize; 2], mut f: impl FnMut(usize, usize, usize, usize)) {
        let [h, w] = self.image;
        let place = |o: usize, k: usize, a: usize| {
            (o * self.stride[a] + k * self.dilation[a]).checked_sub(self.padding[a]).filter(|&i| i < self.image[a])
        };
        for n in 0..self.n {
            for oc in 0..self.groups * self.o {
                for c in 0..self.c {
                    let ic = oc / self.o * self.c + c;
                    for (oy, ox) in (0..out[0]).flat_map(|y| (0..out[1]).map(move |x| (y, x))) {
                        for (ky, kx) in (0..self.window[0]).flat_map(|y| (0..self.window[1]).map(move |x| (y, x))) {
                            if let (Some(iy), Some(ix)) = (place(oy, ky, 0), place(ox, kx, 1)) {
                                let x = ((n * self.groups * self.c + ic) * h + iy) * w + ix;
                                let k = ((oc * self.c + c) * self.window[0] + ky) * self.window[1] + kx;
                                let y = ((n * self.groups * self.o + oc) * out[0] + oy) * out[1] + ox;
                                f(x, k, y, oc);
                            }
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn forward_agrees_with_loops(p in problem()) {
        let fits = (0..2).all(|a| p.image[a] + 2 * p.padding[a] >= p.reach(a));
        let x = tensor(&[p.n, p.groups * p.c, p.image[0], p.image[1]], 1);
        let w = tensor(&[p.groups * p.o, p.c, p.window[0], p.window[1]], 2);
        let b = tensor(&[p.groups * p.o], 3);
        let options = ConvOptions {
            stride: p.stride.into(), padding: p.padding.into(), dilation: p.dilation.into(), groups: p.groups,
        };
        let y = x.conv2d(&w, Some(&b), options);
        if !fits {
            prop_assert!(y.unwrap_err().to_string().contains("reaches over"));
            return Ok(());
        }
        let y = y.unwrap();
        let out = [0, 1].map(|a| (p.image[a] + 2 * p.padding[a] - p.reach(a)) / p.stride[a] + 1);
        prop_assert_eq!(y.dims(), [p.n, p.groups * p.o, out[0], out[1]]);
        let (xs, ws, bs) = (vec(&x), vec(&w), vec(&b));
        let size = out[0] * out[1];
        let mut want: Vec<f64> = (0..y.numel()).map(|i| bs[i / size % (p.groups * p.o)]).collect();
        p.products(out, |x, k, y, _| want[y] += xs[x] * ws[k]);
        close(&vec(&y), &want, 1e-12);
    }

    #[test]
    fn transposed_agrees_with_loops(p in problem(), extra in [0..3usize, 0..3usize]) {
        // Here `image` is the result of the transposed convolution and `small` its input.
        let small = [p.image[0].min(4), p.image[1].min(4)];
        let size = [0, 1].map(|a| {
            ((small[a] - 1) * p.stride[a] + p.reach(a) + extra[a]) as isize - 2 * p.padding[a] as isize
        });
        let x = tensor(&[p.n, p.groups * p.o, small[0], small[1]], 1);
        let w = tensor(&[p.groups * p.o, p.c, p.window[0], p.window[1]], 2);
        let options = ConvTransposeOptions {
            stride: p.stride.into(), padding: p.padding.into(), output_padding: extra.into(),
            groups: p.groups, dilation: p.dilation.into(),
        };
        let y = x.conv_transpose2d(&w, None, options);
        let allowed = (0..2).all(|a| extra[a] < p.stride[a].max(p.dilation[a]) && size[a] > 0);
        prop_assert_eq!(y.is_ok(), allowed);
        if let Ok(y) = y {
            let p = Problem { image: size.map(|s| s as usize), ..p };
            prop_assert_eq!(y.dims(), [p.n, p.groups * p.c, p.image[0], p.image[1]]);
            let (xs, ws) = (vec(&x), vec(&w));
            let mut want = vec![0.0; y.numel()];
            p.products(small, |to, k, from, _| want[to] += xs[from] * ws[k]);
            close(&vec(&y), &want, 1e-12);
        }
    }
}

#[test]
fn one_and_three_axes_and_no_batch() {
    let x = Tensor::from([[1.0f64, 2.0, 3.0, 4.0]]);
    let w = Tensor::from([[[1.0f64, 10.0]]]);
    let y = x.conv1d(&w, None, ConvOptions { padding: Padding::Same, ..Default::default() }).unwrap();
    assert_eq!((y.dims(), vec(&y)), (&[1, 4][..], vec![21.0, 32.0, 43.0, 4.0])); // the odd zero is at the end
    let t = x.conv_transpose1d(&w, None, Default::default()).unwrap();
    assert_eq!(vec(&t), [1.0, 12.0, 23.0, 34.0, 40.0]);
    let x = tensor(&[2, 3, 4, 5], 1);
    let w = Tensor::ones([1, 2, 3, 4, 5], DType::F64);
    let y = x.conv3d(&w, None, Default::default()).unwrap();
    assert_eq!(y.dims(), [1, 1, 1, 1]);
    close(&vec(&y), &[numbers(120, 1).iter().sum()], 1e-12);
}

/// Images that lie with their channels last: with a kernel for each channel, few outputs, windows of one pixel, and others.
#[test]
fn channels_last_are_what_channels_first_are() {
    for (c, o, groups, window, stride) in [
        (10, 10, 10, 3, 1),
        (34, 34, 34, 4, 2),
        (20, 2, 1, 3, 2),
        (15, 16, 1, 1, 1),
        (15, 16, 1, 1, 2),
        (6, 9, 3, 3, 1),
    ] {
        let last = tensor(&[2, 9, 8, c], 1).to_dtype(DType::F32);
        let w = tensor(&[o, c / groups, window, window], 2).to_dtype(DType::F32);
        let bias = tensor(&[o], 3).to_dtype(DType::F32);
        let options =
            || ConvOptions { stride: stride.into(), padding: (window / 2).into(), groups, ..Default::default() };
        let x = last.permute([0, 3, 1, 2]).unwrap();
        let first = x.contiguous().detach();
        first.eval().unwrap();
        let y = x.conv2d(&w, Some(&bias), options()).unwrap().relu();
        let expected = first.conv2d(&w, Some(&bias), options()).unwrap().relu();
        assert_eq!(y.dims(), expected.dims());
        close(&vec(&y), &vec(&expected), 1e-4);
        // With gradients to come.
        let (vx, vw) = (Tensor::var("x", &x), Tensor::var("w", &w));
        let loss = vx.conv2d(&vw, Some(&bias), options()).unwrap().square().sum();
        let grads = loss.backward().unwrap();
        let fx = Tensor::var("x", &first);
        let same = fx.conv2d(&w, Some(&bias), options()).unwrap().square().sum().backward().unwrap();
        close(&vec(&grads.wrt(&vx).unwrap()), &vec(&same.wrt(&fx).unwrap()), 1e-3);
    }
}

#[test]
fn half_precision_and_integers() {
    let x = Tensor::from([[[1i64, -2, 3]]]);
    let y = x.conv1d(&Tensor::from([[[2i64, 1]]]), None, Default::default()).unwrap();
    assert_eq!((y.dtype(), y.to_vec::<i64>().unwrap()), (DType::I64, vec![0, -1]));
    let (x, w) = (tensor(&[1, 2, 5], 1).to_dtype(DType::F16), tensor(&[3, 2, 2], 2).to_dtype(DType::F16));
    let y = x.conv1d(&w, None, Default::default()).unwrap();
    let exact = x.to_dtype(DType::F64).conv1d(&w.to_dtype(DType::F64), None, Default::default()).unwrap();
    assert_eq!(y.dtype(), DType::F16);
    close(&vec(&y.to_dtype(DType::F64)), &vec(&exact), 1e-3);
    let bools = Tensor::full([1, 1, 3], true, DType::Bool);
    assert!(bools.conv1d(&bools, None, Default::default()).unwrap_err().to_string().contains("not bool"));
}

#[test]
fn empty_batches_and_channels() {
    let y =
        Tensor::zeros([0, 3, 5], DType::F32).conv1d(&Tensor::zeros([2, 3, 3], DType::F32), None, Default::default());
    assert_eq!(y.unwrap().dims(), [0, 2, 3]);
    let (x, w) = (Tensor::zeros([1, 0, 5], DType::F32), Tensor::zeros([2, 0, 3], DType::F32));
    let y = x.conv1d(&w, None, Default::default()).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0; 6]);
    let y = x.conv_transpose1d(&Tensor::zeros([0, 2, 3], DType::F32), None, Default::default()).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0; 14]);
}

#[test]
fn derivatives_to_second_order() {
    let inputs = [tensor(&[2, 4, 4, 3], 1), tensor(&[4, 2, 2, 2], 2), tensor(&[4], 3)];
    let o = || ConvOptions { stride: [2, 1].into(), padding: 1.into(), dilation: [1, 2].into(), groups: 2 };
    check_twice(|x| x[0].conv2d(&x[1], Some(&x[2]), o()).unwrap(), &inputs);
    let inputs = [tensor(&[1, 2, 3], 1), tensor(&[2, 1, 3], 2), tensor(&[2], 3)];
    for (padding, output_padding) in [(1, 1), (0, 1)] {
        let o = || ConvTransposeOptions {
            stride: 2.into(),
            padding: padding.into(),
            output_padding: output_padding.into(),
            groups: 2,
            ..Default::default()
        };
        check_twice(|x| x[0].conv_transpose1d(&x[1], Some(&x[2]), o()).unwrap(), &inputs);
    }
}

#[test]
fn columns_and_back() {
    let o = || PatchOptions { dilation: [1, 2].into(), padding: [1, 0].into(), stride: [2, 1].into() };
    let x = tensor(&[2, 3, 5, 6], 1);
    let w = tensor(&[4, 3, 2, 3], 2);
    let columns = x.im2col([2, 3], o()).unwrap();
    // A convolution is a matrix product with the columns ...
    let options = ConvOptions { stride: [2, 1].into(), padding: [1, 0].into(), dilation: [1, 2].into(), groups: 1 };
    let y = x.conv2d(&w, None, options).unwrap();
    let product = w.reshape([4, 18]).unwrap().matmul(&columns).unwrap();
    close(&vec(&product), &vec(&y), 1e-12);
    // ... and <im2col x, c> = <x, col2im c>.
    let c = tensor(columns.dims(), 3);
    let back = c.col2im([5, 6], [2, 3], o()).unwrap();
    assert_eq!(back.dims(), x.dims());
    close(&[(&back * &x).sum().item().unwrap()], &[(columns * &c).sum().item().unwrap()], 1e-12);
    check_twice(
        |x| x[0].col2im([3, 3], 2, PatchOptions { padding: 1.into(), ..Default::default() }).unwrap(),
        &[tensor(&[4, 16], 1)],
    );
    let e = c.col2im([5, 5], [2, 3], o()).unwrap_err().to_string();
    assert!(e.contains("18 rows and 6 columns") && e.contains("3 columns"), "{e}");
}

#[test]
fn refusals_name_the_numbers() {
    let (x, w) = (Tensor::zeros([1, 3, 8, 8], DType::F32), Tensor::zeros([4, 2, 3, 3], DType::F32));
    let text = |o: ConvOptions| x.conv2d(&w, None, o).unwrap_err().to_string();
    let e = text(Default::default());
    assert!(e.starts_with("conv2d: the input [1, 3, 8, 8] has 3 channels") && e.contains("(3 vs 2)"), "{e}");
    assert!(e.contains("tests/conv.rs"), "{e}");
    assert!(
        text(ConvOptions { stride: 0.into(), ..Default::default() }).contains("stride must be at least 1, not [0, 0]")
    );
    assert!(text(ConvOptions { dilation: [1, 0].into(), ..Default::default() }).contains("dilation"));
    assert!(text(ConvOptions { stride: [1, 2, 3].into(), ..Default::default() }).contains("3 numbers for 2 spatial"));
    assert!(text(ConvOptions { groups: 3, ..Default::default() }).contains("3 groups do not divide 4"));
    assert!(text(ConvOptions { groups: 0, ..Default::default() }).contains("0 groups"));
    let w = Tensor::zeros([4, 3, 9, 9], DType::F32);
    let e = x.conv2d(&w, None, Default::default()).unwrap_err().to_string();
    assert!(e.contains("a window of 9 (dilation 1) reaches over 9 elements") && e.contains("has 8"), "{e}");
    let huge = ConvOptions { padding: usize::MAX.into(), ..Default::default() };
    assert!(x.conv2d(&w, None, huge).is_err());
    let huge = ConvOptions { dilation: usize::MAX.into(), ..Default::default() };
    assert!(x.conv2d(&w, None, huge).is_err());
    let w = Tensor::zeros([4, 3, 1, 1], DType::F32);
    let e = x.conv2d(&w, Some(&Tensor::zeros([3], DType::F32)), Default::default()).unwrap_err().to_string();
    assert!(e.contains("a bias of shape [3] does not fit 4 output channels"), "{e}");
    let e = x.conv2d(&w.to_dtype(DType::F64), None, Default::default()).unwrap_err().to_string();
    assert!(e.contains("element types differ: f32 and f64"), "{e}");
    let same = ConvOptions { padding: Padding::Same, stride: 2.into(), ..Default::default() };
    assert!(x.conv2d(&w, None, same).unwrap_err().to_string().contains("needs a stride of 1, not [2, 2]"));
    assert!(x.conv1d(&w, None, Default::default()).unwrap_err().to_string().contains("2 or 3 axes"));
    let e = x.conv_transpose2d(&w, None, Default::default()).unwrap_err().to_string();
    assert!(e.contains("(3 vs 4)"), "{e}");
    let o = ConvTransposeOptions { output_padding: 1.into(), ..Default::default() };
    let e = x.conv_transpose2d(&Tensor::zeros([3, 4, 1, 1], DType::F32), None, o).unwrap_err().to_string();
    assert!(e.contains("output_padding 1 of axis 0 must be smaller than its stride 1"), "{e}");
}
