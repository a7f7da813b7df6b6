//! The inner loops of reductions: a block of elements into accumulators.

use crate::{
    DType,
    op::{ReduceOp, block::Isa},
};

/// What reductions need of a register type.
trait Num: Copy {
    fn add(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn larger(self, o: Self) -> Self;
    fn smaller(self, o: Self) -> Self;
}

macro_rules! float_num {
    ($($t:ty),*) => {$(impl Num for $t {
        #[inline(always)]
        fn add(self, o: Self) -> Self { self + o }
        #[inline(always)]
        fn mul(self, o: Self) -> Self { self * o }
        #[inline(always)]
        fn larger(self, o: Self) -> Self { if self > o || self.is_nan() { self } else { o } }
        #[inline(always)]
        fn smaller(self, o: Self) -> Self { if self < o || self.is_nan() { self } else { o } }
    })*};
}
float_num!(f32, f64);

impl Num for i64 {
    fn add(self, o: Self) -> Self {
        self.wrapping_add(o)
    }
    fn mul(self, o: Self) -> Self {
        self.wrapping_mul(o)
    }
    fn larger(self, o: Self) -> Self {
        self.max(o)
    }
    fn smaller(self, o: Self) -> Self {
        self.min(o)
    }
}

impl Num for bool {
    fn add(self, o: Self) -> Self {
        self | o
    }
    fn mul(self, o: Self) -> Self {
        self & o
    }
    fn larger(self, o: Self) -> Self {
        self | o
    }
    fn smaller(self, o: Self) -> Self {
        self & o
    }
}

/// `acc[i] = f(acc[i], x[i])` for `i < n`.
///
/// # Safety
/// Both hold `n` registers of the type and do not overlap.
pub type Across = unsafe fn(acc: *mut u8, x: *const u8, n: usize);

/// `acc[(first + j) % lanes] = f(acc[(first + j) % lanes], x[j])` for `j < n`, in turn.
///
/// # Safety
/// `acc` holds `lanes` registers, `first` is below `lanes`, `x` holds `n`; they do not overlap.
pub type Along = unsafe fn(acc: *mut u8, lanes: usize, first: usize, x: *const u8, n: usize);

/// `acc[i] = f(acc[i], acc[i + half])` for the lower half, then for its lower half, and so on.
///
/// # Safety
/// `acc` holds [`WIDE`] registers of the type.
pub type Lanes = unsafe fn(acc: *mut u8);

/// The loops of one reduction over one register type.
#[derive(Clone, Copy)]
pub struct Fold {
    /// Element by element.
    pub across: Across,
    /// Lane by lane.
    pub along: Along,
    /// All [`WIDE`] lanes into the first, pairwise.
    pub lanes: Lanes,
}

macro_rules! folds {
    ($across:ident, $along:ident, $lanes:ident, $feature:literal) => {
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $feature))]
        unsafe fn $across<T: Num, const OP: u8>(acc: *mut u8, x: *const u8, n: usize) {
            // SAFETY: the caller's promise.
            let (a, x) = unsafe {
                (std::slice::from_raw_parts_mut(acc.cast::<T>(), n), std::slice::from_raw_parts(x.cast::<T>(), n))
            };
            for (a, x) in a.iter_mut().zip(x) {
                *a = two::<T, OP>(*a, *x);
            }
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $feature))]
        unsafe fn $along<T: Num, const OP: u8>(acc: *mut u8, lanes: usize, first: usize, x: *const u8, n: usize) {
            // SAFETY: the caller's promise.
            let (a, x) = unsafe {
                (std::slice::from_raw_parts_mut(acc.cast::<T>(), lanes), std::slice::from_raw_parts(x.cast::<T>(), n))
            };
            let (head, x) = x.split_at(if first == 0 { 0 } else { (lanes - first).min(n) });
            for (a, x) in a[first..].iter_mut().zip(head) {
                *a = two::<T, OP>(*a, *x);
            }
            if let Ok(a) = <&mut [T; WIDE]>::try_from(&mut *a) {
                // The usual width as a constant, so that the accumulators stay in vector registers.
                let mut r = *a;
                let (whole, rest) = x.as_chunks::<WIDE>();
                for c in whole {
                    for l in 0..WIDE {
                        r[l] = two::<T, OP>(r[l], c[l]);
                    }
                }
                for (l, x) in rest.iter().enumerate() {
                    r[l] = two::<T, OP>(r[l], *x);
                }
                *a = r;
                return;
            }
            for c in x.chunks(lanes) {
                for (a, x) in a.iter_mut().zip(c) {
                    *a = two::<T, OP>(*a, *x);
                }
            }
        }
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $feature))]
        unsafe fn $lanes<T: Num, const OP: u8>(acc: *mut u8) {
            // SAFETY: the caller's promise.
            let a = unsafe { &mut *acc.cast::<[T; WIDE]>() };
            // Halves of known size, so that they stay in vector registers.
            let a: [T; 32] = std::array::from_fn(|i| two::<T, OP>(a[i], a[i + 32]));
            let b: [T; 16] = std::array::from_fn(|i| two::<T, OP>(a[i], a[i + 16]));
            let c: [T; 8] = std::array::from_fn(|i| two::<T, OP>(b[i], b[i + 8]));
            let d: [T; 4] = std::array::from_fn(|i| two::<T, OP>(c[i], c[i + 4]));
            let (low, high) = (two::<T, OP>(d[0], d[2]), two::<T, OP>(d[1], d[3]));
            // SAFETY: as above.
            unsafe { *acc.cast::<T>() = two::<T, OP>(low, high) };
        }
    };
}
/// The usual number of lanes.
pub const WIDE: usize = crate::kernel::Order::ROWS.lanes;
folds!(across_512, along_512, lanes_512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
folds!(across_256, along_256, lanes_256, "avx2,fma");
folds!(across_base, along_base, lanes_base, "sse2");

#[inline(always)]
fn two<T: Num, const OP: u8>(a: T, b: T) -> T {
    match OP {
        0 => a.add(b),
        1 => a.mul(b),
        2 => a.larger(b),
        _ => a.smaller(b),
    }
}

/// The loops for a reduction over registers of `dtype`.
pub fn fold(op: ReduceOp, dtype: DType, isa: Isa) -> Fold {
    fn pick<T: Num>(op: ReduceOp, isa: Isa) -> Fold {
        fn of<T: Num, const OP: u8>(isa: Isa) -> Fold {
            match isa {
                Isa::Avx512 => {
                    Fold { across: across_512::<T, OP>, along: along_512::<T, OP>, lanes: lanes_512::<T, OP> }
                }
                Isa::Avx2 => Fold { across: across_256::<T, OP>, along: along_256::<T, OP>, lanes: lanes_256::<T, OP> },
                Isa::Base => {
                    Fold { across: across_base::<T, OP>, along: along_base::<T, OP>, lanes: lanes_base::<T, OP> }
                }
            }
        }
        match op {
            ReduceOp::Sum => of::<T, 0>(isa),
            ReduceOp::Prod => of::<T, 1>(isa),
            ReduceOp::Max => of::<T, 2>(isa),
            ReduceOp::Min => of::<T, 3>(isa),
        }
    }
    match dtype.compute() {
        DType::F32 => pick::<f32>(op, isa),
        DType::F64 => pick::<f64>(op, isa),
        DType::Bool => pick::<bool>(op, isa),
        _ => pick::<i64>(op, isa),
    }
}
