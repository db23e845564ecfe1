//! References to memory as section descriptors.

mod intra;
mod kernels;
mod random;
mod threads;
