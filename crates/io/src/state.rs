//! Tensors by name, in order, with the numbers and strings beside them.

use crate::{Error, ErrorKind, Result};
use gradus_core::Tensor;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

/// Plain values beside the tensors: an epoch, a learning rate, a format's version.
pub type Metadata = BTreeMap<String, Meta>;

/// One plain value.
///
/// Safetensors keeps strings alone, so a number comes back from it as its text; the `as_` methods read that too.
///
/// ```
/// use gradus_io::Meta;
/// assert_eq!(Meta::from(3).as_i64(), Some(3));
/// assert_eq!(Meta::from("3").as_i64(), Some(3));
/// assert_eq!(Meta::from(0.5).to_string(), "0.5");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Meta {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Str(String),
    /// Several plain values, as `betas=(0.9, 0.999)`.
    List(Vec<Meta>),
}

impl Meta {
    /// The integer this is, or whose text this is.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Meta::Int(i) => Some(*i),
            Meta::Str(s) => s.parse().ok(),
            Meta::None | Meta::Bool(_) | Meta::Float(_) | Meta::List(_) => None,
        }
    }

    /// The number this is, or whose text this is.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Meta::Int(i) => Some(*i as f64),
            Meta::Float(x) => Some(*x),
            Meta::Str(s) => s.parse().ok(),
            Meta::None | Meta::Bool(_) | Meta::List(_) => None,
        }
    }

    /// The truth value this is, or whose text this is.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Meta::Bool(b) => Some(*b),
            Meta::Str(s) => s.parse().ok(),
            Meta::None | Meta::Int(_) | Meta::Float(_) | Meta::List(_) => None,
        }
    }

    /// The text this is.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Meta::Str(s) => Some(s),
            Meta::None | Meta::Bool(_) | Meta::Int(_) | Meta::Float(_) | Meta::List(_) => None,
        }
    }
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meta::None => f.write_str("none"),
            Meta::Bool(b) => write!(f, "{b}"),
            Meta::Int(i) => write!(f, "{i}"),
            // {:?} keeps the point of 1.0, so that a float reads back as one.
            Meta::Float(x) => write!(f, "{x:?}"),
            Meta::Str(s) => f.write_str(s),
            Meta::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

macro_rules! meta_from {
    ($($t:ty => |$x:ident| $e:expr;)*) => {$(
        impl From<$t> for Meta { fn from($x: $t) -> Meta { $e } }
    )*};
}
meta_from! {
    bool => |x| Meta::Bool(x);
    i32 => |x| Meta::Int(x.into());
    i64 => |x| Meta::Int(x);
    f32 => |x| Meta::Float(x.into());
    f64 => |x| Meta::Float(x);
    &str => |x| Meta::Str(x.into());
    String => |x| Meta::Str(x);
    Vec<Meta> => |x| Meta::List(x);
}

/// Tensors by name, in the order in which they were put in, and [`Metadata`].
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_io::StateDict;
/// let state = StateDict::from_iter([("b", Tensor::from([1.0f32])), ("a", Tensor::from([2i64, 3]))]);
/// assert_eq!(state.names().collect::<Vec<_>>(), ["b", "a"]);
/// assert_eq!(state.tensor("a")?.dims(), [2]);
/// assert!(state.tensor("c").is_err());
/// # Ok::<(), gradus_io::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct StateDict {
    tensors: Vec<(String, Tensor)>,
    places: HashMap<String, usize>,
    metadata: Metadata,
}

impl StateDict {
    /// Nothing in it.
    pub fn new() -> StateDict {
        StateDict::default()
    }

    /// Puts a tensor in, last; one of that name is replaced where it stands, and returned.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) -> Option<Tensor> {
        let name = name.into();
        if let Some(entry) = self.places.get(&name).and_then(|&i| self.tensors.get_mut(i)) {
            return Some(std::mem::replace(&mut entry.1, tensor));
        }
        self.places.insert(name.clone(), self.tensors.len());
        self.tensors.push((name, tensor));
        None
    }

    /// Takes a tensor out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        let place = self.places.remove(name)?;
        for p in self.places.values_mut().filter(|p| **p > place) {
            *p -= 1;
        }
        Some(self.tensors.remove(place).1)
    }

    /// The tensor of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.places.get(name).and_then(|&i| self.tensors.get(i)).map(|(_, t)| t)
    }

    /// The tensor of this name, or an error that shows names near it.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.get(name).ok_or_else(|| {
            let last = |s: &str| s.rsplit('.').next().map(str::to_owned);
            let same = self.names().filter(|n| n.eq_ignore_ascii_case(name) || last(n) == last(name));
            let near = same.take(3).map(crate::error::shorten).collect();
            Error::new(ErrorKind::Missing { name: crate::error::shorten(name), near })
        })
    }

    /// Whether a tensor of this name is in it.
    pub fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// How many tensors it holds.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether it holds no tensor.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|(n, _)| n.as_str())
    }

    /// Names and tensors in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.tensors.iter().map(|(n, t)| (n.as_str(), t))
    }

    /// The plain values beside the tensors.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The plain values beside the tensors, to change.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }
}

impl<N: Into<String>> FromIterator<(N, Tensor)> for StateDict {
    fn from_iter<I: IntoIterator<Item = (N, Tensor)>>(iter: I) -> StateDict {
        let mut state = StateDict::new();
        state.extend(iter);
        state
    }
}

impl<N: Into<String>> Extend<(N, Tensor)> for StateDict {
    fn extend<I: IntoIterator<Item = (N, Tensor)>>(&mut self, iter: I) {
        for (name, tensor) in iter {
            self.insert(name, tensor);
        }
    }
}

impl IntoIterator for StateDict {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;
    fn into_iter(self) -> Self::IntoIter {
        self.tensors.into_iter()
    }
}

impl fmt::Debug for StateDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, t) in self.iter() {
            map.entry(&name, &format_args!("{} {}", t.dtype(), t.shape()));
        }
        map.entries(&self.metadata).finish()
    }
}
