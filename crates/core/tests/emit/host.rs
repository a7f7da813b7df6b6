//! Emitted CUDA C on the CPU: a shim makes it C++, contexts for the threads of a block.

use super::cases::Case;
use gradus_core::kernel::{
    Kernel,
    emit::{self, Program, Stage, What},
    oracle::Cell,
};
use std::ffi::c_void;

/// Rows that call functions of CUDA's that a C++ library has not.
pub const LACKS: &[&str] = &["erfinv", "ndtri"];

const SHIM: &str = r#"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <cmath>
#include <utility>
#define __global__
#define __device__ static
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__
struct shim_dim { unsigned int x; };
static shim_dim threadIdx, blockIdx, gridDim;
// A thread of a block is a context of its own; where it must wait for others it gives way to the next.
struct shim_fiber { ucontext_t context; bool done; long block, warp; char slot[8]; };
static shim_fiber* shim_fibers;
static unsigned shim_threads;
static ucontext_t shim_main;
static void shim_wait(unsigned from, unsigned to, long shim_fiber::* count) {
    const long mine = ++(shim_fibers[threadIdx.x].*count);
    for (;;) {
        bool all = true;
        for (unsigned t = from; t < to; ++t) {
            if (shim_fibers[t].done && shim_fibers[t].*count < mine) { fprintf(stderr, "a barrier that not all threads reach\n"); abort(); }
            all = all && shim_fibers[t].*count >= mine;
        }
        if (all) return;
        const unsigned me = threadIdx.x;
        swapcontext(&shim_fibers[me].context, &shim_main);
    }
}
static void __syncthreads() { shim_wait(0, shim_threads, &shim_fiber::block); }
template <class T> static T __shfl_xor_sync(unsigned, T value, int by) {
    const unsigned me = threadIdx.x, first = me / 32 * 32;
    memcpy(shim_fibers[me].slot, &value, sizeof(T));
    shim_wait(first, first + 32, &shim_fiber::warp);
    T out;
    memcpy(&out, shim_fibers[me ^ by].slot, sizeof(T));
    shim_wait(first, first + 32, &shim_fiber::warp);
    return out;
}
static inline void atomicOr(unsigned int* p, unsigned int x) { *p |= x; }
static inline float __int_as_float(int b) { float f; memcpy(&f, &b, 4); return f; }
static inline int __float_as_int(float f) { int b; memcpy(&b, &f, 4); return b; }
static inline double __longlong_as_double(long long b) { double f; memcpy(&f, &b, 8); return f; }
template <class T> static inline T rsqrt(T x) { return 1 / std::sqrt(x); }
template <class T> static inline T sinpi(T v) {
    const double x = v, r0 = std::fmod(std::fabs(x), 2.0);
    const bool flip = r0 >= 1.0;
    double r = flip ? r0 - 1.0 : r0;
    if (r > 0.5) r = 1.0 - r;
    const double y = r > 0.25 ? std::cos(M_PI * (0.5 - r)) : std::sin(M_PI * r);
    return (T)(flip != (x < 0) ? -y : y);
}
template <class T> static inline T erfcx(T v) {
    const double x = v;
    if (x < 20) return (T)(std::exp(x * x) * std::erfc(x));
    double t = 1, s = 1;
    for (int k = 0; k < 10; ++k) { t *= -(2 * k + 1) * 0.5 / (x * x); s += t; }
    return (T)(s / (x * std::sqrt(M_PI)));
}
static inline double shim_bessel(double a, double nu) {
    if (!(a < 1e3)) return a;
    double term = 1, sum = 1;
    for (double k = 1; term > 1e-18 * sum; ++k) sum += term *= 0.25 * a * a / (k * (k + nu));
    return nu == 0 ? sum : 0.5 * a * sum;
}
template <class T> static inline T cyl_bessel_i0(T x) { return (T)shim_bessel(std::fabs(x), 0); }
template <class T> static inline T cyl_bessel_i1(T x) { return std::copysign((T)shim_bessel(std::fabs(x), 1), x); }
template <class A> static A shim_arg(void* p) {
    if constexpr (std::is_pointer_v<A>) return (A)p; else return *(A*)p;
}
template <class... A, size_t... I> static void shim_call(void (*f)(A...), void** a, std::index_sequence<I...>) {
    f(shim_arg<A>(a[I])...);
}
template <class... A> static void shim_spread(void (*f)(A...), void** a) { shim_call(f, a, std::index_sequence_for<A...>{}); }
typedef void (*shim_kernel)(void**);
static shim_kernel shim_now;
static void** shim_args;
static void shim_enter() {
    shim_now(shim_args);
    shim_fibers[threadIdx.x].done = true;
    swapcontext(&shim_fibers[threadIdx.x].context, &shim_main);
}
static void shim_run(shim_kernel f, void** a, unsigned blocks, unsigned threads, bool together) {
    const size_t stack = 65536;
    gridDim.x = blocks;
    shim_threads = threads;
    char* stacks = together ? (char*)malloc(stack * threads) : 0;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        if (!together) {
            for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) f(a);
            continue;
        }
        shim_now = f;
        shim_args = a;
        shim_fibers = new shim_fiber[threads]();
        for (unsigned t = 0; t < threads; ++t) {
            getcontext(&shim_fibers[t].context);
            shim_fibers[t].context.uc_stack.ss_sp = stacks + t * stack;
            shim_fibers[t].context.uc_stack.ss_size = stack;
            makecontext(&shim_fibers[t].context, shim_enter, 0);
        }
        for (unsigned done = 0; done < threads;) {
            done = 0;
            for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) {
                if (!shim_fibers[threadIdx.x].done) swapcontext(&shim_main, &shim_fibers[threadIdx.x].context);
                done += shim_fibers[threadIdx.x].done;
            }
        }
        delete[] shim_fibers;
    }
    free(stacks);
}
"#;

