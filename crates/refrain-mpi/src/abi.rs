//! The three binary interfaces of MPI: what a handle, a status and a sentinel look like.
//!
//! One agent serves every MPI, so no `mpi.h` is compiled in: once the family of the running library
//! is known, its [`Layout`] says how to read what the program passes and what the library fills in.
//! Names of constants and handles are in [`crate::names`]; this module has only the values that code
//! compares with, and the layout of structures.
//!
//! The opaque part of a status is special: the standard ABI fixes its size, but not its contents. The
//! layout here is that of MPICH's and Intel's libraries; other contents are recognised at run time
//! ([`CountEncoding::recognise`]).

use crate::status::{CountEncoding, StatusLayout};
use std::ffi::c_void;

/// A family of MPI libraries with one binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Family {
    /// MPICH, and libraries with its ABI: Intel MPI, MVAPICH, Cray's.
    Mpich = 1,
    /// Open MPI.
    OpenMpi = 2,
    /// The ABI of the MPI 5 standard, whichever library provides it.
    StandardAbi = 3,
}

impl Family {
    /// All families, in the order of the tables' columns.
    pub const ALL: [Family; 3] = [Family::Mpich, Family::OpenMpi, Family::StandardAbi];

    /// The number of the family in files; never 0, never reused.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The family with that number in files.
    pub const fn from_code(code: u32) -> Option<Family> {
        match code {
            1 => Some(Family::Mpich),
            2 => Some(Family::OpenMpi),
            3 => Some(Family::StandardAbi),
            _ => None,
        }
    }

    /// The name in tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Mpich => "mpich",
            Family::OpenMpi => "openmpi",
            Family::StandardAbi => "abi",
        }
    }

    /// The family of that name.
    pub fn named(name: &str) -> Option<Family> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// The family's column in the tables.
    pub(crate) const fn column(self) -> usize {
        match self {
            Family::Mpich => 0,
            Family::OpenMpi => 1,
            Family::StandardAbi => 2,
        }
    }
}

