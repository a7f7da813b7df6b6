//! Tensors: arrays of numbers of any rank, with NumPy's broadcasting and PyTorch's names.
//!
//! cargo run --release --example 01_tensors

use gradus::prelude::*;

fn main() -> Result<()> {
    tour().map(|_| ())
}

/// Returns the sum at the end, for the test.
pub fn tour() -> Result<f64> {
    // From Rust's arrays, or made: the element type is that of the numbers, or is said.
    let a = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let ramp = Tensor::arange(0, 3, 1, DType::F32)?;
    println!("a has shape {} and type {}:\n{a}\n", a.shape(), a.dtype());

    // Shapes that differ broadcast as in NumPy: [2, 3] with [3], and with a number.
    println!("a * [0, 1, 2] + 10 =\n{}\n", &a * &ramp + 10.0);

    // What can fail returns a Result; what cannot does not.
    println!("a times its transpose =\n{}\n", a.matmul(&a.t()?)?);
    println!("means of the columns = {}", a.mean_dim(0, false)?);
    println!("largest of each row at {}\n", a.argmax_dim(1, false)?);

    // Views share memory: nothing is copied by reshape, transpose, ranges or steps.
    println!("last column {}, second row {}", a.i((.., -1))?, a.i(1)?);
    println!("as [3, 2]:\n{}\n", a.reshape([3, 2])?);

    // Conditions make bools, and bools choose.
    println!("with the small ones cut off:\n{}\n", a.gt(2.5)?.where_(&a, 0.0)?);

    // Tensors are lazy: this line computes nothing ...
    let y = ((&a - a.mean()) / a.std(1)).tanh().sum();
    // ... reading does, in as few passes over memory as the fuser finds. `explain` shows them.
    println!("{}", y.explain()?);
    println!("sum = {:.4}\n", y.item::<f64>()?);

    // The same seed gives the same numbers, on any number of threads.
    manual_seed(7);
    println!("normal numbers: {}\n", Tensor::randn([4]));

    // A mistake says what was expected, what came, and where both were made.
    if let Err(e) = a.matmul(&ramp.reshape([1, 3])?) {
        println!("a mistake reads like this:\n{e}");
    }
    (&a * &ramp).sum().item()
}
