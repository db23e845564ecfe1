//! References to memory as section descriptors.

mod intra;
mod kernels;
mod outline;
mod random;
mod threads;
