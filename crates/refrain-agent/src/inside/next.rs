//! The function to forward a call to.
//!
//! Ordinarily the next definition in the loader's order, so that tools preloaded behind us
//! keep their place. Programs that load MPI with local scope (Python does) hide it from that
//! order; then the loaded modules are searched.

use crate::inside::modules::{self, Owner};
use crate::inside::process;
use crate::{order, table};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// By slot: twice the function's number, plus one for the `PMPI_` name.
static NEXT: [AtomicPtr<()>; table::FUNCTIONS * 2] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; table::FUNCTIONS * 2];

/// The functions behind those of [`order`], where these stand in between.
static BEHIND: [AtomicPtr<()>; table::FUNCTIONS * 2] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; table::FUNCTIONS * 2];

/// The function to forward a slot's calls to.
#[inline(always)]
pub fn function(slot: usize) -> *const () {
    match NEXT.get(slot).map(|f| f.load(Ordering::Relaxed)) {
        Some(f) if !f.is_null() => f,
        _ => resolve(slot),
    }
}

/// MPI's own implementation of a function, for calls of the agent's own; `None` if this MPI
/// does not have it.
pub fn mpi(number: usize) -> Option<*const ()> {
    let f = behind(number * 2 + 1);
    (f != missing as *const ()).then_some(f)
}

/// The function that a slot's calls reach in the end, past those of [`order`].
#[inline(always)]
pub fn behind(slot: usize) -> *const () {
    match BEHIND.get(slot).map(|f| f.load(Ordering::Acquire)) {
        Some(behind) if !behind.is_null() => behind,
        _ => behind_unknown(slot),
    }
}

/// The same, where nothing stands in between, or it is not known yet.
#[inline(never)]
fn behind_unknown(slot: usize) -> *const () {
    let f = function(slot);
    match BEHIND.get(slot).map(|f| f.load(Ordering::Acquire)) {
        Some(behind) if !behind.is_null() => behind,
        _ => f,
    }
}

#[cold]
fn resolve(slot: usize) -> *const () {
    let _quiet = process::Quiet::keep();
    let found = std::panic::catch_unwind(|| {
        let name = table::NAMES.get(slot / 2).copied().unwrap_or_default();
        let name = if slot % 2 == 1 { format!("P{name}") } else { name.to_owned() };
        lookup(&name)
    });
    let f = match found {
        Ok(Some(f)) => f.cast_const().cast(),
        // The program refers to MPI weakly, and may load it later.
        _ if !has_mpi() && is_question(slot / 2) => return no as *const (),
        _ if !has_mpi() => return missing as *const (),
        _ => missing as *const (),
    };
    let between = if f == missing as *const () { None } else { order::hook(slot / 2) };
    if let (Some(cell), Some(_)) = (BEHIND.get(slot), between) {
        cell.store(f.cast_mut(), Ordering::Release);
    }
    let f = between.unwrap_or(f);
    if let Some(cell) = NEXT.get(slot) {
        cell.store(f.cast_mut(), Ordering::Release);
    }
    f
}

/// Finds a symbol in the libraries behind this one.
pub fn lookup(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    has_mpi();
    // SAFETY: dlsym with a valid name; RTLD_NEXT starts behind this library.
    let f = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    let f = if f.is_null() { in_modules(&name)? } else { f };
    if name.as_bytes().starts_with(b"MPI_") || name.as_bytes().starts_with(b"PMPI_") {
        match modules::find(f as usize).map(|m| m.owner) {
            // One note per module is enough: afterwards it is no longer the program's.
            Some(Owner::Program) => modules::note_tool(f as usize),
            // Never forward to ourselves.
            Some(Owner::Agent) => return None,
            _ => {}
        }
    }
    Some(f)
}

/// Finds a variable of the MPI library. The program may hold a copy of it, made by the linker
/// (a copy relocation), which the library then uses too: so in the loader's order first.
pub fn data(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    // SAFETY: dlsym with a valid name.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if at.is_null() { in_modules(&name) } else { Some(at) }
}

/// Whether an MPI library is loaded; the first time it is, tells [`modules`] where.
pub fn has_mpi() -> bool {
    static FOUND: AtomicBool = AtomicBool::new(false);
    if FOUND.load(Ordering::Acquire) {
        return true;
    }
    // Every module that defines MPI's own entry points for itself, and is named like an MPI
    // library, is one; the first definition is, whatever its name.
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

/// Keeps the MPI library where it is: we hold addresses in it, and a program may unload it.
fn pin(path: &[u8]) {
    if let Ok(path) = CString::new(path) {
        // SAFETY: gives a handle to what is loaded already; the reference stays.
        unsafe {
            let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY | libc::RTLD_NODELETE;
            libc::dlopen(path.as_ptr(), flags);
        }
    }
}

/// Whether a library behind this one defines a name.
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
        let name = self.path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        name.starts_with(b"libmpi") || name.starts_with(b"libpmpi")
    }
}

/// Searches all loaded modules, those with local scope too.
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
    // SAFETY: RTLD_NOLOAD only gives a handle to what is there; the reference it takes is
    // given back.
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

/// Stands in for a function that this MPI does not have; without the agent such a program
/// would not have started.
unsafe extern "C" fn missing() -> c_int {
    if !has_mpi() {
        // Any error code will do.
        return 1;
    }
    process::note_missing();
    process::unsupported_operation()
}

/// Whether a function is asked by programs that do not know whether there is an MPI.
fn is_question(number: usize) -> bool {
    number == table::MPI_Initialized || number == table::MPI_Finalized
}

/// Stands in for those as long as there is none.
unsafe extern "C" fn no(flag: *mut c_int) -> c_int {
    if !flag.is_null() {
        // SAFETY: the program's flag.
        unsafe { *flag = 0 };
    }
    0
}
