//! Sizes of windows, strides and paddings: one number for all spatial axes, or one an axis.

use crate::{Error, Result};
use smallvec::SmallVec;

/// One number for every spatial axis, or one an axis.
///
/// ```
/// use gradus_core::Sizes;
/// assert_eq!(Sizes::from(3), Sizes::from([3]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sizes(SmallVec<[usize; 3]>);

impl Sizes {
    /// One number for each of `n` axes.
    #[track_caller]
    pub fn spread(&self, op: &str, name: &str, n: usize) -> Result<SmallVec<[usize; 3]>> {
        match &self.0[..] {
            [one] => Ok(SmallVec::from_elem(*one, n)),
            many if many.len() == n => Ok(self.0.clone()),
            many => {
                let why = format!("{name} {many:?} has {} numbers for {n} spatial axes", many.len());
                Err(Error::value(op, why).hint(format!("give one number or {n}")))
            }
        }
    }

    /// As [`Sizes::spread`], where zero makes no sense.
    #[track_caller]
    pub fn spread_positive(&self, op: &str, name: &str, n: usize) -> Result<SmallVec<[usize; 3]>> {
        let all = self.spread(op, name, n)?;
        if all.contains(&0) {
            return Err(Error::value(op, format!("{name} must be at least 1, not {:?}", &all[..])));
        }
        Ok(all)
    }
}

impl From<usize> for Sizes {
    fn from(n: usize) -> Sizes {
        Sizes(SmallVec::from_slice(&[n]))
    }
}
impl<const N: usize> From<[usize; N]> for Sizes {
    fn from(n: [usize; N]) -> Sizes {
        Sizes(SmallVec::from_slice(&n))
    }
}
impl From<&[usize]> for Sizes {
    fn from(n: &[usize]) -> Sizes {
        Sizes(SmallVec::from_slice(n))
    }
}
impl From<Vec<usize>> for Sizes {
    fn from(n: Vec<usize>) -> Sizes {
        Sizes(SmallVec::from_vec(n))
    }
}
impl From<&Sizes> for Sizes {
    fn from(n: &Sizes) -> Sizes {
        n.clone()
    }
}
