//! gradus-scalar
