//! What memory alone allows: bare loops over the operands of the rows that do nothing but read and write.
//!
//! No tensors, plans or kernels take part, so that beside each figure stands what the machine gave in that minute:
//! the memory of the machines these were written on is twice as fast in one minute as in another. Processors differ in how they
//! like to be asked, by a factor of two and more, so each loop goes several ways, and the fastest counts.

use crate::Bench;
use gradus_numerics::pages::{HUGE, advise_huge};
use gradus_numerics::tasks::for_tasks;
use std::hint::black_box;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

/// The side of the matrix that the sums and the product with a vector read.
const N: usize = 4096;

/// The rows of the table of the embedding, the numbers of each, and how many are looked up.
const TABLE: usize = 50257;
const WIDTH: usize = 768;
const LOOKED_UP: usize = 8192;

/// Tasks, each of as many whole rows.
const PARTS: usize = 8;

/// Numbers of a page of 4 KiB, and the pages ahead of which one line each is asked for in turn.
const PAGE: usize = 1024;
const PAGES: usize = 8;

/// The bare loop that a workload is held against.
pub fn of(work: &str) -> Option<&'static str> {
    Some(match work {
        "matvec" | "sum_all" | "sum_1" => "limit_read",
        "sum_0" => "limit_rows",
        "add_bcast" | "exp" => "limit_add",
        "embedding" => "limit_gather",
        _ => return None,
    })
}

/// Those that are named.
pub fn run(bench: &Bench) {
    if bench.names("limit_read") {
        let x = numbers(N * N);
        bench.time_fastest("limit_read", &[read, read_four, read_ahead], |way| {
            for_tasks(PARTS, true, |t| _ = black_box(way(part(&x, t))));
        });
    }
    if bench.names("limit_rows") {
        let x = numbers(N * N);
        bench.time_fastest("limit_rows", &[rows, rows_ahead], |way| {
            for_tasks(PARTS, true, |t| _ = black_box(way(part(&x, t))));
        });
    }
    if bench.names("limit_gather") {
        let (x, mut y) = (numbers(TABLE * WIDTH), numbers(LOOKED_UP * WIDTH));
        bench.time_fastest("limit_gather", &[copy, copy_ahead, copy_past], |way| {
            written(&mut y, |t, to| {
                let first = t * (LOOKED_UP / PARTS);
                // Rows anywhere: multiples of a prime.
                let row = |i: usize| &x[(first + i) * 7919 % TABLE * WIDTH..][..WIDTH];
                to.chunks_exact_mut(WIDTH).enumerate().for_each(|(i, to)| way(to, row(i), row(i + 1)));
            });
        });
    }
    if bench.names("limit_add") {
        let (x, row, mut y) = (numbers(N * N / 4), numbers(N / 2), numbers(N * N / 4));
        bench.time_fastest("limit_add", &[add, add_past], |way| {
            written(&mut y, |t, to| {
                let rows = to.chunks_exact_mut(row.len()).zip(part(&x, t).chunks_exact(row.len()));
                rows.for_each(|(to, from)| way(to, from, &row));
            });
        });
    }
}

/// Numbers in memory like that of tensors: on huge pages where there are any, and from the beginning of one.
struct Numbers {
    all: Vec<f32>,
    skip: usize,
}

impl Deref for Numbers {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.all[self.skip..]
    }
}

impl DerefMut for Numbers {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.all[self.skip..]
    }
}

fn numbers(n: usize) -> Numbers {
    let mut all = Vec::<f32>::with_capacity(n + HUGE / 4);
    let room = all.spare_capacity_mut();
    let skip = room.as_ptr().align_offset(HUGE).min(HUGE / 4);
    // SAFETY: the room after the first `skip` numbers is this vector's own, and holds nothing yet.
    unsafe { advise_huge(room.as_mut_ptr().add(skip).cast(), 4 * n) };
    all.extend((0..skip + n).map(|i| (i % 977) as f32 * 0.01));
    Numbers { all, skip }
}

/// What a task reads.
fn part(x: &[f32], task: usize) -> &[f32] {
    &x[task * (x.len() / PARTS)..][..x.len() / PARTS]
}

/// Gives every task a part of what is written.
fn written(y: &mut [f32], f: impl Fn(usize, &mut [f32]) + Sync + Send) {
    let to: Vec<_> = y.chunks_mut(y.len() / PARTS).map(Mutex::new).collect();
    for_tasks(PARTS, true, |t| f(t, &mut to[t].lock().unwrap_or_else(|e| e.into_inner())));
    black_box(y);
}

