//! What decoding keeps from step to step.

use crate::KvCache;
use gradus_core::Tensor;

/// Keys and values of all layers of a stack, for decoding token by token.
pub struct DecodingCache {
    pub(crate) layers: Vec<LayerCache>,
}

/// What one layer keeps: its own past, and the keys and values of the memory.
pub(crate) struct LayerCache {
    pub own: KvCache,
    pub memory: Option<(Tensor, Tensor)>,
}

impl DecodingCache {
    /// For so many layers and positions.
    pub fn new(layers: usize, capacity: usize) -> DecodingCache {
        let layer = |_| LayerCache { own: KvCache::new(capacity), memory: None };
        DecodingCache { layers: (0..layers).map(layer).collect() }
    }

    /// Positions decoded so far.
    pub fn len(&self) -> usize {
        self.layers.first().map_or(0, |l| l.own.len())
    }

    /// Whether nothing has been decoded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything, the memory too.
    pub fn clear(&mut self) {
        for layer in &mut self.layers {
            layer.own.clear();
            layer.memory = None;
        }
    }
}
