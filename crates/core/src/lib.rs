//! gradus-core
