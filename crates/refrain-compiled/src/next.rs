//! The definitions that this library interposes.

use core::ffi::{CStr, c_void};
use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The next definition of a function in the loader's order.
pub struct Next<F> {
    at: AtomicPtr<c_void>,
    name: &'static CStr,
    form: PhantomData<F>,
}

// SAFETY: holds the address of a function, which any thread may call.
unsafe impl<F> Sync for Next<F> {}

impl<F: Copy> Next<F> {
    /// The function of that name, which must have type `F`.
    pub const fn new(name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Self { at: AtomicPtr::new(null_mut()), name, form: PhantomData }
    }

    /// The function; `None` if there is none, or while this thread is looking one up.
    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        let at = self.at.load(Ordering::Relaxed);
        let at = if at.is_null() { self.find() } else { at };
        // SAFETY: `new` requires that the function of that name has type `F`.
        (!at.is_null()).then(|| unsafe { core::mem::transmute_copy(&at) })
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // The loader allocates during the lookup; there is one thread then.
        static IS_SEARCHING: AtomicBool = AtomicBool::new(false);
        if IS_SEARCHING.swap(true, Ordering::Acquire) {
            return null_mut();
        }
        // SAFETY: dlsym with a valid name; RTLD_NEXT searches behind this library.
        let at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(at, Ordering::Relaxed);
        IS_SEARCHING.store(false, Ordering::Release);
        at
    }
}
