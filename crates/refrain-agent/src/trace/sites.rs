//! Call sites.
//!
//! `REFRAIN_CALLSITE` selects what is recorded:
//!
//! * `none`, the default: nothing
//! * `return`: the return address of the call, which costs next to nothing
//! * `stack:N`: up to N return addresses, innermost first. If the program was compiled with frame
//!   pointers (`-fno-omit-frame-pointer`), they are followed, at a few nanoseconds each. The result
//!   is accepted if every step stays on the thread's stack and returns to code, up to the C library
//!   that called `main`. If not, the exception tables are used, at a microsecond or more per call.
//!
//! A call from Fortran returns to the Fortran bindings. The program's own address is the return
//! address of the binding's frame. Its position on the stack is determined by the exception tables
//! once for each call site in the bindings, and is constant. (Stacks with Fortran frames are always
//! unwound by the tables.)
//!
//! Each log numbers its sites in order of their first calls.

use crate::inside::entry::Entry;
use crate::inside::modules::{self, Owner};
use crate::inside::process::{Quiet, Uncancelled};
use crate::trace::thread_log::ThreadLog;
use refrain_bytes::stable;
use refrain_format::record::Tag;
use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

/// The number of recorded frames; 0 for none, [`ONLY_RETURN`] for the return address.
static FRAMES: AtomicU8 = AtomicU8::new(0);

/// The maximum number of frames.
const MAX_FRAMES: usize = 64;

/// The value of [`FRAMES`] for the return address alone.
const ONLY_RETURN: u8 = 255;

/// Cells of the small table of recent sites.
const NEAR: usize = 64;

/// Reads `REFRAIN_CALLSITE`, when the library is loaded.
pub fn prepare() {
    // SAFETY: getenv returns null or a NUL-terminated string, read at once.
    let text = unsafe {
        let text = libc::getenv(c"REFRAIN_CALLSITE".as_ptr());
        if text.is_null() {
            return;
        }
        CStr::from_ptr(text).to_bytes()
    };
    let frames = match text.strip_prefix(b"stack:") {
        Some(number) => {
            let number = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok());
            number.map_or(0, |n: usize| n.min(MAX_FRAMES) as u8)
        }
        None if text == b"return" => ONLY_RETURN,
        None => 0,
    };
    FRAMES.store(frames, Ordering::Relaxed);
}

/// A site that was seen before.
struct Site {
    hash: usize,
    /// Its frames, as a range of [`Sites::addresses`].
    frames: Range<u32>,
    number: u32,
}

/// A call site in the Fortran bindings.
#[derive(Clone, Copy)]
struct Binding {
    caller: usize,
    /// The distance from the stack pointer to the program's return address.
    above: usize,
}

/// The call sites of a log.
pub struct Sites {
    /// As [`FRAMES`].
    frames: u8,
    /// By bits of its hash: a site's hash and number.
    near: [(usize, u32); NEAR],
    /// By hash.
    known: Vec<Site>,
    /// The frames of all sites.
    addresses: Vec<usize>,
    /// The number of sites.
    count: u32,
    bindings: Vec<Binding>,
    /// Addresses that are known to be the program's.
    program: Range<usize>,
}

impl Sites {
    /// The sites of a new log.
    pub fn new() -> Sites {
        Sites {
            frames: FRAMES.load(Ordering::Relaxed),
            near: [(0, 0); NEAR],
            known: Vec::new(),
            addresses: Vec::new(),
            count: 0,
            bindings: Vec::new(),
            program: 0..0,
        }
    }

    /// Whether call sites are recorded.
    #[inline(always)]
    pub fn are_recorded(&self) -> bool {
        self.frames != 0
    }

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "`cell` is less than the length")]
    fn near(&self, hash: usize) -> Option<u32> {
        let (known, number) = self.near[cell(hash)];
        (known == hash).then_some(number)
    }
}

#[inline(always)]
fn cell(hash: usize) -> usize {
    (hash ^ hash >> 6) % NEAR
}

