//! Atomic operations: with `-fsanitize=thread`, compilers leave them to the runtime.
//!
//! All operations are sequentially consistent here, the strongest order that a program can ask for. Loads
//! and stores are recorded as loads and stores, all others as one atomic reference.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, compiler_fence, fence};

use crate::access::{ATOMIC, LOAD, STORE, caller, entry, record};

/// Records a reference at the call in progress.
fn record_here(address: usize, kind: u32, size: u64) {
    let (pc, stack) = caller();
    record(address as u64, pc, kind, size, stack);
}

/// The operations of one size. The memory orders that compilers pass are ignored.
macro_rules! atomics {
    ($module:ident $atomic:ident $value:ident $size:literal:
     $load:ident $store:ident $exchange:ident $add:ident $sub:ident $and:ident $or:ident $xor:ident
     $nand:ident $strong:ident $weak:ident $val:ident) => {
        mod $module {
            use super::*;
            type Value = $value;

            /// The variable.
            unsafe fn at<'a>(address: *mut Value) -> &'a $atomic {
                // SAFETY: the program uses it as an atomic variable.
                unsafe { $atomic::from_ptr(address) }
            }

            unsafe extern "C" fn load(address: *mut Value) -> Value {
                record_here(address as usize, LOAD, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).load(SeqCst) }
            }

            unsafe extern "C" fn store(address: *mut Value, value: Value) {
                record_here(address as usize, STORE, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).store(value, SeqCst) }
            }

            unsafe extern "C" fn exchange(address: *mut Value, value: Value) -> Value {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).swap(value, SeqCst) }
            }

            unsafe extern "C" fn add(address: *mut Value, value: Value) -> Value {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).fetch_add(value, SeqCst) }
            }

            unsafe extern "C" fn sub(address: *mut Value, value: Value) -> Value {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).fetch_sub(value, SeqCst) }
            }

            unsafe extern "C" fn and(address: *mut Value, value: Value) -> Value {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).fetch_and(value, SeqCst) }
            }

            unsafe extern "C" fn or(address: *mut Value, value: Value) -> Value {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).fetch_or(value, SeqCst) }
            }

            unsafe extern "C" fn xor(address: *mut Value, value: Value) -> Value {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).fetch_xor(value, SeqCst) }
            }

            unsafe extern "C" fn nand(address: *mut Value, value: Value) -> Value {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                unsafe { at(address).fetch_nand(value, SeqCst) }
            }

            /// Returns whether the variable had the expected value; if not, stores its value there.
            unsafe extern "C" fn compare(
                address: *mut Value,
                expected: *mut Value,
                value: Value,
            ) -> i32 {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                unsafe {
                    match at(address).compare_exchange(*expected, value, SeqCst, SeqCst) {
                        Ok(_) => 1,
                        Err(found) => {
                            *expected = found;
                            0
                        }
                    }
                }
            }

            /// Returns the old value of the variable.
            unsafe extern "C" fn compare_value(
                address: *mut Value,
                expected: Value,
                value: Value,
            ) -> Value {
                record_here(address as usize, ATOMIC, $size);
                // SAFETY: the caller's promise.
                let was = unsafe { at(address).compare_exchange(expected, value, SeqCst, SeqCst) };
                was.unwrap_or_else(|found| found)
            }

            entry!($load => load);
            entry!($store => store);
            entry!($exchange => exchange);
            entry!($add => add);
            entry!($sub => sub);
            entry!($and => and);
            entry!($or => or);
            entry!($xor => xor);
            entry!($nand => nand);
            entry!($strong => compare);
            entry!($weak => compare);
            entry!($val => compare_value);
        }
    };
}

atomics!(bytes AtomicU8 u8 1:
    __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_fetch_add
    __tsan_atomic8_fetch_sub __tsan_atomic8_fetch_and __tsan_atomic8_fetch_or
    __tsan_atomic8_fetch_xor __tsan_atomic8_fetch_nand __tsan_atomic8_compare_exchange_strong
    __tsan_atomic8_compare_exchange_weak __tsan_atomic8_compare_exchange_val);
atomics!(words AtomicU16 u16 2:
    __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange __tsan_atomic16_fetch_add
    __tsan_atomic16_fetch_sub __tsan_atomic16_fetch_and __tsan_atomic16_fetch_or
    __tsan_atomic16_fetch_xor __tsan_atomic16_fetch_nand __tsan_atomic16_compare_exchange_strong
    __tsan_atomic16_compare_exchange_weak __tsan_atomic16_compare_exchange_val);
