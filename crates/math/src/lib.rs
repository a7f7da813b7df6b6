//! gradus-math
