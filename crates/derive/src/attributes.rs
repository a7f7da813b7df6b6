//! `#[module(..)]` on types and on fields.

use syn::{Attribute, Error, Expr, LitStr, Path, Result, meta::ParseNestedMeta, spanned::Spanned};

/// What is said about the type.
#[derive(Default)]
pub struct OfType {
    /// The crate that holds `Part` and `Module`.
    pub krate: Option<Path>,
    /// The name that `summary()` shows.
    pub kind: Option<LitStr>,
    /// A function from `&Self` to the settings that `summary()` shows.
    pub describe: Option<Expr>,
}

/// What is said about a field.
#[derive(Default)]
pub struct OfField {
    /// Left out.
    pub skip: bool,
    /// Without a name of its own.
    pub flatten: bool,
    /// Another name.
    pub rename: Option<LitStr>,
}

/// Calls `each` with every item of every `#[module(..)]`.
fn items(attributes: &[Attribute], mut each: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    attributes.iter().filter(|a| a.path().is_ident("module")).try_for_each(|a| a.parse_nested_meta(&mut each))
}

pub fn of_type(attributes: &[Attribute]) -> Result<OfType> {
    let mut found = OfType::default();
    items(attributes, |item| {
        if item.path.is_ident("crate") {
            found.krate = Some(item.value()?.call(Path::parse_mod_style)?);
        } else if item.path.is_ident("kind") {
            found.kind = Some(item.value()?.parse()?);
        } else if item.path.is_ident("describe") {
            found.describe = Some(item.value()?.parse()?);
        } else {
            let known = "of a type: crate = path, kind = \"Name\", describe = function";
            return Err(item.error(format!("unknown attribute; {known} (skip, rename and flatten go on fields)")));
        }
        Ok(())
    })?;
    Ok(found)
}

pub fn of_field(attributes: &[Attribute]) -> Result<OfField> {
    let mut found = OfField::default();
    items(attributes, |item| {
        if item.path.is_ident("skip") {
            found.skip = true;
        } else if item.path.is_ident("flatten") {
            found.flatten = true;
        } else if item.path.is_ident("rename") {
            let name: LitStr = item.value()?.parse()?;
            if name.value().is_empty() || name.value().contains('.') {
                return Err(Error::new(name.span(), "a name must not be empty or contain a dot: dots separate levels"));
            }
            found.rename = Some(name);
        } else {
            return Err(item.error("unknown attribute; of a field: skip, rename = \"name\", flatten"));
        }
        Ok(())
    })?;
    let said = [found.skip, found.flatten, found.rename.is_some()];
    if said.iter().filter(|s| **s).count() > 1 {
        let span = attributes.first().map_or_else(proc_macro2::Span::call_site, |a| a.span());
        return Err(Error::new(span, "skip, rename and flatten exclude each other"));
    }
    Ok(found)
}
