//! Where in the program a call was made.
//!
//! `REFRAIN_CALLSITE` says what is kept of it:
//!
//! * `none`, the default: nothing
//! * `return`: the address that the call returns to, which costs next to nothing
//! * `stack:N`: up to N return addresses, innermost first. Frame pointers lead from one to the
//!   next where the program was compiled with them (`-fno-omit-frame-pointer`): a few
//!   nanoseconds each. They are believed if every step stays on the thread's stack and returns
//!   to code, up to the C library that called `main`. If not, the tables for exceptions are
//!   used, at a microsecond or more a call.
//!
//! Calls of Fortran return to the library of its bindings. The program's own address is where
//! that library returns to; where it stands on the stack is found out once for each place in
//! the library, by the tables, and is the same ever after. (Stacks of Fortran are always walked
//! by the tables.)
//!
//! Sites are numbered by each log for itself, in order of their first calls.

use crate::inside::entry::Entry;
use crate::inside::modules::{self, Owner};
use crate::inside::process::{Quiet, Uncancelled};
use crate::trace::stream::Stream;
use refrain_bytes::stable;
use refrain_format::record::Tag;
use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

/// How many frames are kept: none, the return address, or so many of the stack.
static FRAMES: AtomicU8 = AtomicU8::new(0);

/// The most frames of a stack.
const MOST: usize = 64;

/// Stands for the return address alone.
const ONLY_RETURN: u8 = 255;

/// Cells of the small table in front.
const NEAR: usize = 64;

/// Reads what the user wants, when the library is loaded.
pub fn prepare() {
    // SAFETY: getenv gives null or a NUL-terminated string, read at once.
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
            number.map_or(0, |n: usize| n.min(MOST) as u8)
        }
        None if text == b"return" => ONLY_RETURN,
        None => 0,
    };
    FRAMES.store(frames, Ordering::Relaxed);
}

/// A site that was seen before.
struct Site {
    hash: usize,
    /// Its frames, in the list of all.
    frames: Range<u32>,
    number: u32,
}

/// A place in the library of Fortran's bindings.
#[derive(Clone, Copy)]
struct Binding {
    caller: usize,
    /// How far above the stack pointer the program's address stands.
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
    /// The frames of all.
    addresses: Vec<usize>,
    /// How many there are.
    count: u32,
    bindings: Vec<Binding>,
    /// Return addresses that are known to be the program's.
    program: Range<usize>,
}

impl Sites {
    /// Those of a new log.
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

    /// Whether calls have sites.
    #[inline(always)]
    pub fn are_kept(&self) -> bool {
        self.frames != 0
    }

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "`cell` gives less than the length")]
    fn near(&self, hash: usize) -> Option<u32> {
        let (known, number) = self.near[cell(hash)];
        (known == hash).then_some(number)
    }
}

#[inline(always)]
fn cell(hash: usize) -> usize {
    (hash ^ hash >> 6) % NEAR
}

impl Stream {
    /// The number of a call's site; written down if it is new. No record may be begun.
    #[inline(always)]
    pub fn site(&mut self, entry: &Entry) -> u32 {
        let sites = &self.sites;
        match sites.near(entry.caller) {
            Some(number) if sites.frames == ONLY_RETURN => number,
            _ => self.find_site(entry),
        }
    }

