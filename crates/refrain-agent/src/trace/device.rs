//! Memory of GPUs, as it passes by.
//!
//! The functions of CUDA and HIP that allocate and free are led by way of ours ([`imports`]),
//! which forward and note what came of it: those that a library has when the agent is loaded or
//! when `MPI_Init` returns. Of a program with CUDA's runtime linked into itself, or that loads it
//! later, the driver tells where its memory is ([`crate::trace::driver`]), but nobody tells when it is
//! freed.

use crate::inside::imports;
use crate::inside::process::Errno;
use crate::inside::symbols::SymbolTable;
use crate::trace::heap::Next;
use crate::trace::regions::{Region, Regions};
use crate::trace::segments;
use refrain_format::record::segment;
use std::ffi::{CStr, c_int, c_uint, c_void};

/// Memory of devices that is live.
static MEMORY: Regions<4096> = Regions::new();

/// The piece of device memory that an address lies in; notes that a log announces it.
pub fn find(address: usize) -> Option<Region> {
    MEMORY.find(address, true)
}

/// What is answered where there is nothing to forward to, which nobody can call: no device.
const NO_DEVICE: c_int = 100;

type AskDevice = unsafe extern "C" fn(*mut c_int) -> c_int;

static CUDA_DEVICE: Next<AskDevice> = Next::anywhere(c"cudaGetDevice");
static CU_DEVICE: Next<AskDevice> = Next::anywhere(c"cuCtxGetDevice");
static HIP_DEVICE: Next<AskDevice> = Next::anywhere(c"hipGetDevice");

/// Notes memory of the device that is in use.
fn begins(at: *mut c_void, bytes: usize, kind: u8, device: &Next<AskDevice>) {
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

/// Forgets memory that is about to be freed.
fn ends(at: *mut c_void) {
    if MEMORY.take(at as usize).is_some_and(|region| region.used) {
        segments::released(at as usize);
    }
}

/// Functions that put an address into a place, and return 0 if they did.
macro_rules! allocates {
    ($name:ident, $symbol:expr, $kind:expr, $device:ident $(, $more:ident: $type:ty)*) => {
        unsafe extern "C" fn $name(
            place: *mut *mut c_void,
            bytes: usize,
            $($more: $type,)*
        ) -> c_int {
            type Form = unsafe extern "C" fn(*mut *mut c_void, usize, $($type,)*) -> c_int;
            static NEXT: Next<Form> = Next::anywhere($symbol);
            let Some(next) = NEXT.get() else { return NO_DEVICE };
            // SAFETY: the caller's promise; upon success the place holds the address.
            unsafe {
                let error = next(place, bytes, $($more,)*);
                if error == 0 && !place.is_null() {
                    begins(*place, bytes, $kind, &$device);
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
            ends(at);
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

/// A stream of a device's work.
type Stream = *mut c_void;

/// The functions that are led by way of ours.
fn ours(name: &CStr) -> Option<*const ()> {
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

/// Leads the functions of libraries that are there by way of ours.
pub fn prepare() {
    const MARKS: [&CStr; 3] = [c"cudaMalloc", c"cuMemAlloc_v2", c"hipMalloc"];
    let _errno = Errno::keep();
    // A panic here would leave some calls as they are, and no more.
    let _ = std::panic::catch_unwind(|| {
        if MARKS.into_iter().any(SymbolTable::is_defined_elsewhere) {
            imports::lead(|name| ours(name).filter(|_| SymbolTable::is_defined_elsewhere(name)));
        }
    });
}
