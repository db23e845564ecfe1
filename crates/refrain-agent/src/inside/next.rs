//! The function to forward a call to.
//!
//! Usually this is the next definition in the loader's order, so that tools preloaded behind the
//! agent keep their position. A program that loads MPI with local scope (Python does) hides it from
//! that order; then the loaded modules are searched.

use crate::inside::modules::{self, Owner};
use crate::inside::{forced, library, process};
use crate::{order, table};
use refrain_mpilib::is_library_name;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// By slot: twice the function's number, plus one for the `PMPI_` name.
static NEXT: [AtomicPtr<()>; table::FUNCTIONS * 2] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; table::FUNCTIONS * 2];

/// By slot: the function that a hook of [`order`] stands in front of; null without a hook.
static UNHOOKED: [AtomicPtr<()>; table::FUNCTIONS * 2] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; table::FUNCTIONS * 2];

/// The function to forward a slot's calls to.
#[inline(always)]
pub fn function(slot: usize) -> *const () {
    match NEXT.get(slot).map(|f| f.load(Ordering::Relaxed)) {
        Some(f) if !f.is_null() => f,
        _ => resolve(slot),
    }
}

/// MPI's implementation of a function, for the agent's own calls; `None` if this MPI does not have
/// it.
pub fn mpi(number: usize) -> Option<*const ()> {
    let f = unhooked(number * 2 + 1);
    (f != missing as *const ()).then_some(f)
}

/// The function to forward a slot's calls to, without the hook of [`order`].
#[inline(always)]
pub fn unhooked(slot: usize) -> *const () {
    match UNHOOKED.get(slot).map(|f| f.load(Ordering::Acquire)) {
        Some(unhooked) if !unhooked.is_null() => unhooked,
        _ => unhooked_slow(slot),
    }
}

/// The same if there is no hook, or if the function is not resolved yet.
#[inline(never)]
fn unhooked_slow(slot: usize) -> *const () {
    let f = function(slot);
    match UNHOOKED.get(slot).map(|f| f.load(Ordering::Acquire)) {
        Some(unhooked) if !unhooked.is_null() => unhooked,
        _ => f,
    }
}

#[cold]
fn resolve(slot: usize) -> *const () {
    let _quiet = process::Quiet::keep();
    let found = std::panic::catch_unwind(|| {
        let name = forced::name(table::NAMES.get(slot / 2).copied().unwrap_or_default());
        let name = if slot % 2 == 1 { format!("P{name}") } else { name.to_owned() };
        lookup(&name)
    });
    let f = match found {
        Ok(Some(f)) => f.cast_const().cast(),
        // The program has weak references to MPI, and may load it later.
        _ if !has_mpi() && is_query(slot / 2) => return answer_no as *const (),
        _ if !has_mpi() => return missing as *const (),
        _ => missing as *const (),
    };
    let f = if f == missing as *const () { f } else { forced::delayed(slot, f) };
    let hook = if f == missing as *const () { None } else { order::hook(slot / 2) };
    if let (Some(cell), Some(_)) = (UNHOOKED.get(slot), hook) {
        cell.store(f.cast_mut(), Ordering::Release);
    }
    let f = hook.unwrap_or(f);
    if let Some(cell) = NEXT.get(slot) {
        cell.store(f.cast_mut(), Ordering::Release);
    }
    f
}

/// Finds a symbol in the libraries behind the agent.
pub fn lookup(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    has_mpi();
    // SAFETY: dlsym with a valid name; RTLD_NEXT searches behind this library.
    let f = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    let f = if f.is_null() { in_modules(&name)? } else { f };
    if name.as_bytes().starts_with(b"MPI_") || name.as_bytes().starts_with(b"PMPI_") {
        match modules::find(f as usize).map(|m| m.owner) {
            // This registers a module once: afterwards its owner is no longer `Program`.
            Some(Owner::Program) => modules::note_tool(f as usize),
            // The agent never forwards to itself.
            Some(Owner::Agent) => return None,
            _ => {}
        }
    }
    Some(f)
}

