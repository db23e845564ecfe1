//! The reader as an analysis uses it.

mod examples;
mod symbolic;