/// Where the value of a predefined handle or sentinel comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// This number, in every process.
    Value(usize),
    /// The address of this symbol.
    Address(&'static str),
    /// The content of the pointer of this name.
    Content(&'static str),
}

impl Source {
    /// The value in this process; `None` where the library has no such symbol.
    ///
    /// `find` must look where the *program* would find the symbol: in the global scope first
    /// (`RTLD_DEFAULT`), in libmpi itself only when that fails. An executable usually holds its
    /// own copy of a library's variable (by a copy relocation), and then it and the library
    /// both use the copy: `MPI_COMM_WORLD` of Open MPI lies in the program, and `RTLD_NEXT` or
    /// a handle of libmpi would give an address that neither of them uses.
    ///
    /// # Safety
    ///
    /// An address that `find` returns for a [`Source::Content`] must be that of a pointer.
    pub unsafe fn resolve(self, find: impl FnOnce(&'static str) -> Option<usize>) -> Option<usize> {
        match self {
            Source::Value(value) => Some(value),
            Source::Address(symbol) => find(symbol),
            Source::Content(symbol) => {
                let pointer = find(symbol).filter(|address| *address != 0)? as *const usize;
                // SAFETY: the caller vouches for a pointer at this address.
                Some(unsafe { pointer.read() })
            }
        }
    }
}

/// The binary interface of a family.
///
/// It has the constants that code compares with; [`crate::names::constant_value`] has the others.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The family.
    pub family: Family,
    /// Bytes of a handle, other than of a file or of the tools interface.
    pub handle_bytes: usize,
    /// Bytes of `MPI_File`.
    pub file_bytes: usize,
    /// Bytes of the handles of the tools interface (`MPI_T_enum` and the like).
    pub tool_bytes: usize,
    /// `MPI_Status`.
    pub status: StatusLayout,

    /// `MPI_STATUS_IGNORE`.
    pub status_ignore: Source,
    /// `MPI_STATUSES_IGNORE`.
    pub statuses_ignore: Source,
    /// `MPI_BOTTOM`.
    pub bottom: Source,
    /// `MPI_IN_PLACE`.
    pub in_place: Source,
    /// `MPI_BUFFER_AUTOMATIC`, which libraries have since MPI 4.1.
    pub buffer_automatic: Source,
    /// `MPI_UNWEIGHTED`.
    pub unweighted: Source,
    /// `MPI_WEIGHTS_EMPTY`.
    pub weights_empty: Source,
    /// `MPI_ARGV_NULL`.
    pub argv_null: Source,
    /// `MPI_ARGVS_NULL`.
    pub argvs_null: Source,
    /// `MPI_ERRCODES_IGNORE`.
    pub errcodes_ignore: Source,

    /// `MPI_COMM_WORLD`.
    pub comm_world: Source,
    /// `MPI_COMM_SELF`.
    pub comm_self: Source,
    /// `MPI_BYTE`.
    pub byte: Source,
    /// `MPI_COMM_NULL`.
    pub comm_null: Source,
    /// `MPI_GROUP_NULL`.
    pub group_null: Source,
    /// `MPI_DATATYPE_NULL`.
    pub datatype_null: Source,
    /// `MPI_OP_NULL`.
    pub op_null: Source,
    /// `MPI_REQUEST_NULL`.
    pub request_null: Source,
    /// `MPI_ERRHANDLER_NULL`.
    pub errhandler_null: Source,
    /// `MPI_INFO_NULL`.
    pub info_null: Source,
    /// `MPI_WIN_NULL`.
    pub win_null: Source,
    /// `MPI_FILE_NULL`.
    pub file_null: Source,
    /// `MPI_MESSAGE_NULL`.
    pub message_null: Source,
    /// `MPI_MESSAGE_NO_PROC`.
    pub message_no_proc: Source,
    /// `MPI_SESSION_NULL`, which Open MPI has since 5.0.
    pub session_null: Source,

    /// `MPI_ANY_SOURCE`.
    pub any_source: i32,
    /// `MPI_ANY_TAG`.
    pub any_tag: i32,
    /// `MPI_PROC_NULL`.
    pub proc_null: i32,
    /// `MPI_ROOT`.
    pub root: i32,
    /// `MPI_UNDEFINED`.
    pub undefined: i32,
    /// `MPI_KEYVAL_INVALID`.
    pub keyval_invalid: i32,
    /// `MPI_SUCCESS`.
    pub success: i32,
    /// `MPI_ERR_REQUEST`.
    pub err_request: i32,
    /// `MPI_ERR_TRUNCATE`.
    pub err_truncate: i32,
    /// `MPI_ERR_OTHER`.
    pub err_other: i32,
    /// `MPI_ERR_IN_STATUS`.
    pub err_in_status: i32,
    /// `MPI_ERR_PENDING`.
    pub err_pending: i32,
    /// `MPI_ERR_UNSUPPORTED_OPERATION`.
    pub err_unsupported_operation: i32,
    /// `MPI_THREAD_SINGLE`.
    pub thread_single: i32,
    /// `MPI_THREAD_FUNNELED`.
    pub thread_funneled: i32,
    /// `MPI_THREAD_SERIALIZED`.
    pub thread_serialized: i32,
    /// `MPI_THREAD_MULTIPLE`.
    pub thread_multiple: i32,
    /// `MPI_GRAPH`.
    pub graph: i32,
    /// `MPI_CART`.
    pub cart: i32,
    /// `MPI_DIST_GRAPH`.
    pub dist_graph: i32,
}

static MPICH: Layout = Layout {
    family: Family::Mpich,
    handle_bytes: 4,
    file_bytes: 8,
    tool_bytes: 8,
    status: StatusLayout {
        bytes: 20,
        source: 8,
        tag: 12,
        error: 16,
        count: CountEncoding::Split { low: 0, high: 4 },
    },

    status_ignore: Source::Value(1),
    statuses_ignore: Source::Value(1),
    bottom: Source::Value(0),
    in_place: Source::Value(-1_isize as usize),
    buffer_automatic: Source::Value(-2_isize as usize),
    unweighted: Source::Content("MPI_UNWEIGHTED"),
    weights_empty: Source::Content("MPI_WEIGHTS_EMPTY"),
    argv_null: Source::Value(0),
    argvs_null: Source::Value(0),
    errcodes_ignore: Source::Value(0),

    comm_world: Source::Value(0x4400_0000),
    comm_self: Source::Value(0x4400_0001),
    byte: Source::Value(0x4c00_010d),
    comm_null: Source::Value(0x0400_0000),
    group_null: Source::Value(0x0800_0000),
    datatype_null: Source::Value(0x0c00_0000),
    op_null: Source::Value(0x1800_0000),
    request_null: Source::Value(0x2c00_0000),
    errhandler_null: Source::Value(0x1400_0000),
    info_null: Source::Value(0x1c00_0000),
    win_null: Source::Value(0x2000_0000),
    file_null: Source::Value(0),
    message_null: Source::Value(0x2c00_0000),
    message_no_proc: Source::Value(0x6c00_0000),
    session_null: Source::Value(0x3800_0000),

    any_source: -2,
    any_tag: -1,
    proc_null: -1,
    root: -3,
    undefined: -32766,
    keyval_invalid: 0x2400_0000,
    success: 0,
    err_request: 19,
    err_truncate: 14,
    err_other: 15,
    err_in_status: 17,
    err_pending: 18,
    err_unsupported_operation: 44,
    thread_single: 0,
    thread_funneled: 1,
    thread_serialized: 2,
    thread_multiple: 3,
    graph: 1,
    cart: 2,
    dist_graph: 3,
};

static OPEN_MPI: Layout = Layout {
    family: Family::OpenMpi,
    handle_bytes: 8,
    file_bytes: 8,
    tool_bytes: 8,
    status: StatusLayout {
        bytes: 24,
        source: 0,
        tag: 4,
        error: 8,
        count: CountEncoding::Plain { cancelled: 12, count: 16 },
    },

    status_ignore: Source::Value(0),
    statuses_ignore: Source::Value(0),
    bottom: Source::Value(0),
    in_place: Source::Value(1),
    buffer_automatic: Source::Value(4),
    unweighted: Source::Value(2),
    weights_empty: Source::Value(3),
    argv_null: Source::Value(0),
    argvs_null: Source::Value(0),
    errcodes_ignore: Source::Value(0),

    comm_world: Source::Address("ompi_mpi_comm_world"),
    comm_self: Source::Address("ompi_mpi_comm_self"),
    byte: Source::Address("ompi_mpi_byte"),
    comm_null: Source::Address("ompi_mpi_comm_null"),
    group_null: Source::Address("ompi_mpi_group_null"),
    datatype_null: Source::Address("ompi_mpi_datatype_null"),
    op_null: Source::Address("ompi_mpi_op_null"),
    request_null: Source::Address("ompi_request_null"),
    errhandler_null: Source::Address("ompi_mpi_errhandler_null"),
    info_null: Source::Address("ompi_mpi_info_null"),
    win_null: Source::Address("ompi_mpi_win_null"),
    file_null: Source::Address("ompi_mpi_file_null"),
    message_null: Source::Address("ompi_message_null"),
    message_no_proc: Source::Address("ompi_message_no_proc"),
    session_null: Source::Address("ompi_mpi_instance_null"),

    any_source: -1,
    any_tag: -1,
    proc_null: -2,
    root: -4,
    undefined: -32766,
    keyval_invalid: -1,
    success: 0,
    err_request: 7,
    err_truncate: 15,
    err_other: 16,
    err_in_status: 18,
    err_pending: 19,
    err_unsupported_operation: 52,
    thread_single: 0,
    thread_funneled: 1,
    thread_serialized: 2,
    thread_multiple: 3,
    graph: 2,
    cart: 1,
    dist_graph: 3,
};

static STANDARD_ABI: Layout = Layout {
    family: Family::StandardAbi,
    handle_bytes: 8,
    file_bytes: 8,
    tool_bytes: 8,
    status: StatusLayout {
        bytes: 32,
        source: 0,
        tag: 4,
        error: 8,
        // That of MPICH and Intel MPI; Open MPI has another one. See `recognise`.
        count: CountEncoding::Split { low: 12, high: 16 },
    },

    status_ignore: Source::Value(0),
    statuses_ignore: Source::Value(0),
    bottom: Source::Value(0),
    in_place: Source::Value(1),
    buffer_automatic: Source::Value(2),
    unweighted: Source::Value(10),
    weights_empty: Source::Value(11),
    argv_null: Source::Value(0),
    argvs_null: Source::Value(0),
    errcodes_ignore: Source::Value(0),

    comm_world: Source::Value(0x101),
    comm_self: Source::Value(0x102),
    byte: Source::Value(0x247),
    comm_null: Source::Value(0x100),
    group_null: Source::Value(0x108),
    datatype_null: Source::Value(0x200),
    op_null: Source::Value(0x20),
    request_null: Source::Value(0x180),
    errhandler_null: Source::Value(0x140),
    info_null: Source::Value(0x130),
    win_null: Source::Value(0x110),
    file_null: Source::Value(0x118),
    message_null: Source::Value(0x128),
    message_no_proc: Source::Value(0x129),
    session_null: Source::Value(0x120),

    any_source: -1,
    any_tag: -2,
    proc_null: -3,
    root: -4,
    undefined: -32766,
    keyval_invalid: 0,
    success: 0,
    err_request: 7,
    err_truncate: 15,
    err_other: 16,
    err_in_status: 19,
    err_pending: 18,
    err_unsupported_operation: 55,
    thread_single: 0,
    thread_funneled: 1024,
    thread_serialized: 2048,
    thread_multiple: 4096,
    graph: 212,
    cart: 211,
    dist_graph: 213,
};

impl Layout {
    /// The layout of a family.
    pub fn of(family: Family) -> &'static Layout {
        match family {
            Family::Mpich => &MPICH,
            Family::OpenMpi => &OPEN_MPI,
            Family::StandardAbi => &STANDARD_ABI,
        }
    }

    /// Bytes of a handle of a kind, as `handles.txt` names the kinds.
    pub fn bytes_of(&self, kind: &str) -> usize {
        match kind {
            "comm" | "datatype" | "group" | "op" | "request" | "errhandler" | "info" | "win"
            | "message" | "session" => self.handle_bytes,
            "file" => self.file_bytes,
            // Objects of the tools interface, callbacks.
            _ => self.tool_bytes,
        }
    }

    /// The null handle of a kind of object; for tools and callbacks, the null pointer.
    pub fn null(&self, kind: &str) -> Source {
        match kind {
            "comm" => self.comm_null,
            "datatype" => self.datatype_null,
            "group" => self.group_null,
            "op" => self.op_null,
            "request" => self.request_null,
            "errhandler" => self.errhandler_null,
            "info" => self.info_null,
            "win" => self.win_null,
            "file" => self.file_null,
            "message" => self.message_null,
            "session" => self.session_null,
            _ => Source::Value(0),
        }
    }

    /// The predefined error class of an error code, if it follows from the code alone.
    ///
    /// MPICH packs the class into the low bits of a code. Codes and classes that the program
    /// added (and, under the standard ABI, those with details of the library) are `None`:
    /// only `MPI_Error_class` knows about them.
    pub fn error_class(&self, code: i32) -> Option<i32> {
        const ADDED: i32 = 0x4000_0000;
        const CLASS: i32 = 0x7f;
        let class = match self.family {
            Family::Mpich if code & ADDED != 0 || code < 0 => return None,
            Family::Mpich => code & CLASS,
            Family::OpenMpi | Family::StandardAbi => code,
        };
        crate::names::constant_name(self.family, "error", class.into()).map(|_| class)
    }
}

