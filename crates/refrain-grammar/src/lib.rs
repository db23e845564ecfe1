//! Sequences as grammars.
