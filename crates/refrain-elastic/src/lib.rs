//! Values over ranks as formulas.
