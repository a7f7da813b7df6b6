//! Keys and values of what has been read already, so that a new token costs one step and not all of them again.

use gradus_core::{DType, Error, Result, Tensor};

/// Keys are looked at in blocks of this many, so that one plan serves many steps.
const BLOCK: usize = 64;

/// Keys and values of one attention layer, for up to `capacity` positions.
///
/// The buffers have their full size from the start, and the position is a number, not a shape: every step of a decoding
/// loop runs the same plan.
pub struct KvCache {
    held: Option<(Tensor, Tensor)>,
    len: usize,
    capacity: usize,
}

/// What a query looks at: keys, values (`[n, heads, s, d]`), and what of them it may see.
pub(crate) struct Seen {
    pub keys: Tensor,
    pub values: Tensor,
    pub allowed: Tensor,
}

impl KvCache {
    /// An empty cache.
    pub fn new(capacity: usize) -> KvCache {
        KvCache { held: None, len: 0, capacity }
    }

    /// Positions held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Positions it can hold.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.held = None;
        self.len = 0;
    }

    /// Adds keys and values `[n, heads, l, d]`, and gives what their queries may look at.
    #[track_caller]
    pub(crate) fn append(&mut self, keys: &Tensor, values: &Tensor) -> Result<Seen> {
        let &[n, heads, l, _] = keys.dims() else {
            return Err(Error::shape("KvCache", &[keys.shape()], "keys must be [n, heads, l, d]").operand(keys));
        };
        let end = self.len + l;
        if end > self.capacity {
            let why = format!("{l} more positions do not fit: {} of {} are taken", self.len, self.capacity);
            return Err(Error::value("KvCache", why).operand(keys).hint("make the cache for as many as you decode"));
        }
        let empty = |t: &Tensor| t.new_zeros([n, heads, self.capacity, t.dims()[3]]);
        let (old_keys, old_values) = self.held.take().unwrap_or_else(|| (empty(keys), empty(values)));
        if old_keys.dims()[..2] != [n, heads] {
            let why = format!("holds {}, and {} were added", old_keys.shape(), keys.shape());
            return Err(Error::shape("KvCache", &[old_keys.shape(), keys.shape()], why).operand(keys));
        }
        let keys = self.put(&old_keys, keys)?;
        let values = self.put(&old_values, values)?;
        let reach = end.next_multiple_of(BLOCK).min(self.capacity);
        let column = Tensor::arange(0, reach as i64, 1, DType::I64)?.to(&keys.device());
        let row = Tensor::arange(0, l as i64, 1, DType::I64)?.to(&keys.device()).unsqueeze(1)?;
        let allowed = column.le(&(row + self.len as i64))?;
        let seen = Seen { keys: keys.narrow(2, 0, reach)?, values: values.narrow(2, 0, reach)?, allowed };
        self.held = Some((keys, values));
        self.len = end;
        Ok(seen)
    }

    /// `new` at the positions after those held.
    #[track_caller]
    fn put(&self, old: &Tensor, new: &Tensor) -> Result<Tensor> {
        let l = new.dims()[2];
        if l == 1 {
            let at = Tensor::arange(0, self.capacity as i64, 1, DType::I64)?.to(&old.device()).unsqueeze(1)?;
            return at.eq(self.len as i64)?.where_(new, old);
        }
        let start = self.len as i64;
        old.slice_scatter(new, 2, Some(start), Some(start + l as i64), 1)
    }
}
