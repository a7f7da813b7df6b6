//! gradus