impl ThreadLog {
    /// The number of a call's site, which is recorded if it is new. No record may be in progress.
    #[inline(always)]
    pub fn site(&mut self, entry: &Entry) -> u32 {
        let sites = &self.sites;
        match sites.near(entry.caller) {
            Some(number) if sites.frames == ONLY_RETURN => number,
            _ => self.find_site(entry),
        }
    }

    #[inline(never)]
    #[expect(clippy::indexing_slicing, reason = "`cell` is less than the length")]
    fn find_site(&mut self, entry: &Entry) -> u32 {
        let mut frames = [0; MAX_FRAMES];
        let frames = match self.sites.frames {
            ONLY_RETURN => {
                frames[0] = self.sites.program_return(entry);
                frames.get(..1)
            }
            n => {
                let room = frames.get_mut(..usize::from(n)).unwrap_or_default();
                let found = self.walk(entry, room).unwrap_or_else(|| unwind(entry, room));
                frames.get(..found.max(1))
            }
        };
        let frames = frames.unwrap_or_default();
        let hash = hash_of(frames);
        if self.sites.frames != ONLY_RETURN
            && let Some(number) = self.sites.near(hash)
        {
            return number;
        }
        let number = self.sites.number_of(hash, frames).unwrap_or_else(|index| {
            let number = self.sites.count;
            self.sites.count = number.wrapping_add(1);
            self.sites.add(index, hash, frames, number);
            let text = std::panic::catch_unwind(|| text_of(frames)).unwrap_or_default();
            self.write_record(Tag::Site, &[&number.to_le_bytes(), text.as_bytes()]);
            number
        });
        self.sites.near[cell(hash)] = (hash, number);
        number
    }

    /// Follows frame pointers; returns the number of frames, or `None` if they cannot be trusted.
    fn walk(&self, entry: &Entry, frames: &mut [usize]) -> Option<usize> {
        let module = modules::find(entry.caller)?;
        if module.owner != Owner::Program {
            return None;
        }
        let (first, rest) = frames.split_first_mut()?;
        *first = entry.caller;
        let stack = self.segments.stack();
        let (mut below, mut frame, mut module) = (entry.stack, entry.frame, module);
        for (i, slot) in rest.iter_mut().enumerate() {
            let is_frame = frame > below && frame % 8 == 0 && frame < stack.end.checked_sub(16)?;
            if !is_frame || !stack.contains(&below) {
                return module.is_c_library().then_some(i + 1);
            }
            // SAFETY: two words of this thread's stack, above the stack pointer.
            let [outer, address] = unsafe { *(frame as *const [usize; 2]) };
            if !module.contains(address) {
                module = modules::find(address)?;
            }
            *slot = address;
            (below, frame) = (frame, outer);
        }
        Some(frames.len())
    }
}

impl Sites {
    /// The return address of a call in the program, past the Fortran bindings.
    pub fn program_return(&mut self, entry: &Entry) -> usize {
        if self.program.contains(&entry.caller) {
            return entry.caller;
        }
        let known = self.bindings.iter().find(|b| b.caller == entry.caller);
        if let Some(binding) = known {
            // SAFETY: on the stack of this thread, above the call that is in progress: the return
            // address of the binding's frame.
            let address = unsafe { *((entry.stack + binding.above) as *const usize) };
            if self.program.contains(&address) || !is_in_bindings(address) {
                return address;
            }
        }
        // A handler that jumped away from here would leave the tables half changed.
        let _quiet = Quiet::keep();
        if !is_in_bindings(entry.caller) {
            if let Some(module) = modules::find(entry.caller) {
                self.program = module.low..module.high;
            }
            return entry.caller;
        }
        let mut found = None;
        unwind_with(entry, |address, stack| {
            found = (!is_in_bindings(address)).then_some((address, stack));
            found.is_some()
        });
        let Some((address, stack)) = found else { return entry.caller };
        if self.bindings.try_reserve(1).is_ok() {
            let above = stack.wrapping_sub(entry.stack);
            self.bindings.retain(|b| b.caller != entry.caller);
            self.bindings.push(Binding { caller: entry.caller, above });
        }
        address
    }