    #[inline(never)]
    #[expect(clippy::indexing_slicing, reason = "`cell` gives less than the length")]
    fn find_site(&mut self, entry: &Entry) -> u32 {
        let mut frames = [0; MOST];
        let frames = match self.sites.frames {
            ONLY_RETURN => {
                frames[0] = self.sites.own_return(entry);
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
        let number = self.sites.number_of(hash, frames).unwrap_or_else(|place| {
            let number = self.sites.count;
            self.sites.count = number.wrapping_add(1);
            self.sites.add(place, hash, frames, number);
            let text = std::panic::catch_unwind(|| text_of(frames)).unwrap_or_default();
            self.write_record(Tag::Site, &[&number.to_le_bytes(), text.as_bytes()]);
            number
        });
        self.sites.near[cell(hash)] = (hash, number);
        number
    }

    /// Follows frame pointers; gives the number of frames, or nothing if they cannot be trusted.
    fn walk(&self, entry: &Entry, frames: &mut [usize]) -> Option<usize> {
        let module = modules::find(entry.caller)?;
        if module.owner != Owner::Program {
            return None;
        }
        let (first, rest) = frames.split_first_mut()?;
        *first = entry.caller;
        let stack = self.segments.stack();
        let (mut below, mut frame, mut module) = (entry.stack, entry.frame, module);
        for (i, place) in rest.iter_mut().enumerate() {
            let is_frame = frame > below && frame % 8 == 0 && frame < stack.end.checked_sub(16)?;
            if !is_frame || !stack.contains(&below) {
                return module.is_c_library().then_some(i + 1);
            }
            // SAFETY: two words of this thread's stack, above the stack pointer.
            let [outer, address] = unsafe { *(frame as *const [usize; 2]) };
            if !module.contains(address) {
                module = modules::find(address)?;
            }
            *place = address;
            (below, frame) = (frame, outer);
        }
        Some(frames.len())
    }
}

impl Sites {
    /// Where a call returns to in the program: past the bindings of Fortran.
    pub fn own_return(&mut self, entry: &Entry) -> usize {
        if self.program.contains(&entry.caller) {
            return entry.caller;
        }
        let known = self.bindings.iter().find(|b| b.caller == entry.caller);
        if let Some(binding) = known {
            // SAFETY: on the stack of this thread, above the call that is in progress: where
            // the frame of the bindings holds its return address.
            let address = unsafe { *((entry.stack + binding.above) as *const usize) };
            if self.program.contains(&address) || !is_in_bindings(address) {
                return address;
            }
        }
        // A handler that jumps away from here would leave the tables half changed.
        let _quiet = Quiet::keep();
        if !is_in_bindings(entry.caller) {
            if let Some(module) = modules::find(entry.caller) {
                self.program = module.low..module.high;
            }
            return entry.caller;
        }
        let mut found = None;
        unwind_with(entry, |address, place| {
            found = (!is_in_bindings(address)).then_some((address, place));
            found.is_some()
        });
        let Some((address, place)) = found else { return entry.caller };
        if self.bindings.try_reserve(1).is_ok() {
            let above = place.wrapping_sub(entry.stack);
            self.bindings.retain(|b| b.caller != entry.caller);
            self.bindings.push(Binding { caller: entry.caller, above });
        }
        address
    }

    /// The number of a site, or where it belongs.
    fn number_of(&self, hash: usize, frames: &[usize]) -> Result<u32, usize> {
        let first = self.known.partition_point(|site| site.hash < hash);
        let same = self.known.iter().skip(first).take_while(|site| site.hash == hash);
        let is_it = |site: &&Site| {
            self.addresses.get(site.frames.start as usize..site.frames.end as usize) == Some(frames)
        };
        same.into_iter().find(is_it).map(|site| site.number).ok_or(first)
    }

    fn add(&mut self, place: usize, hash: usize, frames: &[usize], number: u32) {
        let has_room =
            self.known.try_reserve(1).is_ok() && self.addresses.try_reserve(frames.len()).is_ok();
        if has_room {
            let start = self.addresses.len() as u32;
            self.addresses.extend_from_slice(frames);
            let frames = start..self.addresses.len() as u32;
            self.known.insert(place, Site { hash, frames, number });
        }
    }
}

/// Of a single address, the address.
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

/// A line for each frame: its module, with its build id, and the offset in it.
fn text_of(frames: &[usize]) -> String {
    let mut text = String::new();
    for (i, &address) in frames.iter().enumerate() {
        let separator = if i == 0 { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = match modules::find(address) {
            Some(module) => {
                let file = String::from_utf8_lossy(module.file());
                let offset = address.wrapping_sub(module.base);
                match module.build_id {
                    id if id.is_none() => write!(text, "{separator}{file}+{offset:x}"),
                    id => write!(text, "{separator}{file}@{id}+{offset:x}"),
                }
            }
            // A just-in-time compiler made it at run time.
            None => write!(text, "{separator}?+{address:x}"),
        };
    }
    text
}

/// Frames by the tables for exceptions, without those of Fortran's bindings in front.
#[cold]
fn unwind(entry: &Entry, frames: &mut [usize]) -> usize {
    let _uncancelled = Uncancelled::keep();
    let mut found = 0;
    unwind_with(entry, |address, _| {
        if found > 0 || !is_in_bindings(address) {
            if let Some(place) = frames.get_mut(found) {
                *place = address;
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

/// What the unwinder is told.
const GO_ON: c_int = 0;
const STOP: c_int = 4;

/// Calls `visit` with each return address from the call on, and where it stands on the stack,
/// until it has seen enough.
pub fn unwind_with(entry: &Entry, visit: impl FnMut(usize, usize) -> bool) {
    struct Walk<F> {
        visit: F,
        /// Frames below this are our own.
        from: usize,
    }
    unsafe extern "C" fn frame<F: FnMut(usize, usize) -> bool>(
        context: *mut c_void,
        walk: *mut c_void,
    ) -> c_int {
        // SAFETY: the unwinder's context, and the walk of `unwind_with`.
        unsafe {
            let walk = &mut *walk.cast::<Walk<F>>();
            let (address, place) = (_Unwind_GetIP(context), _Unwind_GetCFA(context) - 8);
            let is_over = address == 0 || (place >= walk.from && (walk.visit)(address, place));
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
