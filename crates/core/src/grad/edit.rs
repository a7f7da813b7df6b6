//! Gradients as a set that can be changed: clipped, scaled, added up.

use super::{Entry, Gradients};
use crate::{Error, Result, Tensor, VarId};

impl Gradients {
    /// The gradient for the variable of this identity, if there is one.
    pub fn get(&self, id: VarId) -> Option<&Tensor> {
        self.entries.get(&id).map(|e| &e.grad)
    }

    /// How many variables have a gradient.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no variable has a gradient.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The same set with each gradient replaced by what `f` makes of it.
    ///
    /// ```
    /// use gradus_core::Tensor;
    /// let w = Tensor::var("w", Tensor::from([3.0f32]));
    /// let half = w.square().sum().backward().unwrap().map(|_, g| Ok(g * 0.5)).unwrap();
    /// assert_eq!(half.wrt(&w).unwrap().to_vec::<f32>().unwrap(), [3.0]);
    /// ```
    #[track_caller]
    pub fn map(&self, mut f: impl FnMut(VarId, &Tensor) -> Result<Tensor>) -> Result<Gradients> {
        let mut entries = std::collections::BTreeMap::new();
        for (id, e) in &self.entries {
            let grad = f(*id, &e.grad)?;
            if grad.shape() != e.grad.shape() {
                let why = format!("a gradient of shape {} became {}", e.grad.shape(), grad.shape());
                return Err(Error::shape("map", &[e.grad.shape(), grad.shape()], why).operand(&grad));
            }
            entries.insert(*id, Entry { name: e.name.clone(), grad });
        }
        Ok(Gradients { entries, missing: self.missing.clone(), losses: self.losses.clone() })
    }

    /// The sum of two sets: a variable that one of them lacks keeps the gradient of the other.
    pub fn add(&self, other: &Gradients) -> Gradients {
        let mut entries: std::collections::BTreeMap<VarId, Entry> = std::collections::BTreeMap::new();
        for (id, e) in self.entries.iter().chain(&other.entries) {
            let grad = match entries.get(id) {
                Some(have) => &have.grad + &e.grad,
                None => e.grad.clone(),
            };
            entries.insert(*id, Entry { name: e.name.clone(), grad });
        }
        let both = self.missing.iter().chain(&other.missing);
        let missing = both.filter(|m| !entries.contains_key(&m.id)).cloned().collect();
        let losses = self.losses.iter().chain(&other.losses).cloned().collect();
        Gradients { entries, missing, losses }
    }
}
