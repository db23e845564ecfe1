//! Calls of other modules' functions, led past us.
//!
//! A function is usually interposed by exporting its name. But a name that is exported is there,
//! and programs ask: many a library refers weakly to a GPU's functions, and does without. MPI's
//! names can be hidden ([`crate::inside::absent`]), though not from those that are bound before us. So
//! for functions that most programs do not have, nothing is exported; instead, the places where
//! loaded modules hold the address of such a function, for calls, are changed to hold ours.

use crate::inside::symbols::{dynamic_section, each_module, headers, path_of};
use std::ffi::{CStr, c_char, c_void};

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// Kinds of relocation: an address in a table; the same for calls.
const R_X86_64_GLOB_DAT: u32 = 6;
const R_X86_64_JUMP_SLOT: u32 = 7;

/// An entry of a module's table of relocations.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// Leads calls of all loaded modules but this one to other functions: `lead` gives the address
/// of ours for a name.
pub fn lead(lead: impl Fn(&CStr) -> Option<*const ()>) {
    lead_in(|_| true, lead);
}

/// The same for some of the modules, by the paths of their files.
pub fn lead_in(which: impl Fn(&[u8]) -> bool, lead: impl Fn(&CStr) -> Option<*const ()>) {
    each_module(|module, is_agent| {
        if !is_agent && which(path_of(module)) {
            lead_module(module, &lead);
        }
        None::<()>
    });
}

fn lead_module(module: &libc::dl_phdr_info, lead: &impl Fn(&CStr) -> Option<*const ()>) {
    let base = module.dlpi_addr as usize;
    let Some(dynamic) = dynamic_section(module) else { return };
    let find = |tag| dynamic.iter().find(|d| d.tag == tag).map(|d| d.value);
    let address = |tag| find(tag).map(|value| if value < base { base + value } else { value });
    let (Some(symbols), Some(strings)) = (address(DT_SYMTAB), address(DT_STRTAB)) else { return };
    for (table, bytes) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
        let (Some(table), Some(bytes)) = (address(table), find(bytes)) else { continue };
        // SAFETY: the module's own table of that many bytes.
        let relocations = unsafe {
            let length = bytes / size_of::<Relocation>();
            std::slice::from_raw_parts(table as *const Relocation, length)
        };
        for relocation in relocations {
            if !matches!(relocation.info as u32, R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT) {
                continue;
            }
            // SAFETY: the index of a symbol of the module's table, whose name is in its strings.
            let (symbol, name) = unsafe {
                let symbols = symbols as *const libc::Elf64_Sym;
                let symbol = &*symbols.add((relocation.info >> 32) as usize);
                let name = strings as *const c_char;
                (symbol, CStr::from_ptr(name.add(symbol.st_name as usize)))
            };
            let is_its_own = symbol.st_shndx != 0;
            if let (false, Some(function)) = (is_its_own, lead(name)) {
                let place = (base + relocation.offset) as *mut usize;
                // SAFETY: a place of the module that holds an address.
                unsafe { change(module, place, function as usize) };
            }
        }
    }
}

/// Changes an address, unless there is none: a weak reference to nothing.
///
/// # Safety
/// The place must hold an address, and belong to the module.
unsafe fn change(module: &libc::dl_phdr_info, place: *mut usize, function: usize) {
    let at = place as usize - module.dlpi_addr as usize;
    let is_protected = headers(module).iter().any(|h| {
        let start = h.p_vaddr as usize;
        h.p_type == libc::PT_GNU_RELRO && (start..start + h.p_memsz as usize).contains(&at)
    });
    let page = (place as usize & !0xfff) as *mut c_void;
    // SAFETY: the caller's promise; what is protected is made writable for the one store.
    unsafe {
        if *place == 0 || *place == function {
            return;
        }
        let write = libc::PROT_READ | libc::PROT_WRITE;
        if is_protected && libc::mprotect(page, 4096, write) != 0 {
            return;
        }
        place.write_volatile(function);
        if is_protected {
            libc::mprotect(page, 4096, libc::PROT_READ);
        }
    }
}
