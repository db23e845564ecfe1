//! Where the functions and variables of an MPI library are found.

/// Finds the functions and variables of the MPI library of this process.
///
/// # Safety
/// An address for a function must be that of an MPI function of that name, which stays loaded. An address
/// for a variable must be that of the library's variable of that name.
pub unsafe trait Symbols {
    /// MPI's own implementation of a function (`PMPI_X`), past tools that intercept calls. `None` if the
    /// library does not have it. The number is one of [`crate::function`].
    fn function(&self, number: usize) -> Option<*const ()>;

    /// What a program calls by the function's name (`MPI_X`): a tool's function, where a tool intercepts
    /// it.
    fn entry(&self, number: usize) -> Option<*const ()> {
        self.function(number)
    }

    /// The address of a variable, as the *program* finds it: in the global scope first, in the library
    /// only when that fails. An executable that refers to a variable of a library has a copy of it (a copy
    /// relocation), which the library then uses, too.
    fn variable(&self, name: &str) -> Option<usize>;
}

/// Whether a file is named like an MPI library: `libmpi.so.40`, `libmpich.so.12`, `libpmpi.so`.
pub fn is_library_name(file_name: &[u8]) -> bool {
    file_name.starts_with(b"libmpi") || file_name.starts_with(b"libpmpi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_the_names_of_their_files() {
        for name in ["libmpi.so.40", "libmpich.so.12", "libmpi_abi.so.0", "libpmpi.so"] {
            assert!(is_library_name(name.as_bytes()), "{name}");
        }
        assert!(!is_library_name(b"libm.so.6") && !is_library_name(b"mpi.so"));
    }
}
