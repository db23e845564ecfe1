//! Symbol tables of loaded modules, read without calling the loader.

use std::ffi::{CStr, c_char, c_void};

/// The dynamic symbol table of a loaded module.
pub struct SymbolTable {
    /// The module's load address; values of symbols are relative to it.
    pub base: usize,
    symbols: *mut libc::Elf64_Sym,
    strings: *const c_char,
    buckets: *const u32,
    bucket_count: u32,
    chains: *const u32,
    first: u32,
    /// A filter that most names fail that the module does not define.
    bloom: *const u64,
    bloom_words: u32,
    bloom_shift: u32,
}

/// A name with its hash, to be looked up in several tables.
pub struct Name<'n> {
    text: &'n CStr,
    hash: u32,
}

impl<'n> Name<'n> {
    /// Computes the hash of a name.
    pub fn of(text: &'n CStr) -> Name<'n> {
        let step = |h: u32, &b: &u8| h.wrapping_mul(33).wrapping_add(u32::from(b));
        Name { text, hash: text.to_bytes().iter().fold(5381, step) }
    }

    /// The name.
    pub fn text(&self) -> &'n CStr {
        self.text
    }
}

/// An entry of the dynamic section.
#[repr(C)]
pub struct Dynamic {
    /// The kind of the entry.
    pub tag: i64,
    /// A number or an address.
    pub value: usize,
}

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

impl SymbolTable {
    /// The symbol table of this library.
    pub fn of_agent() -> Option<SymbolTable> {
        each_module(|module, is_agent| if is_agent { SymbolTable::of(module) } else { None })
    }

    /// The symbol tables of all modules except this library.
    pub fn of_others() -> Vec<SymbolTable> {
        let mut tables = Vec::new();
        each_module(|module, is_agent| {
            tables.extend(if is_agent { None } else { SymbolTable::of(module) });
            None::<()>
        });
        tables
    }

    /// Whether a module other than this library defines a name.
    pub fn is_defined_elsewhere(name: &CStr) -> bool {
        let name = Name::of(name);
        let found = each_module(|module, is_agent| {
            let table = if is_agent { None } else { SymbolTable::of(module) };
            table.is_some_and(|table| table.defines(&name)).then_some(())
        });
        found.is_some()
    }

    /// Whether the module defines a name.
    pub fn defines(&self, name: &Name<'_>) -> bool {
        // SAFETY: `find` returns a symbol of the table.
        self.find(name).is_some_and(|symbol| unsafe { (*symbol).st_shndx != 0 })
    }

    fn of(module: &libc::dl_phdr_info) -> Option<SymbolTable> {
        let base = module.dlpi_addr as usize;
        let (mut symbols, mut strings, mut hash) = (0, 0, 0);
        for Dynamic { tag, value } in dynamic_section(module)? {
            // The GNU loader makes these addresses absolute when it maps a module; in the vDSO they
            // are offsets.
            let address = if *value < base { base + value } else { *value };
            match *tag {
                DT_SYMTAB => symbols = address,
                DT_STRTAB => strings = address,
                DT_GNU_HASH => hash = address,
                _ => {}
            }
        }
        if symbols == 0 || strings == 0 || hash == 0 {
            return None;
        }
        // SAFETY: the hash table of a loaded module, which begins with four numbers and a filter.
        unsafe {
            let header = hash as *const u32;
            let (bucket_count, first, bloom) = (*header, *header.add(1), *header.add(2));
            let (filter, bloom_shift) = (header.add(4).cast::<u64>(), *header.add(3));
            let buckets = filter.add(bloom as usize).cast::<u32>();
            let chains = buckets.add(bucket_count as usize);
            let (symbols, strings) = (symbols as *mut _, strings as *const c_char);
            let (bloom, bloom_words) = (filter, bloom);
            Some(SymbolTable {
                base,
                symbols,
                strings,
                buckets,
                bucket_count,
                chains,
                first,
                bloom,
                bloom_words,
                bloom_shift,
            })
        }
    }

