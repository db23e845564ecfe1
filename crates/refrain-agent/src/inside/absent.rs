//! What this MPI does not have, we do not have.
//!
//! The agent exports every function of every MPI. Some programs ask which functions there are,
//! by weak references or by `dlsym`, and do without those that are missing: mpi4py's wheels,
//! made to run with any MPI, do so for hundreds. To them our exports must look like the MPI
//! they really have. So the agent edits its own dynamic symbol table, where a symbol without a
//! value is one that the loader passes over:
//!
//! * If an MPI library is there when the agent is loaded, because the program is linked to
//!   it, names that it lacks are hidden.
//! * If not, the program may load one later, or none. All names are hidden until one comes, and
//!   then those that it has are shown, before the loader binds anything to them.
//!
//! To be told in time, the agent has a symbol that nearly every shared library refers to,
//! weakly and in vain: `__gmon_start__`, a hook for profilers. It does nothing, as if it were
//! not there; but it is made an *indirect function*, for which the loader asks us whenever it
//! binds a library, at a moment when the library and all it depends on are mapped. The answer
//! must be found without the loader's help, which is in the middle of its work: by walking the
//! symbol tables of the mapped modules. (It is made indirect only when the program is about to
//! start: the loader warns of such symbols where libraries are bound before us.)

use crate::inside::next;
use crate::inside::process::Errno;
use crate::inside::symbols::SymbolTable;
use crate::{order, table};
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// By slot: the value of the symbol, while it is hidden.
static HIDDEN: [AtomicU64; table::FUNCTIONS * 2] =
    [const { AtomicU64::new(0) }; table::FUNCTIONS * 2];

/// Adapts our exports to the MPI that is there, or prepares for one that may come.
pub fn adapt_exports() {
    let _errno = Errno::keep();
    // A panic here would leave names as they are, and no more.
    let _ = std::panic::catch_unwind(|| {
        let Some(own) = SymbolTable::of_agent() else { return };
        let is_linked = next::has_mpi();
        let mut edits = Vec::new();
        each_export(&own, |slot, name, symbol| {
            if !is_linked || !next::is_defined(name) || !is_wanted(slot) {
                let Some(hidden) = HIDDEN.get(slot) else { return };
                // SAFETY: a symbol of our own table.
                hidden.store(unsafe { (*symbol).st_value }, Ordering::Release);
                edits.push(Edit { symbol, value: 0, kind: STT_FUNC });
            }
        });
        if !is_linked && let Some(symbol) = own.find(c"__gmon_start__") {
            let asked = a_library_is_bound as *const () as usize;
            edits.push(Edit { symbol, value: (asked - own.base) as u64, kind: STT_GNU_IFUNC });
        }
        // SAFETY: symbols of our own table.
        unsafe { edit(&edits) };
    });
}

/// The clock is exported for receive orders only: other programs read it without us.
fn is_wanted(slot: usize) -> bool {
    slot / 2 != table::MPI_Wtime || order::is_on()
}

/// Asked by the loader for the address of `__gmon_start__` whenever it binds a library.
extern "C" fn a_library_is_bound() -> usize {
    static SHOWN: AtomicBool = AtomicBool::new(false);
    if !SHOWN.load(Ordering::Acquire) {
        // A panic here would leave names hidden, and the program without a trace.
        let _ = std::panic::catch_unwind(|| {
            let has_come = SymbolTable::is_defined_elsewhere(c"PMPI_Init");
            if has_come && !SHOWN.swap(true, Ordering::AcqRel) {
                show_what_there_is();
            }
        });
    }
    __gmon_start__ as *const () as usize
}

/// Shows the names that the MPI library has.
fn show_what_there_is() {
    let Some(own) = SymbolTable::of_agent() else { return };
    let mut edits = Vec::new();
    each_export(&own, |slot, name, symbol| {
        if SymbolTable::is_defined_elsewhere(name) && is_wanted(slot) {
            let Some(hidden) = HIDDEN.get(slot) else { return };
            let value = hidden.load(Ordering::Acquire);
            edits.push(Edit { symbol, value, kind: STT_FUNC });
        }
    });
    // SAFETY: symbols of our own table.
    unsafe { edit(&edits) };
}

/// Calls `each` for every exported name of MPI.
fn each_export(
    own: &SymbolTable,
    mut each: impl FnMut(usize, &std::ffi::CStr, *mut libc::Elf64_Sym),
) {
    for (number, name) in table::NAMES.iter().enumerate() {
        for (profiled, prefix) in ["", "P"].into_iter().enumerate() {
            if let Ok(name) = CString::new(format!("{prefix}{name}"))
                && let Some(symbol) = own.find(&name)
            {
                each(number * 2 + profiled, &name, symbol);
            }
        }
    }
}

/// A hook for profilers: nothing, as if it were not there.
#[unsafe(no_mangle)]
pub extern "C" fn __gmon_start__() {}

/// A symbol type: the value is a function.
const STT_FUNC: u8 = 2;

/// A symbol type of the GNU loader: the value is a function that gives the address.
const STT_GNU_IFUNC: u8 = 10;

/// What a symbol is to be.
struct Edit {
    symbol: *mut libc::Elf64_Sym,
    value: u64,
    kind: u8,
}

/// Changes symbols. Their pages are made writable once for all: there are more than a thousand, and
/// every process that is started pays for it.
///
/// # Safety
/// They must be of this library's dynamic symbol table.
unsafe fn edit(edits: &[Edit]) {
    let places = || edits.iter().map(|edit| edit.symbol as usize);
    let (Some(first), Some(last)) = (places().min(), places().max()) else { return };
    let page = first / 4096 * 4096;
    let length = last + size_of::<libc::Elf64_Sym>() - page;
    // SAFETY: the table's pages are ours, private to the process; they are made writable for the
    // stores.
    unsafe {
        if libc::mprotect(page as *mut c_void, length, libc::PROT_READ | libc::PROT_WRITE) == 0 {
            for Edit { symbol, value, kind } in edits {
                let binding = (**symbol).st_info & 0xf0;
                (&raw mut (**symbol).st_info).write_volatile(binding | kind);
                (&raw mut (**symbol).st_value).write_volatile(*value);
            }
            libc::mprotect(page as *mut c_void, length, libc::PROT_READ);
        }
    }
}
