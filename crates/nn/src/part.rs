//! Parts of modules, and the walk over them that gives each its name.

use crate::{Buffer, Mode, Param};
use gradus_core::Tensor;

/// What a walk over a module comes to.
pub enum Found<'a> {
    /// A parameter, at its full name.
    Param(&'a Param),
    /// A buffer, at its full name.
    Buffer(&'a Buffer),
    /// A switch between training and evaluation.
    Mode(&'a Mode),
    /// A part begins: all until its end is inside it.
    Begin(&'a dyn Part),
    /// The part that began last ends.
    End,
}

/// Walks over a module and keeps the dotted name of where it is.
pub struct Visitor<'v> {
    path: String,
    sink: &'v mut dyn FnMut(&str, Found<'_>),
}

impl<'v> Visitor<'v> {
    /// A walk that tells `sink` what it comes to, and at which name.
    pub fn new(sink: &'v mut dyn FnMut(&str, Found<'_>)) -> Visitor<'v> {
        Visitor { path: String::new(), sink }
    }

    /// Goes on into a part of this name.
    pub fn field(&mut self, name: &str, part: &dyn Part) {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        (self.sink)(&self.path, Found::Begin(part));
        part.visit(self);
        (self.sink)(&self.path, Found::End);
        self.path.truncate(before);
    }

    /// Here is a parameter, a buffer or a mode.
    pub fn found(&mut self, what: Found<'_>) {
        (self.sink)(&self.path, what);
    }
}

/// A parameter or a buffer that is being replaced: by a copy on another device, or of another type.
pub struct Variable<'a> {
    /// The tensor that is in its place.
    pub(crate) tensor: &'a mut Tensor,
}

/// Something that may have parameters inside: a parameter itself, a layer, a list of layers; or a plain value, which has
/// none. `#[derive(Module)]` writes it.
///
/// A field that is neither does not compile, so that no tensor is forgotten by accident:
///
/// ```compile_fail,E0277
/// #[derive(gradus_nn::Module)]
/// struct Forgotten {
///     weight: gradus_core::Tensor, // meant to be a Param or a Buffer, or #[module(skip)]
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a module",
    label = "not a parameter, a buffer, a module or a plain value",
    note = "a tensor that is trained is a `Param`, one that is saved with the model but not trained a `Buffer`",
    note = "a type of your own with layers inside needs `#[derive(Module)]`",
    note = "anything else is left out with `#[module(skip)]`"
)]
pub trait Part {
    /// The name of the type, for `summary()`; nothing for what should not be shown.
    fn kind(&self) -> &'static str {
        ""
    }

    /// The settings, for `summary()`.
    fn describe(&self) -> String {
        String::new()
    }

    /// Tells the visitor what is inside.
    fn visit(&self, v: &mut Visitor<'_>);

    /// Calls `f` with every parameter and buffer inside, to be replaced.
    fn update(&mut self, f: &mut dyn FnMut(&mut Variable<'_>));
}