atomics!(halves AtomicU32 u32 4:
    __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_fetch_add
    __tsan_atomic32_fetch_sub __tsan_atomic32_fetch_and __tsan_atomic32_fetch_or
    __tsan_atomic32_fetch_xor __tsan_atomic32_fetch_nand __tsan_atomic32_compare_exchange_strong
    __tsan_atomic32_compare_exchange_weak __tsan_atomic32_compare_exchange_val);
atomics!(wholes AtomicU64 u64 8:
    __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_fetch_add
    __tsan_atomic64_fetch_sub __tsan_atomic64_fetch_and __tsan_atomic64_fetch_or
    __tsan_atomic64_fetch_xor __tsan_atomic64_fetch_nand __tsan_atomic64_compare_exchange_strong
    __tsan_atomic64_compare_exchange_weak __tsan_atomic64_compare_exchange_val);

/// Operations on 16 bytes, all made of `cmpxchg16b`.
mod sixteen {
    use super::*;

    /// Compares and exchanges; returns the old value.
    unsafe fn exchange_if(address: *mut u128, expected: u128, value: u128) -> u128 {
        let (mut low, mut high) = (expected as u64, (expected >> 64) as u64);
        // SAFETY: aligned to 16 bytes, as the program's atomic variables are. rbx is reserved by the
        // compiler, so it is restored.
        unsafe {
            core::arch::asm!(
                "xchg {value}, rbx",
                "lock cmpxchg16b xmmword ptr [{address}]",
                "mov rbx, {value}",
                value = inout(reg) value as u64 => _,
                address = in(reg) address,
                in("rcx") (value >> 64) as u64,
                inout("rax") low,
                inout("rdx") high,
                options(nostack),
            );
        }
        u128::from(high) << 64 | u128::from(low)
    }

    unsafe fn update(address: *mut u128, kind: u32, new: impl Fn(u128) -> u128) -> u128 {
        record_here(address as usize, kind, 16);
        let mut seen = 0;
        loop {
            // SAFETY: the caller's promise.
            let was = unsafe { exchange_if(address, seen, new(seen)) };
            if was == seen {
                return was;
            }
            seen = was;
        }
    }

    unsafe extern "C" fn load(address: *mut u128) -> u128 {
        // SAFETY: the caller's promise; if the value is replaced at all, it is replaced by itself.
        unsafe { update(address, LOAD, |value| value) }
    }

    unsafe extern "C" fn store(address: *mut u128, value: u128) {
        // SAFETY: the caller's promise.
        unsafe { update(address, STORE, |_| value) };
    }

    macro_rules! updates {
        ($($name:ident $entry:ident |$old:ident, $value:ident| $new:expr;)*) => {
            $(
                unsafe extern "C" fn $name(address: *mut u128, $value: u128) -> u128 {
                    // SAFETY: the caller's promise.
                    unsafe { update(address, ATOMIC, |$old| $new) }
                }
                entry!($entry => $name);
            )*
        };
    }

    updates! {
        exchange __tsan_atomic128_exchange |_old, value| value;
        add __tsan_atomic128_fetch_add |old, value| old.wrapping_add(value);
        sub __tsan_atomic128_fetch_sub |old, value| old.wrapping_sub(value);
        and __tsan_atomic128_fetch_and |old, value| old & value;
        or __tsan_atomic128_fetch_or |old, value| old | value;
        xor __tsan_atomic128_fetch_xor |old, value| old ^ value;
        nand __tsan_atomic128_fetch_nand |old, value| !(old & value);
    }

    unsafe extern "C" fn compare(address: *mut u128, expected: *mut u128, value: u128) -> i32 {
        record_here(address as usize, ATOMIC, 16);
        // SAFETY: the caller's promise.
        unsafe {
            let was = exchange_if(address, *expected, value);
            let is_done = was == *expected;
            *expected = was;
            i32::from(is_done)
        }
    }

    unsafe extern "C" fn compare_value(address: *mut u128, expected: u128, value: u128) -> u128 {
        record_here(address as usize, ATOMIC, 16);
        // SAFETY: the caller's promise.
        unsafe { exchange_if(address, expected, value) }
    }

    entry!(__tsan_atomic128_load => load);
    entry!(__tsan_atomic128_store => store);
    entry!(__tsan_atomic128_compare_exchange_strong => compare);
    entry!(__tsan_atomic128_compare_exchange_weak => compare);
    entry!(__tsan_atomic128_compare_exchange_val => compare_value);
}

/// A fence between threads.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_thread_fence(_order: i32) {
    fence(SeqCst);
}

/// A fence between a thread and its signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_signal_fence(_order: i32) {
    compiler_fence(SeqCst);
}
