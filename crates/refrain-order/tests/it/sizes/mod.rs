//! How small records are, by either method.

mod causal;
mod clock;
