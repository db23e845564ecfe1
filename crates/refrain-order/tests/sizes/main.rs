//! How small records are, by either method.

mod causal;
mod clock;
#[path = "../montecarlo/mod.rs"]
mod montecarlo;