    /// Finds a symbol by name, as the loader does.
    pub fn find(&self, name: &Name<'_>) -> Option<*mut libc::Elf64_Sym> {
        let Name { text: name, hash } = *name;
        if self.bucket_count == 0 || !self.may_have(hash) {
            return None;
        }
        // SAFETY: walks the hash table of a loaded module within its chains; the last entry of a
        // chain is odd.
        unsafe {
            let mut index = *self.buckets.add((hash % self.bucket_count) as usize);
            if index < self.first {
                return None;
            }
            loop {
                let chained = *self.chains.add((index - self.first) as usize);
                let symbol = self.symbols.add(index as usize);
                if chained | 1 == hash | 1
                    && CStr::from_ptr(self.strings.add((*symbol).st_name as usize)) == name
                {
                    return Some(symbol);
                }
                if chained & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// Whether the filter lets a hash pass.
    fn may_have(&self, hash: u32) -> bool {
        if self.bloom_words == 0 {
            return true;
        }
        let bits = 1u64 << (hash % 64) | 1u64 << (hash.wrapping_shr(self.bloom_shift) % 64);
        // SAFETY: the filter of a loaded module has that many words.
        let word = unsafe { *self.bloom.add((hash / 64 % self.bloom_words) as usize) };
        word & bits == bits
    }
}

/// The entries of a module's dynamic section.
pub fn dynamic_section(module: &libc::dl_phdr_info) -> Option<&[Dynamic]> {
    let dynamic = headers(module).iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
    let first = (module.dlpi_addr as usize + dynamic.p_vaddr as usize) as *const Dynamic;
    // SAFETY: the section ends with a zero tag.
    unsafe {
        let length = (0..).take_while(|&i| (*first.add(i)).tag != 0).count();
        Some(std::slice::from_raw_parts(first, length))
    }
}

/// The program headers of a module.
pub fn headers(module: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if module.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the loader's own table of that many program headers.
    unsafe { std::slice::from_raw_parts(module.dlpi_phdr, module.dlpi_phnum.into()) }
}

/// The path of a module's file; empty for the program itself.
pub fn path_of(module: &libc::dl_phdr_info) -> &[u8] {
    if module.dlpi_name.is_null() {
        return &[];
    }
    // SAFETY: a NUL-terminated name owned by the loader.
    unsafe { CStr::from_ptr(module.dlpi_name) }.to_bytes()
}

/// The name of a module's file, and the names of the libraries that it needs.
pub fn needed_by(module: &libc::dl_phdr_info) -> (Vec<u8>, Vec<Vec<u8>>) {
    const DT_NEEDED: i64 = 1;
    let name = path_of(module).rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    let dynamic = dynamic_section(module).unwrap_or_default();
    let base = module.dlpi_addr as usize;
    let strings = dynamic.iter().find(|entry| entry.tag == DT_STRTAB).map(|entry| entry.value);
    let Some(strings) = strings else { return (name, Vec::new()) };
    let strings = if strings < base { base + strings } else { strings };
    let needed = dynamic.iter().filter(|entry| entry.tag == DT_NEEDED).map(|entry| {
        // SAFETY: a string in the module's own table.
        unsafe { CStr::from_ptr((strings + entry.value) as *const c_char) }.to_bytes().to_vec()
    });
    (name, needed.collect())
}

/// Calls `look` with every loaded module, and with whether it is this library, until it returns
/// `Some`.
pub fn each_module<T>(look: impl FnMut(&libc::dl_phdr_info, bool) -> Option<T>) -> Option<T> {
    struct Search<T, F> {
        look: F,
        found: Option<T>,
    }
    unsafe extern "C" fn visit<T, F: FnMut(&libc::dl_phdr_info, bool) -> Option<T>>(
        module: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        search: *mut c_void,
    ) -> i32 {
        // SAFETY: the loader passes a valid description, and `each_module` its search.
        let (module, search) = unsafe { (&*module, &mut *search.cast::<Search<T, F>>()) };
        let here = headers as *const () as u64;
        let is_agent = headers(module).iter().any(|h| {
            let start = module.dlpi_addr + h.p_vaddr;
            h.p_type == libc::PT_LOAD && (start..start + h.p_memsz).contains(&here)
        });
        search.found = (search.look)(module, is_agent);
        i32::from(search.found.is_some())
    }
    fn visitor<T, F: FnMut(&libc::dl_phdr_info, bool) -> Option<T>>(
        _: &Search<T, F>,
    ) -> unsafe extern "C" fn(*mut libc::dl_phdr_info, libc::size_t, *mut c_void) -> i32 {
        visit::<T, F>
    }
    let mut search = Search { look, found: None };
    let visit = visitor(&search);
    // SAFETY: `visit` is made for this search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}
