//! Loop nests: made from grammars, folded, aligned.

mod figures;
mod folding;
mod programs;
mod properties;
