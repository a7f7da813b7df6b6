//! gradus-conformance
