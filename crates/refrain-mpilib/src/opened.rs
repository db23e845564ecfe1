//! A library that this process has opened itself.

use crate::function::{FUNCTIONS, NAMES};
use crate::{Library, OpenError, Symbols};
use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The symbols of a library that this process has opened.
///
/// Functions that are called by name are looked up in the global scope first, as those of a program that is
/// linked to MPI. So preloaded tools see the calls. The library's own questions bypass tools.
pub struct Opened {
    library: NonNull<c_void>,
    functions: Box<[Function]>,
}

/// The addresses of a function, null until they are looked up.
struct Function {
    own: AtomicPtr<()>,
    entry: AtomicPtr<()>,
}

// SAFETY: a handle of the loader, which any thread may use.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Library<Opened> {
    /// Loads an MPI library: by its path, or by a name that the loader searches (`libmpi.so.40`).
    ///
    /// Its symbols become global, because the plug-ins of Open MPI need them. It is never unloaded.
    ///
    /// # Errors
    /// If the file cannot be loaded, or has no functions of MPI.
    ///
    /// # Safety
    /// The library must be an MPI library, and the only one in this process. Its initializers run.
    pub unsafe fn open(path_or_name: impl AsRef<OsStr>) -> Result<Library, OpenError> {
        let given = path_or_name.as_ref();
        let library = given.to_string_lossy().into_owned();
        let Ok(name) = CString::new(given.as_bytes()) else {
            return Err(OpenError::NotLoaded { library, reason: "a name with a NUL".to_owned() });
        };
        let flags = libc::RTLD_LAZY | libc::RTLD_GLOBAL | libc::RTLD_NODELETE;
        // SAFETY: a valid name; the caller vouches for what is loaded.
        let Some(handle) = NonNull::new(unsafe { libc::dlopen(name.as_ptr(), flags) }) else {
            return Err(OpenError::NotLoaded { library, reason: loader_message() });
        };
        if find(handle.as_ptr(), "PMPI_Init").is_none() {
            return Err(OpenError::NotMpi { library });
        }
        let empty = || Function { own: AtomicPtr::default(), entry: AtomicPtr::default() };
        let functions = (0..FUNCTIONS).map(|_| empty()).collect();
        Ok(Library::from_loaded(Opened { library: handle, functions }))
    }
}

// SAFETY: all addresses are the loader's, for names of MPI; the library is never unloaded.
unsafe impl Symbols for Opened {
    fn function(&self, number: usize) -> Option<*const ()> {
        let cell = &self.functions.get(number)?.own;
        known_or(cell, || {
            let name = NAMES.get(number)?;
            let library = self.library.as_ptr();
            find(library, &format!("P{name}")).or_else(|| find(library, name))
        })
    }

    fn entry(&self, number: usize) -> Option<*const ()> {
        let cell = &self.functions.get(number)?.entry;
        known_or(cell, || {
            let name = NAMES.get(number)?;
            find(libc::RTLD_DEFAULT, name).or_else(|| find(self.library.as_ptr(), name))
        })
    }

    fn variable(&self, name: &str) -> Option<usize> {
        let found = find(libc::RTLD_DEFAULT, name).or_else(|| find(self.library.as_ptr(), name));
        found.map(|at| at as usize)
    }
}

/// The address in a cell, or the one that `look_up` finds, which the cell has from then on.
fn known_or(cell: &AtomicPtr<()>, look_up: impl FnOnce() -> Option<*mut ()>) -> Option<*const ()> {
    let known = cell.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    let found = look_up()?;
    cell.store(found, Ordering::Release);
    Some(found)
}

/// A symbol of a library, or of the global scope.
fn find(scope: *mut c_void, name: &str) -> Option<*mut ()> {
    let name = CString::new(name).ok()?;
    // SAFETY: the handle of a loaded library or `RTLD_DEFAULT`, and a valid name.
    let at = unsafe { libc::dlsym(scope, name.as_ptr()) };
    (!at.is_null()).then_some(at.cast())
}

/// The loader's last message.
fn loader_message() -> String {
    // SAFETY: null or a string that is valid until the thread's next call of the loader.
    let message = unsafe {
        let message = libc::dlerror();
        if message.is_null() { c"no reason given" } else { CStr::from_ptr(message) }
    };
    message.to_string_lossy().into_owned()
}
