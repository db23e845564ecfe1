//! Adaptive entropy coding: a binary arithmetic coder and the models that feed it.
//!
//! Every model is written once for both directions, so encoder and decoder cannot fall out of step.
//! From the bottom up: `coder` codes single bits, [`number`] and [`mixer`] code numbers and mix
//! predictions, [`recency`] and [`alphabet`] rank symbols, [`symbol`] codes one symbol in its contexts,
//! [`value`] codes clock values and random numbers.

pub(crate) mod alphabet;
pub(crate) use refrain_bytes::{number, range as coder};
pub(crate) mod mixer;
pub(crate) mod recency;
pub(crate) mod symbol;
pub(crate) mod value;
