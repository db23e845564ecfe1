//! The values of a library's binary interface, with symbols resolved to addresses.

use crate::symbols::Symbols;
use crate::{function, words};
use refrain_mpi::abi::{Family, Layout, Source, narrow_handle};
use std::ffi::c_int;

/// The values of this process's MPI that code compares with all the time.
///
/// [`Layout`] has the same for a family; there, the handles of Open MPI are names of symbols, here they are
/// addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abi {
    /// The family.
    pub family: Family,
    /// Bytes of a handle in memory (except for files, which are pointers everywhere).
    pub handle_bytes: usize,
    /// Bytes of an `MPI_Status`.
    pub status_bytes: usize,
    /// `MPI_STATUS_IGNORE`.
    pub status_ignore: usize,
    /// `MPI_STATUSES_IGNORE`.
    pub statuses_ignore: usize,
    /// `MPI_IN_PLACE`.
    pub in_place: usize,
    /// Addresses that stand for something else than an array: `MPI_UNWEIGHTED`, `MPI_WEIGHTS_EMPTY`,
    /// `MPI_ERRCODES_IGNORE`.
    pub special: [usize; 3],
    /// `MPI_ANY_SOURCE`.
    pub any_source: c_int,
    /// `MPI_ANY_TAG`.
    pub any_tag: c_int,
    /// `MPI_PROC_NULL`.
    pub proc_null: c_int,
    /// `MPI_ROOT`.
    pub root: c_int,
    /// `MPI_ERR_IN_STATUS`.
    pub err_in_status: c_int,
    /// `MPI_COMM_NULL`.
    pub comm_null: usize,
    /// `MPI_COMM_WORLD`.
    pub comm_world: usize,
    /// `MPI_DATATYPE_NULL`.
    pub datatype_null: usize,
    /// `MPI_REQUEST_NULL`.
    pub request_null: usize,
}

impl Abi {
    /// Finds out which family the library is of, and its values.
    pub fn detect(symbols: &impl Symbols) -> Abi {
        let has_open_mpi = || symbols.variable(OF_OPEN_MPI).is_some();
        let family = family(standard_abi_version(symbols), has_open_mpi);
        Abi::of(family, |source| resolve(symbols, source).unwrap_or(0))
    }

    /// The values of a family, given the values of its sources in this process.
    pub fn of(family: Family, value: impl Fn(Source) -> usize) -> Abi {
        let layout = Layout::of(family);
        Abi {
            family,
            handle_bytes: layout.handle_bytes,
            status_bytes: layout.status.bytes,
            status_ignore: value(layout.status_ignore),
            statuses_ignore: value(layout.statuses_ignore),
            in_place: value(layout.in_place),
            special: [
                value(layout.unweighted),
                value(layout.weights_empty),
                value(layout.errcodes_ignore),
            ],
            any_source: layout.any_source,
            any_tag: layout.any_tag,
            proc_null: layout.proc_null,
            root: layout.root,
            err_in_status: layout.err_in_status,
            comm_null: value(layout.comm_null),
            comm_world: value(layout.comm_world),
            datatype_null: value(layout.datatype_null),
            request_null: value(layout.request_null),
        }
    }

    /// What the family fixes, the same in all processes.
    #[inline]
    pub fn layout(&self) -> &'static Layout {
        Layout::of(self.family)
    }

    /// The significant bits of a word that holds a handle other than a file.
    #[inline]
    pub fn handle(&self, word: usize) -> usize {
        narrow_handle(self.handle_bytes, word)
    }
}

/// A variable that every library with Open MPI's own ABI has.
const OF_OPEN_MPI: &str = "ompi_mpi_comm_world";

/// The family of a library. The version of the standard ABI decides first: an Open MPI that offers the
/// standard ABI has the symbols of its own ABI, too.
fn family(standard_abi_version: c_int, has_open_mpi: impl FnOnce() -> bool) -> Family {
    if standard_abi_version >= 1 {
        Family::StandardAbi
    } else if has_open_mpi() {
        Family::OpenMpi
    } else {
        Family::Mpich
    }
}

