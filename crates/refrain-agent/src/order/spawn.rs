//! Who made a thread: the same in every run, where the order of their first calls is not.
//!
//! The first thread is 0; another one has a number made of its maker's and of how many that one
//! had made before. Threads that come from elsewhere (the MPI library's own, `clone`) stay 0, and
//! are told apart by the order in which they come.

use crate::inside::entry::thread_block;
use std::ffi::{c_int, c_void};

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What a new thread is told.
struct Child {
    start: Start,
    argument: *mut c_void,
    path: u64,
}

unsafe extern "C-unwind" {
    #[link_name = "pthread_create"]
    fn create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> c_int;
}

/// Stands in for `pthread_create` in the program's modules.
///
/// # Safety
/// As for `pthread_create`.
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the block is this thread's own.
    let path = unsafe {
        let own = thread_block();
        (*own).children += 1;
        refrain_order::child((*own).path, (*own).children)
    };
    let child = Box::into_raw(Box::new(Child { start, argument, path }));
    // SAFETY: the caller's promise; the new thread takes what it is told.
    unsafe {
        let result = create(thread, attributes, begin, child.cast());
        if result != 0 {
            drop(Box::from_raw(child));
        }
        result
    }
}

unsafe extern "C-unwind" fn begin(child: *mut c_void) -> *mut c_void {
    // SAFETY: made for this thread alone, above.
    let Child { start, argument, path } = *unsafe { Box::from_raw(child.cast::<Child>()) };
    // SAFETY: the block is this thread's own; the program's function with its argument.
    unsafe {
        (*thread_block()).path = path;
        start(argument)
    }
}
