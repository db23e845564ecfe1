//! Loaded code: a program counter is a module and an offset.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use refrain_rings::record::{Record, pc};

use crate::process::Shared;

/// The maximum number of modules that are distinguished.
const MAX_MODULES: usize = 1024;
const MODULE_SEGMENT: u32 = 0;

#[derive(Clone, Copy)]
struct Module {
    base: usize,
    first: usize,
    end: usize,
}

struct Modules(UnsafeCell<[Module; MAX_MODULES]>);
// SAFETY: an entry is written once, before the count includes it.
unsafe impl Sync for Modules {}

static MODULES: Modules =
    Modules(UnsafeCell::new([Module { base: 0, first: 0, end: 0 }; MAX_MODULES]));
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn modules() -> &'static [Module] {
    let count = COUNT.load(Acquire);
    // SAFETY: the first `count` entries are not written any more.
    unsafe { (&*MODULES.0.get()).get(..count).unwrap_or_default() }
}

/// Forgets all modules.
pub fn forget() {
    COUNT.store(0, Relaxed);
}

/// Module and offset of an address. Announces modules that were loaded since the last call.
pub fn pc_of(address: u64, shared: &mut Shared) -> u64 {
    if find(address).is_none() {
        announce(shared);
    }
    find(address).unwrap_or(address)
}

fn find(address: u64) -> Option<u64> {
    let at = address as usize;
    let all = modules();
    let mut numbered = all.iter().zip(1u32..);
    let is_here = |(module, _): &(&Module, u32)| (module.first..module.end).contains(&at);
    let (module, number) = numbered.find(is_here)?;
    Some(pc(number, (at - module.base) as u64))
}

/// The load bias of the program: address in memory minus address in its file.
pub fn main_base() -> usize {
    modules().first().map_or(0, |main| main.base)
}

/// Whether an address lies in the program itself.
pub fn is_main(address: usize) -> bool {
    modules().first().is_some_and(|main| (main.first..main.end).contains(&address))
}

/// Announces all modules that are not known yet.
pub fn announce(shared: &mut Shared) {
    // SAFETY: `visit` gets the pointer that it expects.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut *shared).cast()) };
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, shared: *mut c_void) -> c_int {
    // SAFETY: the loader's description of a loaded module, and the pointer that `announce` passed.
    unsafe {
        let (info, shared) = (&*info, &mut *shared.cast::<Shared>());
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let base = info.dlpi_addr as usize;
        let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let first = loaded().map(|h| h.p_vaddr as usize).min().unwrap_or(0);
        let end = loaded().map(|h| (h.p_vaddr + h.p_memsz) as usize).max().unwrap_or(0);
        let module = Module { base, first: base + (first & !4095), end: base + end };
        let count = COUNT.load(Relaxed);
        let is_known = modules().iter().any(|m| (m.first, m.end) == (module.first, module.end));
        let all = &mut *MODULES.0.get();
        let Some(entry) = all.get_mut(count).filter(|_| end != 0 && !is_known) else { return 0 };
        *entry = module;
        COUNT.store(count + 1, Release);
        let mut path_buffer = [0u8; 4096];
        let name = core::ffi::CStr::from_ptr(info.dlpi_name).to_bytes();
        let path = if name.is_empty() && count == 0 { executable(&mut path_buffer) } else { name };
        let size = (module.end - module.first) as u64;
        shared.append(&Record::Module {
            module: count as u32 + 1,
            is_main: count == 0,
            base: base as u64,
            size,
            path,
            build_id: build_id(headers, base),
        });
        let at = module.first as u64;
        let owner = count as u32 + 1;
        shared.append(&Record::Segment { kind: MODULE_SEGMENT, owner, base: at, size });
    }
    0
}

fn executable(room: &mut [u8]) -> &[u8] {
    let link = c"/proc/self/exe";
    // SAFETY: writes at most `room.len()` bytes.
    let got = unsafe { libc::readlink(link.as_ptr(), room.as_mut_ptr().cast(), room.len()) };
    room.get(..got.max(0) as usize).unwrap_or_default()
}

/// The build id in a module's notes.
unsafe fn build_id(headers: &[libc::Elf64_Phdr], base: usize) -> &'static [u8] {
    const BUILD_ID: u32 = 3;
    for header in headers.iter().filter(|header| header.p_type == libc::PT_NOTE) {
        // SAFETY: notes of a loaded module.
        let notes = unsafe {
            let at = (base + header.p_vaddr as usize) as *const u8;
            core::slice::from_raw_parts(at, header.p_memsz as usize)
        };
        let mut rest = notes;
        while let Some((head, after)) = rest.split_at_checked(12) {
            let number = |at: usize| {
                let bytes = head.get(at..).and_then(<[u8]>::first_chunk);
                u32::from_le_bytes(bytes.copied().unwrap_or_default())
            };
            let name = (number(0) as usize).next_multiple_of(4);
            let (length, kind) = (number(4) as usize, number(8));
            let Some(id) = after.get(name..name + length) else { break };
            if kind == BUILD_ID && after.starts_with(b"GNU\0") {
                return id;
            }
            rest = after.get(name + length.next_multiple_of(4)..).unwrap_or(&[]);
        }
    }
    &[]
}