/// Finds a variable of the MPI library. The program may hold a copy of it (a copy relocation),
/// which the library then uses too, so the loader's order is searched first.
pub fn data(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: dlsym with a valid name.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if at.is_null() { in_modules(&name) } else { Some(at) }
}

/// Whether an MPI library is loaded. The first time, registers its address with [`modules`].
pub fn has_mpi() -> bool {
    static FOUND: AtomicBool = AtomicBool::new(false);
    if FOUND.load(Ordering::Acquire) {
        return true;
    }
    // A module is an MPI library if it defines `PMPI_Init` itself and has the file name of an MPI
    // library. If there is none, the first definition is taken, whatever its module is called.
    let mut found = false;
    for module in modules::refresh() {
        if module.file_name_is_mpi()
            && let Some(f) = symbol_of(&module.path, c"PMPI_Init")
            && (module.low..module.high).contains(&(f as usize))
        {
            modules::note_mpi(f as usize);
            pin(&module.path);
            found = true;
        }
    }
    if !found {
        // SAFETY: as in `lookup`.
        let first = unsafe { libc::dlsym(libc::RTLD_NEXT, c"PMPI_Init".as_ptr()) };
        if !first.is_null() {
            modules::note_mpi(first as usize);
            found = true;
        }
    }
    if found {
        FOUND.store(true, Ordering::Release);
    }
    found
}

/// Keeps the MPI library loaded: the agent holds addresses in it, and the program may unload it.
fn pin(path: &[u8]) {
    if let Ok(path) = CString::new(path) {
        // SAFETY: returns a handle to a library that is loaded already; the reference is kept.
        unsafe {
            let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY | libc::RTLD_NODELETE;
            libc::dlopen(path.as_ptr(), flags);
        }
    }
}

/// Whether a library behind the agent defines a name.
pub fn is_defined(name: &CStr) -> bool {
    // SAFETY: as in `lookup`.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    !next.is_null() || in_mpi(name).is_some()
}

/// A symbol of the MPI library.
fn in_mpi(name: &CStr) -> Option<*mut c_void> {
    modules::all().iter().filter(|m| m.owner == Owner::Mpi).find_map(|m| symbol_of(&m.path, name))
}

impl modules::Module {
    fn file_name_is_mpi(&self) -> bool {
        is_library_name(self.path.rsplit(|&b| b == b'/').next().unwrap_or_default())
    }
}

/// Searches all loaded modules, including those with local scope.
pub fn in_modules(name: &CStr) -> Option<*mut c_void> {
    let in_mpi = in_mpi(name);
    if in_mpi.is_some() {
        return in_mpi;
    }
    modules::refresh()
        .iter()
        .filter(|m| m.owner != Owner::Agent && !m.path.is_empty())
        .filter_map(|m| symbol_of(&m.path, name))
        .find(|&f| modules::find(f as usize).is_none_or(|m| m.owner != Owner::Agent))
}

/// A symbol of a module that is already loaded.
pub fn symbol_of(path: &[u8], name: &CStr) -> Option<*mut c_void> {
    let path = CString::new(path).ok()?;
    // SAFETY: RTLD_NOLOAD only returns a handle to a loaded module; the reference is released.
    unsafe {
        let module = libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if module.is_null() {
            return None;
        }
        let symbol = libc::dlsym(module, name.as_ptr().cast::<c_char>());
        libc::dlclose(module);
        (!symbol.is_null()).then_some(symbol)
    }
}

/// Replaces a function that this MPI does not have. Without the agent, such a program would not
/// have started.
unsafe extern "C" fn missing() -> c_int {
    if !has_mpi() {
        // Any nonzero error code is acceptable.
        return 1;
    }
    process::note_missing();
    library::abi().layout().err_unsupported_operation
}

/// Whether programs call a function before they know whether there is an MPI.
fn is_query(number: usize) -> bool {
    number == table::MPI_Initialized || number == table::MPI_Finalized
}

/// Replaces such a function as long as no MPI is loaded: sets the flag to false.
unsafe extern "C" fn answer_no(flag: *mut c_int) -> c_int {
    if !flag.is_null() {
        // SAFETY: the program's flag.
        unsafe { *flag = 0 };
    }
    0
}
