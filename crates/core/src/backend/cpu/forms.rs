//! The forms in which a kernel can run here, and the choice among them: each gives itself up where the next would do better.

use super::{
    address,
    boxes::Boxes,
    exec::{self, Bases},
    flip::Flip,
    packed::{self, Packed},
    program::Program,
    regions::Regions,
    short::Short,
    straight::Straight,
    take::Take,
    tier::Tiered,
    triangle::Triangle,
};
use crate::{
    Result, Scalar,
    backend::{Executable, Slot},
    kernel::{Arg, Kernel, collapse, unrolled},
};
use smallvec::SmallVec;
use std::any::Any;

/// A kernel made ready in some way.
pub trait Form: Send + Sync {
    /// The buffers of a launch.
    fn args(&self) -> &[Arg];

    /// Runs it.
    ///
    /// # Safety
    /// As [`exec::run`], for the whole kernel.
    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()>;
}

impl Form for Program {
    fn args(&self) -> &[Arg] {
        &self.kernel.args
    }

    unsafe fn run(&self, bases: Bases<'_>, params: &[Scalar]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { exec::run(self, bases, params) }
    }
}

/// A kernel in the form that suits it, without machine code or with it.
pub struct Ready(Tiered<Box<dyn Form>>);

impl Executable for Ready {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn prepare(&self) {
        self.0.best();
    }
}

impl Ready {
    /// Prepares a verified kernel.
    pub fn of(kernel: &Kernel) -> Ready {
        Ready(Tiered::new(std::slice::from_ref(kernel), |k| form(&k[0])))
    }

    /// Runs it over the buffers of a launch.
    ///
    /// # Safety
    /// As [`exec::run`].
    pub unsafe fn launch(&self, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        let form = self.0.now();
        let bases: SmallVec<[*mut u8; 32]> = args.iter().zip(form.args()).map(|(s, a)| address(s, a.dtype)).collect();
        // SAFETY: the caller's promise.
        unsafe { form.run(Bases(&bases), params) }
    }
}

/// The form that suits a kernel.
fn form(kernel: &Kernel) -> Box<dyn Form> {
    // Reductions of one number each are none.
    let single = if kernel.cols() == 1 { unrolled(&collapse(kernel)) } else { None };
    let kernel = single.as_ref().unwrap_or(kernel);
    if let Some(take) = Take::of(kernel) {
        return Box::new(take);
    }
    if let Some(triangle) = Triangle::of(kernel) {
        return Box::new(triangle);
    }
    if let Some(flip) = Flip::of(kernel) {
        return Box::new(flip);
    }
    if (packed::copies(kernel) || packed::turns(kernel) || packed::narrow(kernel))
        && let Some(packed) = Packed::of(kernel)
    {
        return Box::new(packed);
    }
    if let Some(boxes) = Boxes::of(kernel) {
        return Box::new(boxes);
    }
    if let Some(straight) = Straight::of(kernel) {
        return Box::new(straight);
    }
    if let Some(short) = Short::of(kernel) {
        return Box::new(short);
    }
    let program = Program::new(kernel);
    let one = program.functions.units.is_some() || program.transposition.is_some();
    if !one
        && program.cols == 1
        && packed::by_lines(&program.kernel)
        && let Some(packed) = Packed::of(kernel)
    {
        return Box::new(packed);
    }
    if !one && let Some(regions) = Regions::cut(kernel) {
        return Box::new(regions);
    }
    if !one
        && program.cols == 1
        && packed::steps(&program.kernel)
        && let Some(packed) = Packed::of(kernel)
    {
        return Box::new(packed);
    }
    Box::new(program)
}
