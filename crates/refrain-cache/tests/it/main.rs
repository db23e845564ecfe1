//! The simulation against a naive one.

#[path = "../../../refrain-memory/tests/it/kernels/mod.rs"]
mod kernels;
mod naive;

mod exact;
mod shared;
