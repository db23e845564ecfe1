//! The sizes of records of both methods.

mod causal;
mod clock;
