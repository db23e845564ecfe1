//! From records to signatures, grammars and outcomes, and back.
