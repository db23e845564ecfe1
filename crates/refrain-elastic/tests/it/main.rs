//! Values over ranks.

mod patterns;
mod properties;
