//! exec: the process becomes another program.
//!
//! To the compressor, the process seems to end without notice, as if it were killed. So the runtime announces
//! an exec: [`Control::replaced`](refrain_rings::layout::Control::replaced) is set while exec is called. The
//! C library's functions of this family call each other by internal names, so each has a wrapper here.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::next::Next;
use crate::process;

/// Stores whether this process is calling exec. A `vfork` child runs in its parent's memory but is another
/// process, so nothing is stored for it.
fn set_replaced(is_calling: bool) {
    // SAFETY: no arguments. The system call is used because a C library may remember the parent's number.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) } as u32;
    if let Some(ledger) = process::ledger()
        && ledger.control().pid.load(Relaxed) == pid
    {
        ledger.control().replaced.store(is_calling.into(), SeqCst);
    }
}

/// Fails like the kernel when it lacks a function.
fn missing() -> c_int {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    -1
}

type Words = *const *const c_char;

macro_rules! wrapped {
    ($($name:ident $next:ident $text:literal ($($argument:ident: $kind:ty),*))*) => {
        $(
            static $next: Next<unsafe extern "C" fn($($kind),*) -> c_int> = Next::new($text);
            /// As in the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                let Some(next) = $next.get() else { return missing() };
                set_replaced(true);
                // SAFETY: the caller's promise.
                let result = unsafe { next($($argument),*) };
                set_replaced(false);
                result
            }
        )*
    };
}

wrapped! {
    execve EXECVE c"execve" (path: *const c_char, words: Words, environment: Words)
    execv EXECV c"execv" (path: *const c_char, words: Words)
    execvp EXECVP c"execvp" (file: *const c_char, words: Words)
    execvpe EXECVPE c"execvpe" (file: *const c_char, words: Words, environment: Words)
    fexecve FEXECVE c"fexecve" (file: c_int, words: Words, environment: Words)
    execveat EXECVEAT c"execveat"
        (folder: c_int, path: *const c_char, words: Words, environment: Words, flags: c_int)
}

/// Functions with a variable number of arguments. The arguments are passed on as they are, so a failed call
/// is not noticed: a program that is killed after it counts as replaced.
macro_rules! wrapped_variadic {
    ($($name:ident $next:ident $text:literal)*) => {
        $(
            static $next: Next<*const c_void> = Next::new($text);
            /// As in the C library.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                extern "C" fn begin() -> *const c_void {
                    set_replaced(true);
                    $next.get().unwrap_or(failing as extern "C" fn() -> c_int as *const c_void)
                }
                // Seven pushes and the return address keep the stack aligned.
                core::arch::naked_asm!(
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    "call {begin}",
                    "mov r11, rax",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    "jmp r11",
                    begin = sym begin,
                )
            }
        )*
    };
}

extern "C" fn failing() -> c_int {
    missing()
}

wrapped_variadic! {
    execl EXECL c"execl"
    execlp EXECLP c"execlp"
    execle EXECLE c"execle"
}
