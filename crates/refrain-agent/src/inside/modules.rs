//! Did the program make a call?
//!
//! A call is the program's unless it comes from inside the MPI library (ROMIO and some collectives
//! call MPI themselves), or from a tool that is behind the agent in the loader's order: the agent
//! has recorded the program's call that led to it. The return address decides. Calls from the C++
//! bindings are the program's, and so are calls of user callbacks (operations, attribute functions,
//! error handlers) that MPI invokes. The Fortran bindings call MPI both for the program and on
//! their own behalf: see [`bindings`].
//!
//! A callback may *tail-call* MPI, and then the return address lies inside the MPI library. But the
//! instruction before it is a call through a function pointer, while the library's own calls of MPI
//! functions are direct or go through its GOT.

use crate::inside::bindings;
use crate::inside::build_id::BuildId;
use crate::inside::entry::Entry;
use crate::inside::process::Quiet;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Who a module belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The program, its libraries, the C++ bindings, tools in front of the agent.
    Program,
    /// The Fortran bindings: a library between the program and the MPI library.
    Fortran,
    /// The MPI library and its plug-ins.
    Mpi,
    /// A tool behind the agent: the agent forwards to it, and it may call MPI itself.
    ToolBehind,
    /// This library.
    Agent,
}

/// A loaded module's code.
#[derive(Clone, Debug)]
pub struct Module {
    /// First address.
    pub low: usize,
    /// One past the last address.
    pub high: usize,
    /// Its load address: addresses in its file are relative to it.
    pub base: usize,
    /// The whole mapping of its file, including data.
    pub image: Range<usize>,
    /// Its file, empty for the program itself.
    pub path: Vec<u8>,
    /// Its build id.
    pub build_id: BuildId,
    /// Who it belongs to.
    pub owner: Owner,
}

impl Module {
    /// Whether an address lies in it.
    pub fn contains(&self, address: usize) -> bool {
        (self.low..self.high).contains(&address)
    }

    /// Whether it is the library of Open MPI's C++ bindings.
    pub fn is_cxx_binding(&self) -> bool {
        self.file_name().starts_with(b"libmpi_cxx")
    }

    /// Whether it is the C library, which calls `main` and every thread's first function.
    pub fn is_c_library(&self) -> bool {
        self.file_name().starts_with(b"libc.so") || self.file_name().starts_with(b"libpthread")
    }

    /// The name of its file.
    pub fn file_name(&self) -> &[u8] {
        self.path.rsplit(|&b| b == b'/').next().unwrap_or_default()
    }
}

/// The modules at the last [`refresh`]. The list is replaced as a whole and never freed (a handful
/// of times in a run).
static MODULES: AtomicPtr<Vec<Module>> = AtomicPtr::new(std::ptr::null_mut());

/// Addresses known to lie in the MPI library. Plain atomics, because a lock could stay locked in a
/// forked child.
static IN_MPI: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

/// Addresses known to lie in tools behind the agent.
static IN_TOOLS: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// Registers an address in the MPI library.
pub fn note_mpi(address: usize) {
    note(&IN_MPI, address);
}

/// Registers an address outside the MPI library that calls are forwarded to.
pub fn note_tool(address: usize) {
    note(&IN_TOOLS, address);
}

fn note(list: &[AtomicUsize], address: usize) {
    for cell in list {
        let old = cell.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire);
        if old.is_ok() || old == Err(address) {
            break;
        }
    }
    refresh();
}

/// The module whose code contains an address.
pub fn find(address: usize) -> Option<&'static Module> {
    let modules = MODULES.load(Ordering::Acquire);
    // SAFETY: a published list is never freed or changed.
    if let Some(modules) = unsafe { modules.as_ref() }
        && let Some(module) = modules.iter().find(|m| m.contains(address))
    {
        return Some(module);
    }
    // Code from a just-in-time compiler is in no module, however often the list is refreshed.
    if !modules.is_null() && !have_changed() {
        return None;
    }
    refresh().iter().find(|m| m.contains(address))
}

/// The module whose code or data contain an address.
pub fn find_image(address: usize) -> Option<&'static Module> {
    // The addresses of an unloaded module may have been reused.
    let modules = if have_changed() { refresh() } else { all() };
    modules.iter().find(|m| m.image.contains(&address))
}

/// Whether modules were loaded or unloaded since the last [`refresh`].
fn have_changed() -> bool {
    COUNTED.load(Ordering::Acquire) != loads_and_unloads()
}

/// [`loads_and_unloads`] at the last [`refresh`].
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// The number of modules that were ever loaded or unloaded.
pub fn loads_and_unloads() -> u64 {
    unsafe extern "C" fn count(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        sum: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description, and the number below.
        unsafe { *sum.cast::<u64>() = (*info).dlpi_adds.wrapping_add((*info).dlpi_subs) };
        1
    }
    let mut sum = 0u64;
    // SAFETY: `count` fills in `sum`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut sum).cast()) };
    sum
}

/// All modules at the last [`refresh`].
pub fn all() -> &'static [Module] {
    // SAFETY: a published list is never freed or changed.
    unsafe { MODULES.load(Ordering::Acquire).as_ref() }.map_or_else(refresh, Vec::as_slice)
}

/// Reads the list of modules anew.
pub fn refresh() -> &'static [Module] {
    let _quiet = Quiet::keep();
    COUNTED.store(loads_and_unloads(), Ordering::Release);
    let mut modules = Vec::new();
    // SAFETY: the callback only reads what it is given and fills `modules`, which outlives
    // the call.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut modules).cast()) };
    classify(&mut modules);
    let modules = Box::leak(Box::new(modules));
    MODULES.store(modules, Ordering::Release);
    modules
}

