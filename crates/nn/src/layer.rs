//! Layers of one input, and chains of them.

use crate::{
    Module,
    part::{Part, Variable, Visitor},
};
use gradus_core::{Result, Tensor};
use std::panic::Location;

/// A module from one tensor to one tensor.
///
/// ```
/// use gradus_core::{Result, Tensor};
/// use gradus_nn::{Layer, Linear, Module};
///
/// /// Adds what a layer makes of its input to the input.
/// #[derive(Module)]
/// struct Residual<L> {
///     inner: L,
/// }
///
/// impl<L: Layer> Layer for Residual<L> {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.inner.forward(x)?.add(x)
///     }
/// }
///
/// let block = Residual { inner: Linear::new(4, 4) };
/// assert_eq!(block.forward(&Tensor::randn([2, 4]))?.dims(), [2, 4]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub trait Layer: Module + Send + Sync {
    /// What the layer makes of `x`.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (**self).forward(x)
    }
}

/// A layer that may be absent: then its input passes unchanged.
impl<L: Layer> Layer for Option<L> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Some(layer) => layer.forward(x),
            None => Ok(x.resolve()),
        }
    }
}

/// Layers one after the other, named `0`, `1`, ...
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_nn::{Dropout, Gelu, Layer, Linear, Module, Sequential};
///
/// let fixed = Sequential::from((Linear::new(4, 8), Gelu::default(), Linear::new(8, 2)));
/// let mut grown = Sequential::new();
/// for width in [8, 8] {
///     grown.push(Linear::new(8, width));
///     grown.push(Dropout::new(0.1));
/// }
/// assert_eq!(fixed.forward(&Tensor::randn([3, 4]))?.dims(), [3, 2]);
/// assert_eq!((grown.len(), grown.named_parameters()[2].0.as_str()), (4, "2.weight"));
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Default)]
pub struct Sequential {
    layers: Vec<Box<dyn Layer>>,
}

impl Sequential {
    /// No layers yet: what comes in goes out.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// With one more layer at the end.
    #[allow(clippy::should_implement_trait)] // PyTorch's name, and nothing is added up
    pub fn add(mut self, layer: impl Layer + 'static) -> Sequential {
        self.push(layer);
        self
    }

    /// Puts one more layer at the end.
    pub fn push(&mut self, layer: impl Layer + 'static) {
        self.layers.push(Box::new(layer));
    }

    /// How many layers it has.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The layers in order.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Layer> {
        self.layers.iter().map(|l| &**l)
    }

    /// The shapes after each layer for an input of this shape. Nothing is computed.
    ///
    /// ```
    /// use gradus_nn::{Linear, Relu, Sequential};
    /// let model = Sequential::from((Linear::new(4, 8), Relu));
    /// assert_eq!(model.shapes(&gradus_core::Tensor::randn([2, 4]))?, [[2usize, 8]; 2]);
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    #[track_caller]
    pub fn shapes(&self, x: &Tensor) -> Result<Vec<gradus_core::Shape>> {
        let at = Location::caller();
        let mut x = x.resolve();
        let mut shapes = vec![];
        for (i, layer) in self.layers.iter().enumerate() {
            x = self.step(i, layer, &x, at)?;
            shapes.push(x.shape().clone());
        }
        Ok(shapes)
    }

    /// One layer; a mistake says which, at the caller's line.
    fn step(&self, i: usize, layer: &dyn Layer, x: &Tensor, at: &'static Location<'static>) -> Result<Tensor> {
        layer.forward(x).map_err(|e| e.at(at).within(format!("layer {i} ({})", layer.kind())))
    }
}

impl Part for Sequential {
    fn kind(&self) -> &'static str {
        "Sequential"
    }
    fn visit(&self, v: &mut Visitor<'_>) {
        self.layers.visit(v);
    }
    fn update(&mut self, f: &mut dyn FnMut(&mut Variable<'_>)) {
        self.layers.update(f);
    }
}

impl Module for Sequential {}

impl Layer for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let at = Location::caller();
        let mut x = x.resolve();
        for (i, layer) in self.layers.iter().enumerate() {
            x = self.step(i, layer, &x, at)?;
        }
        Ok(x)
    }
}

impl From<Vec<Box<dyn Layer>>> for Sequential {
    fn from(layers: Vec<Box<dyn Layer>>) -> Sequential {
        Sequential { layers }
    }
}

impl<L: Layer + 'static, const N: usize> From<[L; N]> for Sequential {
    fn from(layers: [L; N]) -> Sequential {
        layers.into_iter().collect()
    }
}

impl<L: Layer + 'static> FromIterator<L> for Sequential {
    fn from_iter<I: IntoIterator<Item = L>>(layers: I) -> Sequential {
        Sequential { layers: layers.into_iter().map(|l| Box::new(l) as Box<dyn Layer>).collect() }
    }
}

macro_rules! from_tuples {
    ($($($l:ident $i:tt),+;)*) => {$(
        impl<$($l: Layer + 'static),+> From<($($l,)+)> for Sequential {
            fn from(layers: ($($l,)+)) -> Sequential {
                Sequential { layers: vec![$(Box::new(layers.$i)),+] }
            }
        }
    )*};
}
from_tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11, N 12;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11, N 12, O 13;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11, N 12, O 13, P 14;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, M 11, N 12, O 13, P 14, Q 15;
}

type Function = Box<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// A function as a layer without parameters.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_nn::{Lambda, Layer, Linear, Sequential};
/// let model = Sequential::from((Linear::new(4, 4), Lambda::new(|x| Ok(x.square()))));
/// assert!(model.forward(&Tensor::randn([4]))?.to_vec::<f32>()?.iter().all(|y| *y >= 0.0));
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Module)]
pub struct Lambda {
    #[module(skip)]
    function: Function,
}

impl Lambda {
    /// The layer that does what `function` does.
    pub fn new(function: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static) -> Lambda {
        Lambda { function: Box::new(function) }
    }
}

impl Layer for Lambda {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        (self.function)(x)
    }
}