    /// The number of a site, or the index at which to insert it.
    fn number_of(&self, hash: usize, frames: &[usize]) -> Result<u32, usize> {
        let first = self.known.partition_point(|site| site.hash < hash);
        let same = self.known.iter().skip(first).take_while(|site| site.hash == hash);
        let is_it = |site: &&Site| {
            self.addresses.get(site.frames.start as usize..site.frames.end as usize) == Some(frames)
        };
        same.into_iter().find(is_it).map(|site| site.number).ok_or(first)
    }

    fn add(&mut self, index: usize, hash: usize, frames: &[usize], number: u32) {
        let has_room =
            self.known.try_reserve(1).is_ok() && self.addresses.try_reserve(frames.len()).is_ok();
        if has_room {
            let start = self.addresses.len() as u32;
            self.addresses.extend_from_slice(frames);
            let frames = start..self.addresses.len() as u32;
            self.known.insert(index, Site { hash, frames, number });
        }
    }
}

/// A hash of the frames. For a single address, the address itself.
fn hash_of(frames: &[usize]) -> usize {
    let mix =
        |hash: usize, &address: &usize| stable::mix::<0, 29>(hash as u64, address as u64) as usize;
    match frames {
        [address] => *address,
        frames => frames.iter().fold(frames.len(), mix),
    }
}

fn is_in_bindings(address: usize) -> bool {
    modules::find(address).is_some_and(|m| matches!(m.owner, Owner::Fortran | Owner::Mpi))
}

/// A line for each frame.
fn text_of(frames: &[usize]) -> String {
    let mut text = String::new();
    for (i, &address) in frames.iter().enumerate() {
        let separator = if i == 0 { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = match located(address) {
            Some(frame) => write!(text, "{separator}{frame}"),
            // Code from a just-in-time compiler.
            None => write!(text, "{separator}?+{address:x}"),
        };
    }
    text
}

/// A code address as it is recorded: `file@build-id+hex-offset`, or `file+hex-offset` if the module has no
/// build id. `None` if the address is in no module.
pub fn located(address: usize) -> Option<String> {
    let module = modules::find(address)?;
    let file = String::from_utf8_lossy(module.file());
    let offset = address.wrapping_sub(module.base);
    Some(match module.build_id {
        id if id.is_none() => format!("{file}+{offset:x}"),
        id => format!("{file}@{id}+{offset:x}"),
    })
}

/// Finds frames by the exception tables, without the innermost frames of the Fortran bindings.
#[cold]
fn unwind(entry: &Entry, frames: &mut [usize]) -> usize {
    let _uncancelled = Uncancelled::keep();
    let mut found = 0;
    unwind_with(entry, |address, _| {
        if found > 0 || !is_in_bindings(address) {
            if let Some(slot) = frames.get_mut(found) {
                *slot = address;
            }
            found += 1;
        }
        found >= frames.len()
    });
    if let (0, Some(first)) = (found, frames.first_mut()) {
        *first = entry.caller;
    }
    found
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// Results of the callback of `_Unwind_Backtrace`.
const GO_ON: c_int = 0;
const STOP: c_int = 4;

/// Calls `visit` with each return address, from the call on, and with its address on the stack,
/// until `visit` returns true.
pub fn unwind_with(entry: &Entry, visit: impl FnMut(usize, usize) -> bool) {
    struct Walk<F> {
        visit: F,
        /// Frames below this address are the agent's.
        from: usize,
    }
    unsafe extern "C" fn frame<F: FnMut(usize, usize) -> bool>(
        context: *mut c_void,
        walk: *mut c_void,
    ) -> c_int {
        // SAFETY: the unwinder's context, and the walk of `unwind_with`.
        unsafe {
            let walk = &mut *walk.cast::<Walk<F>>();
            let (address, stack) = (_Unwind_GetIP(context), _Unwind_GetCFA(context) - 8);
            let is_over = address == 0 || (stack >= walk.from && (walk.visit)(address, stack));
            if is_over { STOP } else { GO_ON }
        }
    }
    fn visitor<F: FnMut(usize, usize) -> bool>(
        _: &Walk<F>,
    ) -> unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int {
        frame::<F>
    }
    let mut walk = Walk { visit, from: entry.stack };
    let visit = visitor(&walk);
    // SAFETY: `visit` is made for this walk, which outlives the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
}
