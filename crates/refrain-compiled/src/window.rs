//! Which part of a run is recorded: from the call of one function to the call of another, and not between
//! `MPI_Pcontrol(0)` and `MPI_Pcontrol(1)`.
//!
//! The user names the functions. Their addresses come from the program's symbol table, which the loader does
//! not map, so the program's file is read.

use core::ffi::{CStr, c_int};
use core::slice::from_raw_parts;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use crate::next::Next;
use crate::process;

/// A function that starts or ends recording: its first address and its end.
struct Function {
    first: AtomicUsize,
    end: AtomicUsize,
}

impl Function {
    const fn new() -> Self {
        Self { first: AtomicUsize::new(0), end: AtomicUsize::new(0) }
    }

    fn contains(&self, address: usize) -> bool {
        (self.first.load(Relaxed)..self.end.load(Relaxed)).contains(&address)
    }

    /// Looks up the function of that name; true if the user asked for one.
    fn find(&self, variable: &CStr, option: &CStr, base: usize) -> bool {
        // SAFETY: getenv with a valid name; the value is a NUL-terminated string.
        let name = unsafe {
            let value = libc::getenv(variable.as_ptr());
            if value.is_null() {
                return false;
            }
            CStr::from_ptr(value)
        };
        match symbol(name.to_bytes()) {
            Some((first, size)) => {
                self.first.store(base + first, Relaxed);
                self.end.store(base + first + size.max(1), Relaxed);
                // SAFETY: a function of the program, whose code is mapped readable.
                let code = unsafe { from_raw_parts((base + first) as *const u8, size) };
                if !calls(code) {
                    process::say(b"refrain: ");
                    process::say(name.to_bytes());
                    process::say(NOT_INSTRUMENTED);
                }
            }
            None => {
                process::say(b"refrain: ");
                process::say(option.to_bytes());
                process::say(b": the program has no function ");
                process::say(name.to_bytes());
                process::say(b"\n");
            }
        }
        true
    }
}

const NOT_INSTRUMENTED: &[u8] =
    b" accesses no memory and calls nothing, so the compiler has not instrumented it, and \
    recording cannot start or end there: name another function, or use --frontend dynamorio\n";

/// Whether a function calls anything. Compilers instrument functions that access memory or call others, and
/// instrumented functions call the runtime. Other bytes may look like a call; then no message is printed.
fn calls(code: &[u8]) -> bool {
    const CALL: u8 = 0xe8;
    const CALL_THROUGH_GOT: [u8; 2] = [0xff, 0x15];
    code.contains(&CALL) || code.windows(2).any(|pair| pair == CALL_THROUGH_GOT)
}

static FROM: Function = Function::new();
static UNTIL: Function = Function::new();
/// Whether entered functions are compared with [`FROM`] and [`UNTIL`].
static WATCHES: AtomicBool = AtomicBool::new(false);

/// Reads the user's options; returns whether recording starts at once.
pub fn prepare(base: usize) -> bool {
    let begins_later = FROM.find(c"REFRAIN_MEM_FROM", c"--from", base);
    let ends_early = UNTIL.find(c"REFRAIN_MEM_UNTIL", c"--until", base);
    WATCHES.store(begins_later || ends_early, Relaxed);
    !begins_later
}

/// A function is entered.
#[inline(always)]
pub fn entered(address: u64) {
    if WATCHES.load(Relaxed) {
        watched(address as usize);
    }
}

#[cold]
fn watched(address: usize) {
    if FROM.contains(address) {
        process::set_recording(true);
    } else if UNTIL.contains(address) {
        process::set_recording(false);
    }
}

static PCONTROL: Next<extern "C" fn(c_int) -> c_int> = Next::new(c"MPI_Pcontrol");

/// As in MPI: level 0 switches recording off, every other level on.
#[unsafe(no_mangle)]
pub extern "C" fn MPI_Pcontrol(level: c_int) -> c_int {
    process::set_recording(level != 0);
    PCONTROL.get().map_or(0, |next| next(level))
}

/// A function of the program: its address in the file, and its size.
fn symbol(name: &[u8]) -> Option<(usize, usize)> {
    const SYMBOLS: u32 = 2;
    const FUNCTION: u8 = 2;
    let file = whole_file(c"/proc/self/exe")?;
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let mut word = [0; 8];
        let found = file.get(at..at.checked_add(bytes)?)?;
        word.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
        Some(u64::from_le_bytes(word) as usize)
    };
    let (table, size, count) = (number(40, 8)?, number(58, 2)?, number(60, 2)?);
    let section = |at: usize| table + at * size;
    for at in 0..count {
        if number(section(at) + 4, 4)? != SYMBOLS as usize {
            continue;
        }
        let (first, bytes) = (number(section(at) + 24, 8)?, number(section(at) + 32, 8)?);
        let texts = number(section(number(section(at) + 40, 4)?) + 24, 8)?;
        for symbol in (first..first + bytes).step_by(24) {
            let text = file.get(texts + number(symbol, 4)?..)?;
            let is_function = file.get(symbol + 4)? & 15 == FUNCTION;
            if is_function
                && text.get(..name.len()) == Some(name)
                && text.get(name.len()) == Some(&0)
            {
                return Some((number(symbol + 8, 8)?, number(symbol + 16, 8)?));
            }
        }
    }
    None
}

fn whole_file(path: &CStr) -> Option<&'static [u8]> {
    // SAFETY: a private mapping of a file, never unmapped.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = libc::lseek(file, 0, libc::SEEK_END);
        let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let at = libc::syscall(libc::SYS_mmap, 0usize, length, read, private, file, 0usize);
        libc::close(file);
        let is_mapped = length > 0 && at != -1;
        is_mapped.then(|| from_raw_parts(at as *const u8, length as usize))
    }
}