/// Called for every loaded module: adds the extent of its executable segments.
unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    modules: *mut c_void,
) -> c_int {
    // SAFETY: the dynamic loader passes a valid description, and `refresh` passed the list.
    let (info, modules) = unsafe { (&*info, &mut *modules.cast::<Vec<Module>>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader's own table of that many program headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let code = headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_X != 0);
    let path = if info.dlpi_name.is_null() {
        Vec::new()
    } else {
        // SAFETY: a NUL-terminated name owned by the loader.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes().to_vec()
    };
    let base = info.dlpi_addr as usize;
    let extent = |h: &libc::Elf64_Phdr| {
        let low = base + h.p_vaddr as usize;
        low..low + h.p_memsz as usize
    };
    let loaded = headers.iter().filter(|h| h.p_type == libc::PT_LOAD).map(extent);
    let image = loaded.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
    let build_id = build_id(headers, base).unwrap_or(BuildId::NONE);
    for Range { start: low, end: high } in code.map(extent) {
        let (path, image) = (path.clone(), image.clone());
        modules.push(Module { low, high, base, image, path, build_id, owner: Owner::Program });
    }
    0
}

/// The build id of a module, from its notes in memory.
fn build_id(headers: &[libc::Elf64_Phdr], base: usize) -> Option<BuildId> {
    let range = |h: &libc::Elf64_Phdr| h.p_vaddr..h.p_vaddr.saturating_add(h.p_memsz);
    let is_loaded = |note: &libc::Elf64_Phdr| {
        let note = range(note);
        headers.iter().any(|h| {
            let loaded = h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_R != 0;
            loaded && range(h).start <= note.start && note.end <= range(h).end
        })
    };
    let notes = headers.iter().filter(|h| h.p_type == libc::PT_NOTE && is_loaded(h));
    notes.into_iter().find_map(|h| {
        // SAFETY: the notes lie in a readable segment that the loader has mapped and keeps mapped
        // during this callback.
        let notes = unsafe {
            let start = (base + h.p_vaddr as usize) as *const u8;
            std::slice::from_raw_parts(start, h.p_memsz as usize)
        };
        BuildId::in_notes(notes, h.p_align as usize)
    })
}

fn classify(modules: &mut [Module]) {
    let here = classify as *const () as usize;
    for module in modules {
        let has =
            |list: &[AtomicUsize]| list.iter().any(|a| module.contains(a.load(Ordering::Acquire)));
        module.owner = if module.contains(here) {
            Owner::Agent
        } else if has(&IN_MPI) || module.file_name().starts_with(b"mca_") {
            // Open MPI's components, such as ROMIO, are plug-ins with this prefix.
            Owner::Mpi
        } else if has(&IN_TOOLS) {
            Owner::ToolBehind
        } else if bindings::is_bindings(module) {
            Owner::Fortran
        } else {
            Owner::Program
        };
    }
}

/// Whose a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The program made it. The same holds for every call that returns to these addresses.
    Program(Range<usize>),
    /// The Fortran bindings made it for the program.
    ByFortran,
    /// The program did not make it.
    Foreign,
}

/// Whose a call is.
pub fn judge(entry: &Entry) -> Verdict {
    const NO_RANGE: Range<usize> = 0..0;
    let caller = entry.caller;
    match find(caller) {
        Some(module) => match module.owner {
            Owner::Program => Verdict::Program(module.low..module.high),
            Owner::Mpi | Owner::Fortran if is_through_pointer(caller, module) => {
                Verdict::Program(NO_RANGE)
            }
            Owner::Fortran => bindings::judge(entry),
            Owner::Mpi | Owner::ToolBehind | Owner::Agent => Verdict::Foreign,
        },
        // Code without a module comes from a just-in-time compiler. The whole page counts as the
        // program's.
        None => Verdict::Program(caller & !0xfff..(caller | 0xfff) + 1),
    }
}

/// Whether a call of a Fortran procedure comes from the Fortran bindings themselves, where one
/// interface often calls another.
pub fn is_from_fortran(caller: usize) -> bool {
    find(caller).is_some_and(|m| m.owner == Owner::Fortran && !is_through_pointer(caller, m))
}

/// Whether the instruction before a return address inside `module` is a call through a register or
/// through memory addressed by a register: a callback, not a call of a named function.
fn is_through_pointer(caller: usize, module: &Module) -> bool {
    // The longest of these instructions. There may be no code before a shorter one.
    const LONGEST: usize = 7;
    if caller.checked_sub(LONGEST).is_none_or(|first| !module.contains(first)) {
        return false;
    }
    // SAFETY: all of these bytes are in the module's code, and code pages are readable.
    let before = |n: usize| unsafe { *((caller - n) as *const u8) };
    // call rel32, through the module's own PLT.
    let offset = i32::from_le_bytes([before(4), before(3), before(2), before(1)]);
    let direct = before(5) == 0xe8 && module.contains(caller.wrapping_add_signed(offset as isize));
    // call [rip + disp32], through the GOT.
    let by_got = before(6) == 0xff && before(5) == 0x15;
    // call reg; call [reg]; call [reg + disp8]; call [reg + disp32]; the latter also with a SIB
    // byte.
    let is_call = |n: usize| before(n) == 0xff && (before(n - 1) >> 3) & 7 == 2;
    let pointer = is_call(2) || is_call(3) || is_call(4) || is_call(6) || is_call(7);
    pointer && !direct && !by_got
}
