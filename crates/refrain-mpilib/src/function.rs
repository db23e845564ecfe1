//! The numbers of all functions: `function::MPI_Send` is the position of `MPI_Send` in
//! [`refrain_mpi::interface::functions`]. Numbers hold for one build of Refrain.

#![allow(non_upper_case_globals, reason = "functions have the names that MPI gives them")]

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// The number of the function of that name. Searches all names: look a function up once.
pub fn number(name: &str) -> Option<usize> {
    NAMES.iter().position(|one| *one == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_position_in_the_interface_table() {
        let all = refrain_mpi::interface::functions();
        assert!(all.iter().map(|f| f.name.as_str()).eq(NAMES));
        assert_eq!(number("MPI_Send"), Some(MPI_Send));
        assert_eq!(NAMES[MPI_Comm_rank], "MPI_Comm_rank");
        assert_eq!(number("MPI_Nonsense"), None);
    }
}
