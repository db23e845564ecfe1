//! Signatures against MPI's interface.

mod plans;
