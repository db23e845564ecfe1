//! The creation path of a thread, which is the same in every run. The order of the threads' first calls is not.
//!
//! The initial thread has path 0. The path of another thread is a hash of its parent's path and of its index
//! among the parent's children. Threads that were not created through the program's imports (by the MPI
//! library, or with `clone`) keep path 0, and are distinguished by the order of their first calls.

use crate::inside::entry::thread_block;
use std::ffi::{c_int, c_void};

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// The arguments of a new thread.
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

/// Replaces `pthread_create` in the program's modules.
///
/// # Safety
/// As for `pthread_create`.
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the block belongs to this thread.
    let path = unsafe {
        let parent = thread_block();
        (*parent).children += 1;
        refrain_order::child((*parent).path, (*parent).children)
    };
    let child = Box::into_raw(Box::new(Child { start, argument, path }));
    // SAFETY: the caller's promise; the new thread frees `child`, unless it was not created.
    unsafe {
        let result = create(thread, attributes, begin, child.cast());
        if result != 0 {
            drop(Box::from_raw(child));
        }
        result
    }
}

unsafe extern "C-unwind" fn begin(child: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` above made it for this thread.
    let Child { start, argument, path } = *unsafe { Box::from_raw(child.cast::<Child>()) };
    // SAFETY: the block belongs to this thread; the program's function gets the program's argument.
    unsafe {
        (*thread_block()).path = path;
        start(argument)
    }
}
