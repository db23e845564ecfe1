//! Symbols of Fortran procedures in MPI libraries.
//!
//! A procedure `MPI_Send` is called `mpi_send_` by every Fortran compiler of Linux on x86-64
//! where the program includes `mpif.h` or uses the module `mpi`. The module `mpi_f08` calls
//! `mpi_send_f08_`, or `mpi_send_f08ts_` if buffers are passed as descriptors, with `_large` for large
//! counts. The names that begin with PMPI are `pmpi_send_`, and for
//! `mpi_f08` `pmpi_send_f08_` (Open MPI) or `pmpir_send_f08_` (MPICH). Libraries have more
//! symbols for the same code, for other compilers and for their own use.

use crate::kind::rows;

/// A procedure that some Fortran library implements without calling C (`fortran.txt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// The function's name in C.
    pub function: &'static str,
    /// Whether the module `mpi_f08` has it.
    pub in_f08: bool,
}

impl Procedure {
    /// The symbols that programs call it by.
    pub fn symbols(&self) -> Vec<String> {
        let name = self.function.to_ascii_lowercase();
        let short = name.trim_start_matches("mpi_");
        let mut symbols = vec![format!("{name}_"), format!("p{name}_")];
        if self.in_f08 {
            symbols.push(format!("{name}_f08_"));
            symbols.push(format!("p{name}_f08_"));
            symbols.push(format!("pmpir_{short}_f08_"));
        }
        symbols
    }
}

/// All such procedures.
#[expect(
    clippy::panic,
    reason = "the table is part of the build, and tests parse every line of it"
)]
pub fn procedures() -> impl Iterator<Item = Procedure> {
    rows(include_str!("fortran.txt")).map(|row| {
        let mut words = row.split_whitespace();
        let (function, interfaces) = (words.next(), words.next());
        let in_f08 = match interfaces {
            Some("all") => true,
            Some("mpif") => false,
            _ => panic!("fortran.txt: `{row}`: neither `all` nor `mpif`"),
        };
        Procedure { function: function.unwrap_or_default(), in_f08 }
    })
}

/// The C function, in lower case, of the procedure that a symbol of a Fortran library belongs
/// to: `mpi_send` for `PMPI_SEND`, `mpi_send__`, `ompi_send_f` or `pmpir_send_f08ts_`,
/// `mpi_send_c` for `mpi_send_f08_large_`. `None` if it does not look like a procedure's.
pub fn function_of(symbol: &str) -> Option<String> {
    const PREFIXES: [&str; 6] = ["pmpir_", "mpir_", "pmpi_", "mpi_", "pompi_", "ompi_"];
    const SUFFIXES: [&str; 7] = ["_large", "_cdesc", "_f08ts", "_f08", "_f", "_cptr", "_"];
    let symbol = symbol.to_ascii_lowercase();
    let mut name = PREFIXES.iter().find_map(|prefix| symbol.strip_prefix(prefix))?;
    let mut large = "";
    while let Some((suffix, rest)) =
        SUFFIXES.iter().find_map(|&suffix| Some((suffix, name.strip_suffix(suffix)?)))
    {
        if suffix == "_large" {
            large = "_c";
        }
        name = rest;
    }
    Some(format!("mpi_{name}{large}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{function, functions};

    #[test]
    fn every_procedure_is_a_function_of_the_interface() {
        for procedure in procedures() {
            assert!(function(procedure.function).is_some(), "{}", procedure.function);
        }
    }

    #[test]
    fn each_symbol_of_a_procedure_leads_back_to_its_function() {
        for procedure in procedures() {
            for symbol in procedure.symbols() {
                let expected = procedure.function.to_ascii_lowercase();
                assert_eq!(function_of(&symbol), Some(expected), "{symbol}");
            }
        }
    }

    #[test]
    fn all_names_of_all_functions_lead_back_to_them() {
        for f in functions() {
            let name = f.name.to_ascii_lowercase();
            let plain = name.trim_start_matches("mpi_");
            let symbols = match (f.large, plain.strip_suffix("_c")) {
                (true, Some(plain)) => vec![
                    format!("mpi_{plain}_f08_large_"),
                    format!("pmpir_{plain}_f08ts_large_"),
                    format!("MPIR_{plain}_large_cdesc"),
                ],
                _ => vec![
                    format!("MPI_{}", plain.to_ascii_uppercase()),
                    format!("mpi_{plain}"),
                    format!("pmpi_{plain}_"),
                    format!("mpi_{plain}__"),
                    format!("ompi_{plain}_f"),
                    format!("{}_f08", f.name),
                    format!("mpi_{plain}_f08ts_"),
                    format!("ompi_{plain}_cptr_f"),
                ],
            };
            for symbol in symbols {
                assert_eq!(function_of(&symbol).as_ref(), Some(&name), "{symbol}");
            }
        }
    }

    #[test]
    fn other_symbols_are_no_procedures() {
        assert_eq!(function_of("cdesc_create_datatype"), None);
        assert_eq!(function_of("MPII_Keyval_create"), None);
        assert_eq!(function_of("_init"), None);
    }
}
