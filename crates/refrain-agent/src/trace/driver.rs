//! Asks CUDA's driver about an address.
//!
//! Most programs link CUDA's runtime statically and allocate in many ways, so
//! [`crate::trace::device`] does not see all allocations. But the driver can be asked about any
//! address, if the program has loaded it. The agent never loads it.

use crate::inside::{modules, next};
use crate::trace::regions::Region;
use refrain_format::record::segment;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// `cuPointerGetAttributes`: several attributes of an address; all are 0 if it is not CUDA's.
type Ask = unsafe extern "C" fn(c_uint, *mut c_int, *mut *mut c_void, u64) -> c_int;

static ASK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Attributes, as numbered in `cuda.h`: kind of memory, whether it is managed, the device, the
/// first address of the allocation, its bytes.
const ATTRIBUTES: [c_int; 5] = [2, 8, 9, 11, 12];

/// Kinds of memory.
const HOST: u64 = 1;
const DEVICE: u64 = 2;

/// [`modules::loads_and_unloads`] when the driver was last found missing. Asking again each time
/// would be slow: the loader searches all its folders for a library that is not loaded.
static NOT_LOADED_AT: AtomicU64 = AtomicU64::new(0);

fn ask() -> Option<Ask> {
    let mut at = ASK.load(Ordering::Relaxed);
    if at.is_null() {
        let loads = modules::loads_and_unloads();
        if NOT_LOADED_AT.load(Ordering::Relaxed) == loads {
            return None;
        }
        let Some(found) = next::symbol_of(b"libcuda.so.1", c"cuPointerGetAttributes") else {
            NOT_LOADED_AT.store(loads, Ordering::Relaxed);
            return None;
        };
        at = found;
        ASK.store(at, Ordering::Relaxed);
    }
    // SAFETY: the driver's function has this type since CUDA 7.
    Some(unsafe { std::mem::transmute::<*mut c_void, Ask>(at) })
}

/// The allocation that an address lies in.
pub fn find(address: usize) -> Option<Region> {
    let ask = ask()?;
    let mut values = [0u64; ATTRIBUTES.len()];
    let mut pointers = [null_mut(); ATTRIBUTES.len()];
    for (pointer, value) in pointers.iter_mut().zip(&mut values) {
        *pointer = (&raw mut *value).cast::<c_void>();
    }
    let mut attributes = ATTRIBUTES;
    // SAFETY: as many attributes as pointers, each to 8 bytes, which hold any attribute; any
    // address may be asked about.
    let error = unsafe {
        let (n, attributes) = (ATTRIBUTES.len() as c_uint, attributes.as_mut_ptr());
        ask(n, attributes, pointers.as_mut_ptr(), address as u64)
    };
    let [memory, managed, device, start, bytes] = values;
    let kind = match memory as u32 as u64 {
        _ if managed as u8 != 0 => segment::MANAGED,
        DEVICE => segment::DEVICE,
        HOST => segment::PINNED,
        _ => return None,
    };
    let start = usize::try_from(start).ok()?;
    let range = start..start.checked_add(usize::try_from(bytes).ok()?)?;
    let is_found = error == 0 && range.contains(&address);
    is_found.then(|| Region { range, kind, detail: (device as i32).max(0) as u32, used: true })
}