/// The version of the standard ABI that the library has, or -1. MPICH 5 and Intel MPI have the function,
/// and answer -1 unless they are used through the standard ABI.
fn standard_abi_version(symbols: &impl Symbols) -> c_int {
    let Some(f) = symbols.function(function::MPI_Abi_get_version) else {
        return -1;
    };
    let (mut major, mut minor): (c_int, c_int) = (-1, -1);
    let arguments = [&raw mut major as usize, &raw mut minor as usize];
    // SAFETY: the function takes two addresses of ints in every MPI that has it, and may be called at any
    // time.
    unsafe { words::invoke::<c_int>(f, &arguments) };
    major
}

/// The value of a source in this process; `None` if the library does not have the symbol.
pub(crate) fn resolve(symbols: &impl Symbols, source: Source) -> Option<usize> {
    // SAFETY: contents are taken of pointer variables of the MPI library, and `Symbols` finds the
    // library's.
    unsafe { source.resolve(|symbol| symbols.variable(symbol)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{MPI_Abi_get_version, MPI_Comm_rank};

    #[test]
    fn the_standard_abi_is_recognised_first_then_open_mpi() {
        assert_eq!(family(1, || true), Family::StandardAbi);
        assert_eq!(family(1, || false), Family::StandardAbi);
        assert_eq!(family(-1, || true), Family::OpenMpi);
        assert_eq!(family(-1, || false), Family::Mpich);
        assert_eq!(family(0, || false), Family::Mpich);
    }

    /// A library that answers with that version of the ABI, and has these variables.
    struct Fake {
        version: Option<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>,
        variables: Vec<(&'static str, usize)>,
    }

    // SAFETY: the only function is that of the test, the addresses are of live variables.
    unsafe impl Symbols for Fake {
        fn function(&self, number: usize) -> Option<*const ()> {
            assert_ne!(number, MPI_Comm_rank);
            self.version.filter(|_| number == MPI_Abi_get_version).map(|f| f as *const ())
        }

        fn variable(&self, name: &str) -> Option<usize> {
            self.variables.iter().find(|(one, _)| *one == name).map(|(_, at)| *at)
        }
    }

    unsafe extern "C" fn version_1_0(major: *mut c_int, minor: *mut c_int) -> c_int {
        // SAFETY: two ints of the caller.
        unsafe { (*major, *minor) = (1, 0) };
        0
    }

    unsafe extern "C" fn no_version(major: *mut c_int, minor: *mut c_int) -> c_int {
        // SAFETY: two ints of the caller.
        unsafe { (*major, *minor) = (-1, -1) };
        0
    }

    #[test]
    fn mpich_has_numbers_and_pointer_variables() {
        let (unweighted, empty) = (0x1234usize, 0x5678usize);
        let variables = vec![
            ("MPI_UNWEIGHTED", &raw const unweighted as usize),
            ("MPI_WEIGHTS_EMPTY", &raw const empty as usize),
        ];
        for version in [None, Some(no_version as unsafe extern "C" fn(_, _) -> _)] {
            let abi = Abi::detect(&Fake { version, variables: variables.clone() });
            assert_eq!((abi.family, abi.handle_bytes, abi.status_bytes), (Family::Mpich, 4, 20));
            assert_eq!((abi.comm_world, abi.status_ignore), (0x4400_0000, 1));
            assert_eq!(abi.special, [0x1234, 0x5678, 0]);
            assert_eq!(abi.handle(0xdead_beef_4400_0000), abi.comm_world);
        }
    }

    #[test]
    fn handles_of_open_mpi_are_addresses_of_its_variables() {
        let variables = vec![("ompi_mpi_comm_world", 0x7000), ("ompi_request_null", 0x7100)];
        let abi = Abi::detect(&Fake { version: None, variables });
        assert_eq!((abi.family, abi.handle_bytes, abi.status_bytes), (Family::OpenMpi, 8, 24));
        assert_eq!((abi.comm_world, abi.request_null), (0x7000, 0x7100));
        assert_eq!(abi.comm_null, 0, "a variable that the library does not have");
        assert_eq!(abi.handle(0xdead_beef_4400_0000), 0xdead_beef_4400_0000);
    }

    #[test]
    fn a_library_with_a_version_of_the_standard_abi_has_that_abi() {
        let variables = vec![("ompi_mpi_comm_world", 0x7000)];
        let abi = Abi::detect(&Fake { version: Some(version_1_0), variables });
        assert_eq!((abi.family, abi.handle_bytes, abi.status_bytes), (Family::StandardAbi, 8, 32));
        assert_eq!((abi.comm_world, abi.proc_null, abi.any_tag), (0x101, -3, -2));
    }
}
