//! Memory of GPUs, as it passes by.
//!
//! The agent exports the functions of CUDA and HIP that allocate and free. They forward to the
//! next definition and note what came of it; where the process has no such library, the names are
//! hidden ([`crate::absent`]). A program with CUDA's runtime linked into itself never comes
//! here, and its device memory is memory of unknown origin.

use crate::heap::Next;
use crate::process::Errno;
use crate::regions::{Region, Regions};
use crate::segments;
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
        /// # Safety
        /// As for the function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
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
        /// # Safety
        /// As for the function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: *mut c_void, $($more: $type,)*) -> c_int {
            type Form = unsafe extern "C" fn(*mut c_void, $($type,)*) -> c_int;
            static NEXT: Next<Form> = Next::anywhere($symbol);
            let Some(next) = NEXT.get() else { return NO_DEVICE };
            ends(at);
            // SAFETY: the caller's promise.
            unsafe { next(at, $($more,)*) }
        }
    };
}

/// The names that are exported here.
pub const NAMES: [&CStr; 15] = [
    c"cudaMalloc",
    c"cudaMallocManaged",
    c"cudaHostAlloc",
    c"cudaMallocHost",
    c"cudaMallocAsync",
    c"cudaFree",
    c"cudaFreeHost",
    c"cudaFreeAsync",
    c"cuMemAlloc_v2",
    c"cuMemFree_v2",
    c"hipMalloc",
    c"hipMallocManaged",
    c"hipHostMalloc",
    c"hipFree",
    c"hipHostFree",
];

/// One name of each library, to know it by.
pub const MARKS: [&CStr; 3] = [c"cudaMalloc", c"cuMemAlloc_v2", c"hipMalloc"];

allocates!(cudaMalloc, NAMES[0], segment::DEVICE, CUDA_DEVICE);
allocates!(cudaMallocManaged, NAMES[1], segment::MANAGED, CUDA_DEVICE, flags: c_uint);
allocates!(cudaHostAlloc, NAMES[2], segment::PINNED, CUDA_DEVICE, flags: c_uint);
allocates!(cudaMallocHost, NAMES[3], segment::PINNED, CUDA_DEVICE);
allocates!(cudaMallocAsync, NAMES[4], segment::DEVICE, CUDA_DEVICE, stream: *mut c_void);
frees!(cudaFree, NAMES[5]);
frees!(cudaFreeHost, NAMES[6]);
frees!(cudaFreeAsync, NAMES[7], stream: *mut c_void);
allocates!(cuMemAlloc_v2, NAMES[8], segment::DEVICE, CU_DEVICE);
frees!(cuMemFree_v2, NAMES[9]);
allocates!(hipMalloc, NAMES[10], segment::DEVICE, HIP_DEVICE);
allocates!(hipMallocManaged, NAMES[11], segment::MANAGED, HIP_DEVICE, flags: c_uint);
allocates!(hipHostMalloc, NAMES[12], segment::PINNED, HIP_DEVICE, flags: c_uint);
frees!(hipFree, NAMES[13]);
frees!(hipHostFree, NAMES[14]);
