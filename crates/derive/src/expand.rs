//! From a type to the code that walks it.

use crate::attributes::{OfField, of_field, of_type};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use std::collections::HashSet;
use syn::{
    Data, DeriveInput, Error, Fields, Generics, Ident, LitStr, Member, Path, Result, parse_quote, spanned::Spanned,
};

/// A field that takes part: how the pattern binds it, and under what name (`None`: none of its own).
struct Child {
    binding: Ident,
    name: Option<LitStr>,
    span: proc_macro2::Span,
}

/// One arm of the walk: a pattern and the fields it binds.
struct Arm {
    pattern: TokenStream,
    children: Vec<Child>,
}

pub fn module(input: DeriveInput, default_crate: Path) -> Result<TokenStream> {
    let about = of_type(&input.attrs)?;
    let krate = about.krate.unwrap_or(default_crate);
    let ident = &input.ident;
    let arms = match &input.data {
        Data::Struct(s) => vec![arm(quote!(#ident), &s.fields, false)?],
        Data::Enum(e) => e
            .variants
            .iter()
            .map(|v| {
                let variant = &v.ident;
                arm(quote!(#ident::#variant), &v.fields, true)
            })
            .collect::<Result<_>>()?,
        Data::Union(u) => {
            return Err(Error::new(u.union_token.span, "a union has no fields to walk: use a struct or an enum"));
        }
    };
    let walk = |call: fn(&Child) -> TokenStream| {
        let arms = arms.iter().map(|Arm { pattern, children }| {
            let calls = children.iter().map(call);
            quote!(#pattern => { #(#calls)* })
        });
        // An enum without variants has no values to walk.
        if input_is_empty(&input) { quote!(match *self {}) } else { quote!(match self { #(#arms)* }) }
    };
    let seen = walk(|c| {
        let binding = &c.binding;
        match &c.name {
            Some(name) => quote_spanned!(c.span=> __v.field(#name, #binding);),
            None => quote_spanned!(c.span=> __Part::visit(#binding, __v);),
        }
    });
    let changed = walk(|c| {
        let binding = &c.binding;
        quote_spanned!(c.span=> __Part::update(#binding, __f);)
    });
    let kind = about.kind.unwrap_or_else(|| LitStr::new(&ident.to_string(), ident.span()));
    let describe = about.describe.map(|f| quote!(fn describe(&self) -> ::std::string::String { (#f)(self) }));
    let generics = with_bounds(input.generics.clone(), &krate);
    let (params, args, bounds) = generics.split_for_impl();
    Ok(quote! {
        const _: () = {
            use #krate::Part as __Part;
            #[automatically_derived]
            impl #params #krate::Part for #ident #args #bounds {
                fn kind(&self) -> &'static str { #kind }
                #describe
                fn visit(&self, __v: &mut #krate::Visitor<'_>) { let _ = &__v; #seen }
                fn update(&mut self, __f: &mut dyn FnMut(&mut #krate::Variable<'_>)) { let _ = &__f; #changed }
            }
            #[automatically_derived]
            impl #params #krate::Module for #ident #args #bounds {}
        };
    })
}

fn input_is_empty(input: &DeriveInput) -> bool {
    matches!(&input.data, Data::Enum(e) if e.variants.is_empty())
}

/// Type parameters may hold parameters too.
fn with_bounds(mut generics: Generics, krate: &Path) -> Generics {
    generics.type_params_mut().for_each(|t| t.bounds.push(parse_quote!(#krate::Part)));
    generics
}

/// The pattern of a struct or variant, and the fields of it that take part. The single unnamed field of a variant is
/// the variant itself, so it has no name of its own.
fn arm(path: TokenStream, fields: &Fields, variant: bool) -> Result<Arm> {
    let sole = variant && matches!(fields, Fields::Unnamed(f) if f.unnamed.len() == 1);
    let mut bound = vec![];
    let mut children = vec![];
    let mut taken = HashSet::new();
    for (i, field) in fields.iter().enumerate() {
        let OfField { skip, flatten, rename } = of_field(&field.attrs)?;
        if skip {
            continue;
        }
        let member = field.ident.clone().map_or(Member::Unnamed(i.into()), Member::Named);
        let text = match &member {
            // `r#type` is called `type`.
            Member::Named(n) => n.to_string().trim_start_matches("r#").to_string(),
            Member::Unnamed(i) => i.index.to_string(),
        };
        let name = rename.unwrap_or_else(|| LitStr::new(&text, field.span()));
        // With the place of the field's type, so that what the compiler has to say about it points there.
        let binding = format_ident!("__field_{}", i, span = field.ty.span());
        let name = (!flatten && !sole).then_some(name);
        if let Some(n) = &name
            && !taken.insert(n.value())
        {
            return Err(Error::new(n.span(), format!("two fields are named `{}`", n.value())));
        }
        bound.push(quote!(#member: #binding));
        children.push(Child { binding, name, span: field.ty.span() });
    }
    Ok(Arm { pattern: quote!(#path { #(#bound,)* .. }), children })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(input: DeriveInput) -> Result<String> {
        module(input, parse_quote!(::gradus_nn)).map(|code| code.to_string())
    }

    #[track_caller]
    fn refused(input: DeriveInput, why: &str) {
        let text = expanded(input).unwrap_err().to_string();
        assert!(text.contains(why), "{text}");
    }

    #[test]
    fn mistakes_say_what_is_possible() {
        refused(parse_quote!(union A { x: u8 }), "a union has no fields to walk");
        refused(
            parse_quote!(
                struct A {
                    #[module(skipp)]
                    x: u8,
                }
            ),
            "of a field: skip, rename = \"name\", flatten",
        );
        refused(
            parse_quote!(
                #[module(skip)]
                struct A;
            ),
            "skip, rename and flatten go on fields",
        );
        refused(
            parse_quote!(
                struct A {
                    #[module(rename = "a.b")]
                    x: u8,
                }
            ),
            "dots separate levels",
        );
        refused(
            parse_quote!(
                struct A {
                    #[module(rename = "")]
                    x: u8,
                }
            ),
            "must not be empty",
        );
        refused(
            parse_quote!(
                struct A {
                    #[module(skip, flatten)]
                    x: u8,
                }
            ),
            "exclude each other",
        );
        refused(
            parse_quote!(
                struct A {
                    #[module(rename = "y")]
                    x: u8,
                    y: u8,
                }
            ),
            "two fields are named `y`",
        );
        refused(
            parse_quote!(
                struct A {
                    #[module(rename)]
                    x: u8,
                }
            ),
            "expected `=`",
        );
    }

    #[test]
    fn what_is_left_out_is_not_walked() {
        let code = expanded(parse_quote!(
            struct A {
                w: Param,
                #[module(skip)]
                hidden: Secret,
            }
        ))
        .unwrap();
        assert!(code.contains("\"w\"") && !code.contains("hidden"), "{code}");
    }

    #[test]
    fn the_crate_can_be_another() {
        let code = expanded(parse_quote!(
            #[module(crate = my::nn, kind = "B")]
            struct A<T>(T);
        ))
        .unwrap();
        assert!(code.contains("my :: nn :: Module") && code.contains("\"B\""), "{code}");
        assert!(code.contains("T : my :: nn :: Part"), "{code}");
        // A type without values has nothing to walk.
        assert!(
            expanded(parse_quote!(
                enum Never {}
            ))
            .unwrap()
            .contains("match * self { }")
        );
    }
}
