//! How numbers are written and hashed.

mod hashes;
mod numbers;
