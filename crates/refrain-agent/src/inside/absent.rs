//! Hides exported functions that the program's MPI does not have.
//!
//! The agent exports every function of every MPI. Some programs ask which functions exist, by weak
//! references or by `dlsym`, and do without those that are missing: mpi4py's wheels, which run with
//! any MPI, do so for hundreds of functions. To such programs the agent's exports must look like
//! those of their MPI. So the agent edits its own dynamic symbol table: the loader ignores a symbol
//! without a value.
//!
//! * If an MPI library is loaded before the agent's initialiser runs, because the program is linked
//!   to it, names that it lacks are hidden.
//! * Otherwise the program may load one later, or none. All names are hidden. When an MPI library
//!   is loaded, the names that it defines are shown before the loader binds anything to them.
//!
//! To learn of that library in time, the agent defines `__gmon_start__`, a hook for profilers.
//! Nearly every shared library has a weak reference to it, which usually stays undefined. The
//! agent's definition does nothing, but is an *indirect function*: the loader asks the agent for
//! its address whenever it binds a library, when the library and its dependencies are mapped
//! already. The agent must answer without calling the loader, which is in the middle of its work,
//! so it walks the symbol tables of the mapped modules. (The symbol becomes indirect only just
//! before the program starts: the loader warns of indirect symbols in libraries that are bound
//! before the agent.)

use crate::inside::next;
use crate::inside::process::Errno;
use crate::inside::symbols::{Name, SymbolTable};
use crate::{order, table};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// By slot: the value of a hidden symbol.
static HIDDEN: [AtomicU64; table::FUNCTIONS * 2] =
    [const { AtomicU64::new(0) }; table::FUNCTIONS * 2];

/// Adapts the exports to the MPI that is loaded, or hides all of them until one is loaded.
pub fn adapt_exports() {
    let _errno = Errno::keep();
    // A panic here leaves the names as they are.
    let _ = std::panic::catch_unwind(|| {
        let Some(agent) = SymbolTable::of_agent() else { return };
        let is_linked = next::has_mpi();
        // The loader would take milliseconds to search for all names. It is asked only if the MPI
        // library has another kind of hash table.
        let others = SymbolTable::of_others();
        let is_known = SymbolTable::is_defined_elsewhere(c"PMPI_Init");
        let mut edits = Vec::with_capacity(table::FUNCTIONS);
        each_export(&agent, |slot, name, symbol| {
            let is_defined = || match is_known {
                true => others.iter().any(|other| other.defines(name)),
                false => next::is_defined(name.text()),
            };
            if !is_linked || !is_wanted(slot) || !is_defined() {
                let Some(hidden) = HIDDEN.get(slot) else { return };
                // SAFETY: a symbol of the agent's own table.
                hidden.store(unsafe { (*symbol).st_value }, Ordering::Release);
                edits.push(Edit { symbol, value: 0, kind: STT_FUNC });
            }
        });
        if !is_linked && let Some(symbol) = agent.find(&Name::of(c"__gmon_start__")) {
            let resolver = resolve_gmon_start as *const () as usize;
            edits.push(Edit { symbol, value: (resolver - agent.base) as u64, kind: STT_GNU_IFUNC });
        }
        // SAFETY: symbols of the agent's own table.
        unsafe { edit(&edits) };
    });
}

/// `MPI_Wtime` is exported only to record or replay receive orders: a traced program calls MPI's
/// directly.
fn is_wanted(slot: usize) -> bool {
    slot / 2 != table::MPI_Wtime || order::is_on()
}

/// Resolver of the indirect function `__gmon_start__`: the loader calls it whenever it binds a
/// library.
extern "C" fn resolve_gmon_start() -> usize {
    static SHOWN: AtomicBool = AtomicBool::new(false);
    if !SHOWN.load(Ordering::Acquire) {
        // A panic here leaves the names hidden, and the program without a trace.
        let _ = std::panic::catch_unwind(|| {
            let is_loaded = SymbolTable::is_defined_elsewhere(c"PMPI_Init");
            if is_loaded && !SHOWN.swap(true, Ordering::AcqRel) {
                show_defined_names(&SymbolTable::of_others());
            }
        });
    }
    __gmon_start__ as *const () as usize
}

/// Shows the names that the MPI library defines.
fn show_defined_names(others: &[SymbolTable]) {
    let Some(agent) = SymbolTable::of_agent() else { return };
    let mut edits = Vec::new();
    each_export(&agent, |slot, name, symbol| {
        if is_wanted(slot) && others.iter().any(|other| other.defines(name)) {
            let Some(hidden) = HIDDEN.get(slot) else { return };
            let value = hidden.load(Ordering::Acquire);
            edits.push(Edit { symbol, value, kind: STT_FUNC });
        }
    });
    // SAFETY: symbols of the agent's own table.
    unsafe { edit(&edits) };
}

/// Calls `each` for every exported name of MPI.
fn each_export(agent: &SymbolTable, mut each: impl FnMut(usize, &Name<'_>, *mut libc::Elf64_Sym)) {
    let mut text = Vec::new();
    for (number, name) in table::NAMES.iter().enumerate() {
        for (profiled, prefix) in ["", "P"].into_iter().enumerate() {
            text.clear();
            text.extend_from_slice(prefix.as_bytes());
            text.extend_from_slice(name.as_bytes());
            text.push(0);
            if let Ok(text) = CStr::from_bytes_with_nul(&text)
                && let name = Name::of(text)
                && let Some(symbol) = agent.find(&name)
            {
                each(number * 2 + profiled, &name, symbol);
            }
        }
    }
}

/// A hook for profilers; does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn __gmon_start__() {}

/// A symbol type: the value is a function.
const STT_FUNC: u8 = 2;

/// A symbol type of the GNU loader: the value is a function that returns the address.
const STT_GNU_IFUNC: u8 = 10;

/// The new value and type of a symbol.
struct Edit {
    symbol: *mut libc::Elf64_Sym,
    value: u64,
    kind: u8,
}

/// Changes symbols. Their pages are made writable in one step: there are more than a thousand
/// symbols, and every process pays for it at start.
///
/// # Safety
/// The symbols must be in the agent's dynamic symbol table.
unsafe fn edit(edits: &[Edit]) {
    let addresses = || edits.iter().map(|edit| edit.symbol as usize);
    let (Some(first), Some(last)) = (addresses().min(), addresses().max()) else { return };
    let page = first / 4096 * 4096;
    let length = last + size_of::<libc::Elf64_Sym>() - page;
    // SAFETY: the table's pages belong to the agent and are private to the process; they are made
    // writable for the stores.
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