/// Defines a loop twice, once with the widest vectors, and takes what the machine has.
macro_rules! widest {
    ($name:ident, $body:ident, ($($arg:ident: $ty:ty),*) $(-> $out:ty)?) => {
        fn $name($($arg: $ty),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx512f") {
                #[target_feature(enable = "avx512f")]
                fn wide($($arg: $ty),*) $(-> $out)? {
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
widest!(read_four, read_four_body, (x: &[f32]) -> [f32; 64]);
widest!(read_ahead, read_ahead_body, (x: &[f32]) -> [f32; 64]);
widest!(rows, rows_body, (x: &[f32]) -> Vec<f32>);
widest!(rows_ahead, rows_ahead_body, (x: &[f32]) -> Vec<f32>);
widest!(add, add_body, (to: &mut [f32], x: &[f32], row: &[f32]));
widest!(add_past, add_past_body, (to: &mut [f32], x: &[f32], row: &[f32]));

/// Asks for the line of a number, which need not be there.
#[inline(always)]
fn prefetch(x: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint: it reads nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(x.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = x;
}

/// Writes a line past the caches, where that can be said.
#[inline(always)]
fn write_past(to: &mut [f32; 16], x: [f32; 16]) {
    #[cfg(target_arch = "x86_64")]
    if to.as_ptr().align_offset(64) == 0 {
        for (to, x) in to.as_chunks_mut::<4>().0.iter_mut().zip(x.as_chunks::<4>().0) {
            // SAFETY: the place is this slice's, at a multiple of 16 bytes, and every x86-64 has these vectors.
            unsafe {
                let x = std::arch::x86_64::_mm_loadu_ps(x.as_ptr());
                std::arch::x86_64::_mm_stream_ps(to.as_mut_ptr(), x);
            }
        }
        return;
    }
    *to = x;
}

/// Adds all numbers up, in 64 sums.
#[inline(always)]
fn read_body(x: &[f32]) -> [f32; 64] {
    let mut sums = [0.0; 64];
    for part in x.as_chunks::<64>().0 {
        (0..64).for_each(|i| sums[i] += part[i]);
    }
    sums
}

/// The same through four parts at once: of eight ways on a Zen 5 the fastest, on a Cascade Lake the slowest.
#[inline(always)]
fn read_four_body(x: &[f32]) -> [f32; 64] {
    let mut sums = [0.0; 64];
    let quarter = x.len() / 4;
    let parts: [_; 4] = std::array::from_fn(|q| x[q * quarter..][..quarter].as_chunks::<16>().0);
    for i in 0..quarter / 16 {
        for (part, sums) in parts.iter().zip(sums.as_chunks_mut::<16>().0) {
            (0..16).for_each(|lane| sums[lane] += part[i][lane]);
        }
    }
    sums
}

/// The same, asking for a line of each of the next pages in turn: what Intel's servers like.
#[inline(always)]
fn read_ahead_body(x: &[f32]) -> [f32; 64] {
    let mut sums = [0.0; 64];
    for block in x.chunks_exact(PAGES * PAGE) {
        for (i, part) in block.as_chunks::<64>().0.iter().enumerate() {
            for line in 0..4 {
                let line = 4 * i + line;
                let ahead = (1 + line % PAGES) * PAGE - PAGE + line / PAGES * 16;
                prefetch(block.as_ptr().wrapping_add(PAGES * PAGE + ahead));
            }
            (0..64).for_each(|i| sums[i] += part[i]);
        }
    }
    sums
}

/// Adds rows up, eight at a time: of twelve ways through the matrix the fastest on a Zen 4.
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

/// Adds rows up one by one, asking for the next a line of each page in turn.
#[inline(always)]
fn rows_ahead_body(x: &[f32]) -> Vec<f32> {
    let mut sums = vec![0.0; N];
    for row in x.as_chunks::<N>().0 {
        let lines = sums.as_chunks_mut::<16>().0.iter_mut().zip(row.as_chunks::<16>().0);
        for (line, (sums, x)) in lines.enumerate() {
            let pages = N / PAGE;
            prefetch(row.as_ptr().wrapping_add(N + line % pages * PAGE + line / pages * 16));
            (0..16).for_each(|i| sums[i] += x[i]);
        }
    }
    sums
}

#[inline(always)]
fn add_body(to: &mut [f32], x: &[f32], row: &[f32]) {
    to.iter_mut().zip(x).zip(row).for_each(|((to, x), row)| *to = x + row);
}

#[inline(always)]
fn add_past_body(to: &mut [f32], x: &[f32], row: &[f32]) {
    let (x, row) = (x.as_chunks::<16>().0, row.as_chunks::<16>().0);
    for ((to, x), row) in to.as_chunks_mut::<16>().0.iter_mut().zip(x).zip(row) {
        prefetch(x.as_ptr().wrapping_add(2 * PAGE / 4));
        write_past(to, std::array::from_fn(|i| x[i] + row[i]));
    }
}

fn copy(to: &mut [f32], x: &[f32], _next: &[f32]) {
    to.copy_from_slice(x);
}

/// A copy, asking for the row that comes next.
fn copy_ahead(to: &mut [f32], x: &[f32], next: &[f32]) {
    next.chunks(16).for_each(|line| prefetch(line.as_ptr()));
    to.copy_from_slice(x);
}

/// A copy past the caches by whole lines where that can be said (by quarters it takes half as long again), asking for a line of the next row with each.
fn copy_past(to: &mut [f32], x: &[f32], next: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && to.as_ptr().align_offset(64) == 0 {
        use std::arch::x86_64::{_mm512_loadu_ps, _mm512_stream_ps};

        #[target_feature(enable = "avx512f")]
        fn lines(to: &mut [[f32; 16]], x: &[[f32; 16]], next: &[[f32; 16]]) {
            for ((to, x), next) in to.iter_mut().zip(x).zip(next) {
                prefetch(next.as_ptr());
                // SAFETY: both are whole lines, and the one that is written begins as a line of memory does.
                unsafe { _mm512_stream_ps(to.as_mut_ptr(), _mm512_loadu_ps(x.as_ptr())) };
            }
        }
        // SAFETY: the machine has what the function asks for.
        return unsafe { lines(to.as_chunks_mut().0, x.as_chunks().0, next.as_chunks().0) };
    }
    copy_ahead(to, x, next);
}
