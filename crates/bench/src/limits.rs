//! What memory alone allows: bare loops over the operands of the rows that do nothing but read and write.
//!
//! No tensors, plans or kernels take part, so that beside each figure stands what the machine gave in that minute:
//! the memory of the machines these were written on is twice as fast in one minute as in another.

use crate::Bench;
use gradus_numerics::pages::{HUGE, advise_huge};
use gradus_numerics::tasks::for_tasks;
use std::hint::black_box;

/// The side of the matrix that the sums and the product with a vector read.
const N: usize = 4096;

/// The rows of the table of the embedding, the numbers of each, and how many are looked up.
const TABLE: usize = 50257;
const WIDTH: usize = 768;
const LOOKED_UP: usize = 8192;

/// Tasks, each of as many whole rows.
const PARTS: usize = 8;

/// The bare loop that a workload is held against.
pub fn of(work: &str) -> Option<&'static str> {
    Some(match work {
        "matvec" | "sum_all" | "sum_1" => "limit_read",
        "sum_0" => "limit_rows",
        "add_bcast" => "limit_add",
        "embedding" => "limit_gather",
        _ => return None,
    })
}

/// Those that are named.
pub fn run(bench: &Bench) {
    if bench.names("limit_read") {
        let x = numbers(N * N);
        bench.time("limit_read", || parts(&x, |part| _ = black_box(read(part))));
    }
    if bench.names("limit_rows") {
        let x = numbers(N * N);
        bench.time("limit_rows", || parts(&x, |part| _ = black_box(rows(part))));
    }
    if bench.names("limit_gather") {
        let x = numbers(TABLE * WIDTH);
        let mut y = numbers(LOOKED_UP * WIDTH);
        // Rows anywhere: multiples of a prime.
        let row = |i: usize| &x[i * 7919 % TABLE * WIDTH..][..WIDTH];
        bench.time("limit_gather", || {
            let to: Vec<_> = y.chunks_mut(LOOKED_UP * WIDTH / PARTS).map(std::sync::Mutex::new).collect();
            for_tasks(PARTS, true, |t| {
                let mut to = to[t].lock().unwrap_or_else(|e| e.into_inner());
                for (i, to) in to.chunks_exact_mut(WIDTH).enumerate() {
                    to.copy_from_slice(row(t * (LOOKED_UP / PARTS) + i));
                }
            });
            black_box(&y);
        });
    }
    if bench.names("limit_add") {
        let (x, row) = (numbers(N * N / 4), numbers(N / 2));
        let mut y = numbers(N * N / 4);
        bench.time("limit_add", || {
            let to: Vec<_> = y.chunks_mut(N * N / 4 / PARTS).map(std::sync::Mutex::new).collect();
            for_tasks(PARTS, true, |t| {
                let from = &x[t * (N * N / 4 / PARTS)..][..N * N / 4 / PARTS];
                let mut to = to[t].lock().unwrap_or_else(|e| e.into_inner());
                for (to, from) in to.chunks_exact_mut(row.len()).zip(from.chunks_exact(row.len())) {
                    add(to, from, &row);
                }
            });
            black_box(&y);
        });
    }
}

/// Numbers in memory like that of tensors: on huge pages where there are any.
fn numbers(n: usize) -> Vec<f32> {
    let mut all = Vec::<f32>::with_capacity(n + HUGE / 4);
    let room = all.spare_capacity_mut();
    let skip = room.as_ptr().align_offset(HUGE).min(HUGE / 4);
    // SAFETY: the room after the first `skip` numbers is this vector's own, and holds nothing yet.
    unsafe { advise_huge(room.as_mut_ptr().add(skip).cast(), 4 * n) };
    all.extend((0..n).map(|i| (i % 977) as f32 * 0.01));
    all
}

fn parts(x: &[f32], f: impl Fn(&[f32]) + Sync + Send) {
    for_tasks(PARTS, true, |t| f(&x[t * (x.len() / PARTS)..][..x.len() / PARTS]));
}

/// Defines a loop twice, once with the widest vectors, and takes what the machine has.
macro_rules! widest {
    ($name:ident, $body:ident, ($($arg:ident: $ty:ty),*) -> $out:ty) => {
        fn $name($($arg: $ty),*) -> $out {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx512f") {
                #[target_feature(enable = "avx512f")]
                fn wide($($arg: $ty),*) -> $out {
                    $body($($arg),*)
                }
                // SAFETY: the machine has what the function asks for.
                return unsafe { wide($($arg),*) };
            }
            $body($($arg),*)
        }
    };
}
widest!(read, read_body, (x: &[f32]) -> [f32; 64]);
widest!(rows, rows_body, (x: &[f32]) -> Vec<f32>);
widest!(add, add_body, (to: &mut [f32], x: &[f32], row: &[f32]) -> ());

/// Adds all numbers up, in 64 sums.
#[inline(always)]
fn read_body(x: &[f32]) -> [f32; 64] {
    let mut sums = [0.0; 64];
    for part in x.as_chunks::<64>().0 {
        (0..64).for_each(|i| sums[i] += part[i]);
    }
    sums
}

/// Adds rows up, eight at a time: of twelve ways through the matrix the fastest.
#[inline(always)]
fn rows_body(x: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0; N];
    for eight in x.chunks_exact(8 * N) {
        let (r, _) = eight.as_chunks::<N>();
        for j in 0..N {
            sums[j] += ((r[0][j] + r[1][j]) + (r[2][j] + r[3][j])) + ((r[4][j] + r[5][j]) + (r[6][j] + r[7][j]));
        }
    }
    sums
}

#[inline(always)]
fn add_body(to: &mut [f32], x: &[f32], row: &[f32]) {
    to.iter_mut().zip(x).zip(row).for_each(|((to, x), row)| *to = x + row);
}
