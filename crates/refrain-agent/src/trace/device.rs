//! Tracks GPU memory.
//!
//! CUDA's and HIP's functions that allocate and free are redirected to the agent ([`imports`]),
//! which forwards them and records the result. This works for functions of libraries that are
//! loaded before the agent is initialised or before `MPI_Init` returns. If CUDA's runtime is linked
//! statically into the program, or loaded later, the driver is asked for allocations
//! ([`crate::trace::driver`]), but frees remain unknown.

use crate::inside::imports;
use crate::inside::process::Errno;
use crate::inside::symbols::SymbolTable;
use crate::trace::heap::Next;
use crate::trace::regions::{Region, Regions};
use crate::trace::segments;
use refrain_format::record::segment;
use std::ffi::{CStr, c_int, c_uint, c_void};

/// Live device memory.
static MEMORY: Regions<4096> = Regions::new();

/// The device memory that contains an address; marks it as announced by a log.
pub fn find(address: usize) -> Option<Region> {
    MEMORY.find(address, true)
}

/// The error code if there is nothing to forward to, which cannot happen: no device.
const NO_DEVICE: c_int = 100;

type AskDevice = unsafe extern "C" fn(*mut c_int) -> c_int;

static CUDA_DEVICE: Next<AskDevice> = Next::anywhere(c"cudaGetDevice");
static CU_DEVICE: Next<AskDevice> = Next::anywhere(c"cuCtxGetDevice");
static HIP_DEVICE: Next<AskDevice> = Next::anywhere(c"hipGetDevice");

/// Records memory of the current device.
fn record(at: *mut c_void, bytes: usize, kind: u8, device: &Next<AskDevice>) {
    let _errno = Errno::keep();
    let mut number = 0;
    if let Some(ask) = device.get() {
        // SAFETY: these functions fill in a number, and may be asked at any time.
        unsafe { ask(&mut number) };
    }
    let range = at as usize..(at as usize).saturating_add(bytes);
    if at as usize != 0 {
        MEMORY.add(&Region { range, kind, detail: number.max(0) as u32, used: false });
    }
}

/// Removes memory that is about to be freed.
fn forget(at: *mut c_void) {
    if MEMORY.take(at as usize).is_some_and(|region| region.used) {
        segments::released(at as usize);
    }
}

/// Functions that store an address in `*out`, and return 0 on success.
macro_rules! allocates {
    ($name:ident, $symbol:expr, $kind:expr, $device:ident $(, $more:ident: $type:ty)*) => {
        unsafe extern "C" fn $name(
            out: *mut *mut c_void,
            bytes: usize,
            $($more: $type,)*
        ) -> c_int {
            type Form = unsafe extern "C" fn(*mut *mut c_void, usize, $($type,)*) -> c_int;
            static NEXT: Next<Form> = Next::anywhere($symbol);
            let Some(next) = NEXT.get() else { return NO_DEVICE };
            // SAFETY: the caller's promise; on success `*out` holds the address.
            unsafe {
                let error = next(out, bytes, $($more,)*);
                if error == 0 && !out.is_null() {
                    record(*out, bytes, $kind, &$device);
                }
                error
            }
        }
    };
}

/// Functions that free what is at an address.
macro_rules! frees {
    ($name:ident, $symbol:expr $(, $more:ident: $type:ty)*) => {
        unsafe extern "C" fn $name(at: *mut c_void, $($more: $type,)*) -> c_int {
            type Form = unsafe extern "C" fn(*mut c_void, $($type,)*) -> c_int;
            static NEXT: Next<Form> = Next::anywhere($symbol);
            let Some(next) = NEXT.get() else { return NO_DEVICE };
            forget(at);
            // SAFETY: the caller's promise.
            unsafe { next(at, $($more,)*) }
        }
    };
}

allocates!(cuda_malloc, c"cudaMalloc", segment::DEVICE, CUDA_DEVICE);
allocates!(cuda_malloc_managed, c"cudaMallocManaged", segment::MANAGED, CUDA_DEVICE, flags: c_uint);
allocates!(cuda_host_alloc, c"cudaHostAlloc", segment::PINNED, CUDA_DEVICE, flags: c_uint);
allocates!(cuda_malloc_host, c"cudaMallocHost", segment::PINNED, CUDA_DEVICE);
allocates!(cuda_malloc_async, c"cudaMallocAsync", segment::DEVICE, CUDA_DEVICE, stream: Stream);
frees!(cuda_free, c"cudaFree");
frees!(cuda_free_host, c"cudaFreeHost");
frees!(cuda_free_async, c"cudaFreeAsync", stream: Stream);
allocates!(cu_mem_alloc, c"cuMemAlloc_v2", segment::DEVICE, CU_DEVICE);
frees!(cu_mem_free, c"cuMemFree_v2");
allocates!(hip_malloc, c"hipMalloc", segment::DEVICE, HIP_DEVICE);
allocates!(hip_malloc_managed, c"hipMallocManaged", segment::MANAGED, HIP_DEVICE, flags: c_uint);
allocates!(hip_host_malloc, c"hipHostMalloc", segment::PINNED, HIP_DEVICE, flags: c_uint);
frees!(hip_free, c"hipFree");
frees!(hip_host_free, c"hipHostFree");

/// A CUDA stream.
type Stream = *mut c_void;

/// The agent's replacement for a function.
fn replacement(name: &CStr) -> Option<*const ()> {
    Some(match name.to_bytes() {
        b"cudaMalloc" => cuda_malloc as *const (),
        b"cudaMallocManaged" => cuda_malloc_managed as *const (),
        b"cudaHostAlloc" => cuda_host_alloc as *const (),
        b"cudaMallocHost" => cuda_malloc_host as *const (),
        b"cudaMallocAsync" => cuda_malloc_async as *const (),
        b"cudaFree" => cuda_free as *const (),
        b"cudaFreeHost" => cuda_free_host as *const (),
        b"cudaFreeAsync" => cuda_free_async as *const (),
        b"cuMemAlloc_v2" => cu_mem_alloc as *const (),
        b"cuMemFree_v2" => cu_mem_free as *const (),
        b"hipMalloc" => hip_malloc as *const (),
        b"hipMallocManaged" => hip_malloc_managed as *const (),
        b"hipHostMalloc" => hip_host_malloc as *const (),
        b"hipFree" => hip_free as *const (),
        b"hipHostFree" => hip_host_free as *const (),
        _ => return None,
    })
}

/// Redirects the functions of libraries that are loaded.
pub fn prepare() {
    const MARKS: [&CStr; 3] = [c"cudaMalloc", c"cuMemAlloc_v2", c"hipMalloc"];
    let _errno = Errno::keep();
    // A panic here leaves some calls as they are.
    let _ = std::panic::catch_unwind(|| {
        if MARKS.into_iter().any(SymbolTable::is_defined_elsewhere) {
            imports::redirect(|name| {
                replacement(name).filter(|_| SymbolTable::is_defined_elsewhere(name))
            });
        }
    });
}