/// A program under a name of its own, so that many fit one file.
pub fn in_namespace(i: usize, p: &Program) -> String {
    format!("namespace k{i} {{\n{}}}\n", p.text.replace("extern \"C\" ", ""))
}

/// The plain emitter's text as a program of one launch, on fewer blocks than points, so that each must take several.
pub fn plain(k: &Kernel) -> Program {
    let s = emit::cuda(k).unwrap();
    let stage = Stage { entry: s.entry.into(), blocks: s.blocks(3), threads: s.block, shared: 0 };
    Program {
        bindings: s.bindings.iter().map(|b| b.what).collect(),
        stages: vec![stage],
        scratch: 0,
        contract: false,
        alignment: k.args.iter().map(|_| 1).collect(),
        text: s.text,
    }
}

/// Kernels a file: one compiler process each.
const PART: usize = 200;

pub struct Library(libloading::Library);

impl Library {
    /// Compiles all programs into one library, where there is a compiler.
    pub fn build(programs: &[Program]) -> Option<Library> {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("gradus-emit-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut objects = vec![];
        let mut children = vec![];
        for (n, part) in programs.chunks(PART).enumerate() {
            let mut text = SHIM.to_string();
            for (j, p) in part.iter().enumerate() {
                let i = n * PART + j;
                text += &in_namespace(i, p);
                let together = p.text.contains("__syncthreads()") || p.text.contains("__shfl");
                for (n, s) in p.stages.iter().enumerate() {
                    text += &format!(
                        "static void call{i}_{n}(void** a) {{ shim_spread(k{i}::{}, a); }}\n\
                         extern \"C\" void run{i}_{n}(void** a) {{ shim_run(call{i}_{n}, a, {}, {}, {together}); }}\n",
                        s.entry, s.blocks, s.threads
                    );
                }
            }
            let (source, object) = (dir.join(format!("part{n}.cpp")), dir.join(format!("part{n}.o")));
            std::fs::write(&source, text).unwrap();
            // No contraction, and integers that wrap: what the oracle does.
            let options = ["-std=c++17", "-O0", "-w", "-fPIC", "-fwrapv", "-ffp-contract=off", "-c", "-o"];
            let child = std::process::Command::new("g++").args(options).arg(&object).arg(&source).spawn();
            let Ok(child) = child else {
                println!("skipped: no g++ to run the emitted CUDA C on the CPU");
                return None;
            };
            children.push(child);
            objects.push(object);
        }
        for mut c in children {
            assert!(c.wait().unwrap().success(), "the shim does not compile: see {}", dir.display());
        }
        let out = dir.join("all.so");
        let status = std::process::Command::new("g++").args(["-shared", "-o"]).arg(&out).args(&objects).status();
        assert!(status.unwrap().success());
        // SAFETY: the library was just made from code above; it has no initialisers of note.
        let lib = unsafe { libloading::Library::new(&out).unwrap() };
        std::fs::remove_dir_all(&dir).ok();
        Some(Library(lib))
    }

    /// Calls the entry points of program `i` with pointers to their arguments; a buffer is its own.
    pub fn call(&self, i: usize, p: &Program, list: &mut [*mut c_void]) {
        for n in 0..p.stages.len() {
            // SAFETY: the signature is the one written above; the pointers are those the entry point expects.
            unsafe {
                let name = format!("run{i}_{n}");
                let run = self.0.get::<unsafe extern "C" fn(*mut *mut c_void)>(name.as_bytes()).unwrap();
                run(list.as_mut_ptr());
            }
        }
    }

    /// Runs program `i`, of case `c`, on these buffers.
    pub fn run(&self, i: usize, p: &Program, c: &Case, args: &mut [Vec<u8>], flags: &mut u32) {
        let mut cells: Vec<Cell> = c.params.iter().zip(&c.kernel.params).map(|(&x, &d)| Cell::of(x, d)).collect();
        let mut scratch = vec![[0u64; 2]; p.scratch.div_ceil(16)];
        let mut list: Vec<*mut c_void> = vec![];
        // Buffers at addresses that keep to what the program asks for, and to no more than that.
        let mut copies: Vec<(Vec<[u64; 2]>, usize)> = vec![];
        for (a, bytes) in args.iter().enumerate() {
            let offset = c.offsets.get(a).copied().unwrap_or(0) as usize * c.kernel.args[a].dtype.size();
            let mut shift = p.alignment[a] % 16;
            while !(shift + offset).is_multiple_of(p.alignment[a]) {
                shift += 1;
            }
            let mut copy = vec![[0u64; 2]; (bytes.len() + shift).div_ceil(16) + 1];
            // SAFETY: the copy has room for all bytes after the shift.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.as_mut_ptr().cast::<u8>().add(shift), bytes.len());
            }
            copies.push((copy, shift));
        }
        for b in &p.bindings {
            list.push(match *b {
                What::Buffer(a) => {
                    let start = c.offsets.get(a).copied().unwrap_or(0) as usize * c.kernel.args[a].dtype.size();
                    let (copy, shift) = &mut copies[a];
                    copy.as_mut_ptr().cast::<u8>().wrapping_add(*shift + start).cast()
                }
                What::Param(p) => (&raw mut cells[p]).cast(),
                What::Flags => (&raw mut *flags).cast(),
                What::Scratch => scratch.as_mut_ptr().cast(),
                What::Offset(_) => unreachable!("CUDA takes no offsets"),
                What::Table => unreachable!("one kernel has no table"),
            });
        }
        self.call(i, p, &mut list);
        for (bytes, (copy, shift)) in args.iter_mut().zip(&copies) {
            // SAFETY: as above, the other way.
            unsafe {
                std::ptr::copy_nonoverlapping(copy.as_ptr().cast::<u8>().add(*shift), bytes.as_mut_ptr(), bytes.len());
            }
        }
    }
}
