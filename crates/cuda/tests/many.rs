//! Kernels of one body as one launch on a GPU, against one launch each, and an optimizer of many parameters against the
//! CPU. Where there is no GPU, every test says that it skips, and why.

use gradus_core::{
    DType, Device, Result, Scalar, Tensor,
    backend::Slot,
    graph::Buffer,
    kernel::{Access, Arg, Inst, InstKind, Kernel, Level, Order, Source},
    manual_seed,
    op::ewise,
};
use gradus_cuda::{CudaDevice, graph_stats};
use gradus_optim::{Adam, Optimizer};

fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(d) => Some(d),
        Err(e) => {
            println!("skipped: {e}");
            None
        }
    }
}

/// `y = x * p0 + g * s`, with `s` one number.
fn update(dtype: DType, extent: usize) -> Kernel {
    let at = |stride: isize| Access { strides: vec![stride], ..Access::default() };
    let load = |arg, stride| InstKind::Load { source: Source::Arg(arg), access: at(stride) };
    let binary = |row, a, b| InstKind::Ewise(row, [a, b].into_iter().collect());
    let elem = |kind| Inst { kind, dtype, level: Level::Elem };
    let insts = vec![
        elem(load(0, 1)),
        elem(load(1, 1)),
        elem(load(2, 0)),
        Inst { kind: InstKind::Param(0), dtype, level: Level::Uniform },
        elem(binary(&ewise::MUL, 0, 3)),
        elem(binary(&ewise::MUL, 1, 2)),
        elem(binary(&ewise::ADD, 4, 5)),
        elem(InstKind::Store { arg: 3, access: at(1), value: 6 }),
    ];
    let args = [false, false, false, true].map(|written| Arg { dtype, written }).to_vec();
    Kernel { map: vec![extent], reduce: vec![], args, params: vec![dtype], insts, order: Order::ROWS }
}

#[test]
fn one_launch_gives_the_bits_of_many() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let backend = gpu.backend();
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        let mut extents = vec![0, 1, 3, 100_000, 1024, 1025, 0, 7, 2_500_001];
        extents.extend((0..120).map(|i| 100 + 37 * i));
        let kernels: Vec<Kernel> = extents.iter().map(|&n| update(dtype, n)).collect();
        let exe = backend.compile_many(&kernels)?.expect("they have one body");
        let (mut slots, mut params, mut memory) = (vec![], vec![], vec![]);
        for (p, &n) in extents.iter().enumerate() {
            // Every fifth part starts at an odd element.
            let offset = p.is_multiple_of(5) as isize;
            for a in 0..4 {
                let size = (n + 9) * dtype.size();
                let bytes: Vec<u8> = match dtype {
                    DType::BF16 => {
                        (0..n + 9).flat_map(|i| (0x3f80 + ((i * 7 + a + p) % 64) as u16).to_ne_bytes()).collect()
                    }
                    DType::F64 => {
                        (0..n + 9).flat_map(|i| ((i * 7 + a + p) as f64 * 0.37).sin().to_ne_bytes()).collect()
                    }
                    _ => (0..n + 9).flat_map(|i| ((i * 7 + a + p) as f32 * 0.37).sin().to_ne_bytes()).collect(),
                };
                let buffers = [Buffer::alloc(gpu, size)?, Buffer::alloc(gpu, size)?];
                for b in &buffers {
                    backend.upload(b, 0, &bytes)?;
                }
                memory.push(buffers);
                slots.push(offset);
            }
            params.push(Scalar::F(0.5 + (p % 3) as f64));
        }
        let side = |which: usize| -> Vec<Slot<'_>> {
            memory.iter().zip(&slots).map(|(b, &offset)| Slot { buffer: &b[which], offset }).collect()
        };
        backend.launch_many(&*exe, &side(0), &params)?;
        let other = side(1);
        for (p, k) in kernels.iter().enumerate() {
            let one = backend.compile(k)?;
            backend.launch(&*one, &other[4 * p..4 * p + 4], &params[p..=p])?;
        }
        for (i, [many, one]) in memory.iter().enumerate() {
            let read = |b: &Buffer| -> Result<Vec<u8>> {
                let mut bytes = vec![0; b.bytes()];
                backend.download(b, 0, &mut bytes)?;
                Ok(bytes)
            };
            assert!(
                read(many)? == read(one)?,
                "{dtype}: part {} of {} elements, buffer {}",
                i / 4,
                extents[i / 4],
                i % 4
            );
        }
    }
    Ok(())
}

/// Parameters after some steps of Adam in two groups, whose rates are equal at first and part later.
fn train(device: Device, steps: usize) -> Result<Vec<Tensor>> {
    manual_seed(5);
    let sizes: Vec<usize> = (0..90).map(|i| 1 + (i * 131) % 700).chain([4096, 40_000]).collect();
    let start: Vec<Tensor> = sizes.iter().map(|&n| Tensor::randn([n])).collect();
    Tensor::eval_all(&start.iter().collect::<Vec<_>>())?;
    let vars: Vec<Tensor> = start.iter().map(|t| t.to(&device).requires_grad_()).collect();
    let (first, second) = vars.split_at(40);
    let mut adam = Adam::new(first, 1e-2).group(second, Adam::new(second, 1e-2).options(0).expect("a group").clone());
    for step in 0..steps {
        if step >= steps / 2 {
            adam.options_mut(1).expect("a group").lr = 1e-3 * (step as f64 + 1.0);
        }
        let mut loss = Tensor::zeros([], DType::F32).to(&device);
        for v in &vars {
            loss = loss + (v * v).sum() + v.sin().sum();
        }
        adam.step(&loss.backward()?)?;
        loss.item::<f32>()?;
    }
    vars.iter().map(|v| Ok(v.detach().to(&Device::cpu()))).collect()
}

#[test]
fn recorded_updates_get_the_numbers_of_every_step() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let before = graph_stats(&gpu)?;
    let (got, want) = (train(gpu, 16)?, train(Device::cpu(), 16)?);
    let after = graph_stats(&gpu)?;
    println!("{before:?} {after:?}");
    assert!(after.hits > before.hits + 4 && after.failed == before.failed, "{before:?} {after:?}");
    // Where a gradient is all but zero, its sign (and so Adam's first step) is a matter of rounding.
    let mut apart = vec![];
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let (g, w) = (g.to_vec::<f32>()?, w.to_vec::<f32>()?);
        apart.extend(g.iter().zip(&w).filter(|(g, w)| (*g - *w).abs() >= 1e-4).map(|(g, w)| (i, *g, *w)));
    }
    assert!(apart.len() < 4, "{} differ: {:?}", apart.len(), &apart[..4]);
    Ok(())
}
