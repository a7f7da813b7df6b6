//! `#[derive(Module)]`: finds the parameters, buffers and submodules of a type by its fields.
//!
//! What it writes is a walk over the fields in order, each under its own name: the dotted names of PyTorch's state_dict
//! come from there. Which fields matter is not guessed from the spelling of their types: every field must implement
//! `Part`, which plain values (numbers, strings, options of core) do by having nothing inside.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input, parse_quote};

/// Implements `Module` (and `Part`, on which it stands) for a struct or an enum.
///
/// Attributes of a field: `#[module(skip)]` leaves it out, `#[module(rename = "w")]` gives it another name,
/// `#[module(flatten)]` lists what is inside it without a name of its own. Attributes of the type:
/// `#[module(kind = "Name")]`, `#[module(describe = Self::method)]` (settings for `summary()`),
/// `#[module(crate = path)]`.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::module(input, parse_quote!(::gradus_nn)).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// As [`macro@Module`], for crates that know `gradus` and not `gradus-nn`: the facade exports it under that name.
#[proc_macro_derive(FacadeModule, attributes(module))]
pub fn facade_module(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::module(input, parse_quote!(::gradus::nn)).unwrap_or_else(|e| e.to_compile_error()).into()
}
