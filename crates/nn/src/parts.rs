//! Lists, maps and options of modules; and plain values, which have nothing inside.

use crate::part::{Part, Variable, Visitor};
use gradus_core::{
    AvgPoolOptions, ConvOptions, ConvTransposeOptions, DType, Device, InterpolateMode, InterpolateOptions,
    MaxPoolOptions, PadMode, Padding, Reduction, Scalar, Shape, Sizes,
};
use std::{
    collections::{BTreeMap, HashMap},
    marker::PhantomData,
};

type Replace<'f> = &'f mut dyn FnMut(&mut Variable<'_>);

impl<P: Part + ?Sized> Part for Box<P> {
    fn kind(&self) -> &'static str {
        (**self).kind()
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        (**self).visit(v);
    }
    fn update(&mut self, f: Replace<'_>) {
        (**self).update(f);
    }
}

impl<P: Part> Part for Option<P> {
    fn kind(&self) -> &'static str {
        self.as_ref().map_or("", P::kind)
    }
    fn describe(&self) -> String {
        self.as_ref().map_or(String::new(), P::describe)
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        if let Some(part) = self {
            part.visit(v);
        }
    }
    fn update(&mut self, f: Replace<'_>) {
        if let Some(part) = self {
            part.update(f);
        }
    }
}

impl<P: Part> Part for [P] {
    fn visit(&self, v: &mut Visitor<'_>) {
        for (i, part) in self.iter().enumerate() {
            v.field(&i.to_string(), part);
        }
    }
    fn update(&mut self, f: Replace<'_>) {
        self.iter_mut().for_each(|part| part.update(f));
    }
}

impl<P: Part> Part for Vec<P> {
    fn visit(&self, v: &mut Visitor<'_>) {
        self[..].visit(v);
    }
    fn update(&mut self, f: Replace<'_>) {
        self[..].update(f);
    }
}

impl<P: Part, const N: usize> Part for [P; N] {
    fn visit(&self, v: &mut Visitor<'_>) {
        self[..].visit(v);
    }
    fn update(&mut self, f: Replace<'_>) {
        self[..].update(f);
    }
}

/// By key, in the order of the keys: the same in every run.
impl<K: ToString, P: Part> Part for HashMap<K, P> {
    fn visit(&self, v: &mut Visitor<'_>) {
        let mut sorted: Vec<(String, &P)> = self.iter().map(|(k, p)| (k.to_string(), p)).collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        sorted.iter().for_each(|(k, p)| v.field(k, *p));
    }
    fn update(&mut self, f: Replace<'_>) {
        self.values_mut().for_each(|part| part.update(f));
    }
}

impl<K: ToString, P: Part> Part for BTreeMap<K, P> {
    fn visit(&self, v: &mut Visitor<'_>) {
        self.iter().for_each(|(k, p)| v.field(&k.to_string(), p));
    }
    fn update(&mut self, f: Replace<'_>) {
        self.values_mut().for_each(|part| part.update(f));
    }
}

macro_rules! tuple_parts {
    ($($($p:ident $i:tt),+;)*) => {$(
        impl<$($p: Part),+> Part for ($($p,)+) {
            fn visit(&self, v: &mut Visitor<'_>) {
                $(v.field(stringify!($i), &self.$i);)+
            }
            fn update(&mut self, f: Replace<'_>) {
                $(self.$i.update(f);)+
            }
        }
    )*};
}
tuple_parts! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

/// Plain values, without parameters inside.
macro_rules! parts_plain {
    ($($t:ty),* $(,)?) => {$(impl $crate::Part for $t {
        fn visit(&self, _: &mut $crate::Visitor<'_>) {}
        fn update(&mut self, _: &mut dyn FnMut(&mut $crate::Variable<'_>)) {}
    })*};
}
pub(crate) use parts_plain;

parts_plain! {
    (), bool, char, u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64, String, &'static str,
    DType, Device, Shape, Scalar, Sizes, Padding, PadMode, Reduction, ConvOptions, ConvTransposeOptions,
    MaxPoolOptions, AvgPoolOptions, InterpolateMode, InterpolateOptions,
}

impl<T> Part for PhantomData<T> {
    fn visit(&self, _: &mut Visitor<'_>) {}
    fn update(&mut self, _: Replace<'_>) {}
}