/// Truncates a pointer-sized argument to a handle of `bytes` bytes: the upper bits of a register are
/// undefined for a 4-byte handle.
pub const fn narrow_handle(bytes: usize, raw: usize) -> usize {
    if bytes == 4 { raw as u32 as usize } else { raw }
}

/// The handle at `index` of an array of handles of `bytes` bytes each.
///
/// # Safety
///
/// `array` must point to at least `index + 1` readable handles of that size.
pub unsafe fn read_handle(bytes: usize, array: *const c_void, index: usize) -> usize {
    // SAFETY: in bounds, as the caller says; Fortran does not promise alignment.
    unsafe {
        if bytes == 4 {
            array.cast::<u32>().add(index).read_unaligned() as usize
        } else {
            array.cast::<usize>().add(index).read_unaligned()
        }
    }
}

/// Writes `handle` at `index` of an array of handles of `bytes` bytes each.
///
/// # Safety
///
/// `array` must point to at least `index + 1` writable handles of that size.
pub unsafe fn write_handle(bytes: usize, array: *mut c_void, index: usize, handle: usize) {
    // SAFETY: in bounds, as the caller says; Fortran does not promise alignment.
    unsafe {
        if bytes == 4 {
            array.cast::<u32>().add(index).write_unaligned(handle as u32);
        } else {
            array.cast::<usize>().add(index).write_unaligned(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_keeps_its_code_and_its_name() {
        assert_eq!(Family::ALL.map(Family::code), [1, 2, 3]);
        for family in Family::ALL {
            assert_eq!(Family::from_code(family.code()), Some(family));
            assert_eq!(Family::named(family.name()), Some(family));
            assert_eq!(Layout::of(family).family, family);
        }
        assert_eq!(Family::from_code(0), None);
    }

    #[test]
    fn the_upper_bits_of_four_byte_handles_are_ignored() {
        assert_eq!(narrow_handle(4, 0xdead_beef_4400_0000), 0x4400_0000);
        assert_eq!(narrow_handle(8, 0xdead_beef_4400_0000), 0xdead_beef_4400_0000);
        for bytes in [4, 8] {
            let mut array = [0_u64; 3];
            // SAFETY: the array has room for three handles of either size.
            let read = unsafe {
                write_handle(bytes, array.as_mut_ptr().cast(), 2, 0x8c00_0001);
                read_handle(bytes, array.as_ptr().cast(), 2)
            };
            assert_eq!(read, 0x8c00_0001);
        }
    }

    #[test]
    fn the_class_of_an_error_code_is_found_where_the_code_tells() {
        let mpich = Layout::of(Family::Mpich);
        assert_eq!(mpich.error_class(0x1813_ec0e), Some(mpich.err_truncate));
        assert_eq!(mpich.error_class(0), Some(0));
        assert_eq!(mpich.error_class(0x4000_0081), None);
        let open_mpi = Layout::of(Family::OpenMpi);
        assert_eq!(open_mpi.error_class(15), Some(open_mpi.err_truncate));
        assert_eq!(open_mpi.error_class(93), None);
        assert_eq!(Layout::of(Family::StandardAbi).error_class(0x1804_b30f), None);
    }

    #[test]
    fn a_sentinel_is_a_number_an_address_or_a_content() {
        let variable: usize = 77;
        let at = std::ptr::from_ref(&variable) as usize;
        // SAFETY: the only address that is read is that of `variable`.
        unsafe {
            assert_eq!(Source::Value(5).resolve(|_| None), Some(5));
            assert_eq!(Source::Address("x").resolve(|_| Some(at)), Some(at));
            assert_eq!(Source::Content("x").resolve(|_| Some(at)), Some(77));
            assert_eq!(Source::Content("x").resolve(|_| Some(0)), None);
            assert_eq!(Source::Address("x").resolve(|_| None), None);
        }
    }
}
