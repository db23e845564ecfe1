//! Sequences as grammars.

mod finished;
mod hostile;
mod properties;
