//! Redirects calls in loaded modules to functions of the agent.
//!
//! A function is usually interposed by exporting its name. But an exported name exists, and
//! programs ask whether names exist: many libraries have weak references to GPU functions and work
//! without them. MPI's names can be hidden ([`crate::inside::absent`]), but not from libraries that
//! are bound before the agent. So the agent does not export functions that most programs lack.
//! Instead it overwrites the GOT entries of loaded modules that hold the address of such a
//! function.

use crate::inside::symbols::{dynamic_section, each_module, headers, path_of};
use std::ffi::{CStr, c_char, c_void};

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// Kinds of relocation: a GOT entry for an address; one for calls.
const R_X86_64_GLOB_DAT: u32 = 6;
const R_X86_64_JUMP_SLOT: u32 = 7;

/// An entry of a module's table of relocations.
#[repr(C)]
struct Relocation {
    offset: usize,
    info: u64,
    addend: i64,
}

/// Redirects calls in all loaded modules but this one: `replacement` returns the agent's function
/// for a name.
pub fn redirect(replacement: impl Fn(&CStr) -> Option<*const ()>) {
    redirect_in(|_| true, replacement);
}

/// Like [`redirect`], but only in modules whose path `which` accepts.
pub fn redirect_in(
    which: impl Fn(&[u8]) -> bool,
    replacement: impl Fn(&CStr) -> Option<*const ()>,
) {
    each_module(|module, is_agent| {
        if !is_agent && which(path_of(module)) {
            redirect_module(module, &replacement);
        }
        None::<()>
    });
}

fn redirect_module(module: &libc::dl_phdr_info, replacement: &impl Fn(&CStr) -> Option<*const ()>) {
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
            let is_defined_here = symbol.st_shndx != 0;
            if let (false, Some(function)) = (is_defined_here, replacement(name)) {
                let got_entry = (base + relocation.offset) as *mut usize;
                // SAFETY: a GOT entry of the module, which holds an address.
                unsafe { change(module, got_entry, function as usize) };
            }
        }
    }
}

/// Overwrites a GOT entry, unless it is null: a weak reference that is undefined.
///
/// # Safety
/// The entry must hold an address and belong to the module.
unsafe fn change(module: &libc::dl_phdr_info, got_entry: *mut usize, function: usize) {
    let at = got_entry as usize - module.dlpi_addr as usize;
    let is_protected = headers(module).iter().any(|h| {
        let start = h.p_vaddr as usize;
        h.p_type == libc::PT_GNU_RELRO && (start..start + h.p_memsz as usize).contains(&at)
    });
    let page = (got_entry as usize & !0xfff) as *mut c_void;
    // SAFETY: the caller's promise; a protected page is made writable for the one store.
    unsafe {
        if *got_entry == 0 || *got_entry == function {
            return;
        }
        let write = libc::PROT_READ | libc::PROT_WRITE;
        if is_protected && libc::mprotect(page, 4096, write) != 0 {
            return;
        }
        got_entry.write_volatile(function);
        if is_protected {
            libc::mprotect(page, 4096, libc::PROT_READ);
        }
    }
}
