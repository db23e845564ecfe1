//! `memcpy`, `memmove` and `memset`, which compilers call for assignments of whole objects.
//!
//! clang calls `__tsan_memcpy`; gcc calls `memcpy` itself, so this library interposes those functions. Calls
//! from the program itself are recorded as a load and a store of the whole range; calls from libraries are
//! only forwarded.

use core::arch::asm;
use core::ffi::{c_int, c_void};

use crate::access::{LOAD, STORE, caller, entry, range};
use crate::modules;
use crate::next::Next;

type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
type Set = unsafe extern "C" fn(*mut c_void, c_int, usize) -> *mut c_void;
static MEMCPY: Next<Copy> = Next::new(c"memcpy");
static MEMMOVE: Next<Copy> = Next::new(c"memmove");
static MEMSET: Next<Set> = Next::new(c"memset");

/// Looks up all of them.
pub fn prepare() {
    MEMCPY.get();
    MEMMOVE.get();
    MEMSET.get();
}

/// Records the load of a copy, unless `from` is null, and its store.
fn record_copy(pc: u64, stack: usize, to: *mut c_void, from: *const c_void, bytes: usize) {
    if !from.is_null() {
        range(from as u64, bytes as u64, pc, LOAD, stack);
    }
    range(to as u64, bytes as u64, pc, STORE, stack);
}

/// Copies bytes before the C library's function is known.
unsafe fn plain_copy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise; forwards or backwards, so that ranges may overlap.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= bytes {
            asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _,
                 inout("rsi") from => _, options(nostack, preserves_flags));
        } else if bytes > 0 {
            asm!("std", "rep movsb", "cld", inout("rcx") bytes => _,
                 inout("rdi") to.byte_add(bytes - 1) => _,
                 inout("rsi") from.byte_add(bytes - 1) => _, options(nostack));
        }
    }
    to
}

unsafe extern "C" fn copy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    let (pc, stack) = caller();
    if modules::is_main(pc as usize) {
        record_copy(pc, stack, to, from, bytes);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match MEMCPY.get() {
            Some(next) => next(to, from, bytes),
            None => plain_copy(to, from, bytes),
        }
    }
}

unsafe extern "C" fn move_(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    let (pc, stack) = caller();
    if modules::is_main(pc as usize) {
        record_copy(pc, stack, to, from, bytes);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match MEMMOVE.get() {
            Some(next) => next(to, from, bytes),
            None => plain_copy(to, from, bytes),
        }
    }
}

unsafe extern "C" fn set(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void {
    let (pc, stack) = caller();
    if modules::is_main(pc as usize) {
        record_copy(pc, stack, to, core::ptr::null(), bytes);
    }
    // SAFETY: the caller's promise.
    unsafe {
        match MEMSET.get() {
            Some(next) => next(to, byte, bytes),
            None => {
                asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _,
                     in("al") byte as u8, options(nostack, preserves_flags));
                to
            }
        }
    }
}

entry!(memcpy => copy);
entry!(memmove => move_);
entry!(memset => set);
entry!(__tsan_memcpy => copy);
entry!(__tsan_memmove => move_);
entry!(__tsan_memset => set);
