//! `MPI_Pcontrol(level, ...)`: the only MPI function with a variable number of arguments.
//!
//! The agent does not know the arguments after the level. So it saves all argument registers while
//! it records the call, and forwards by a jump, with the caller's stack arguments in place. The
//! record has the level; the call counts as returned at once, with success. [`filter`] explains the
//! level.

use crate::inside::entry::Entry;
use crate::inside::next;
use crate::table;
use crate::trace::filter;
use std::ffi::c_int;

/// Records the call; returns the function to jump to.
unsafe extern "C" fn record(level: c_int, caller: usize, slot: usize, stack: usize) -> *const () {
    let entry = Entry::of(caller, slot, stack);
    let call = entry.begin();
    // Only the program's own calls switch recording.
    let is_programs = call.is_some() || filter::is_excluded(table::MPI_Pcontrol);
    if let Some(mut call) = call {
        call.resume(call.cursor().int(level));
        call.enter();
        call.leave(0);
        call.done();
    }
    if is_programs && level >= 0 {
        filter::switch(level > 0);
    }
    next::function(slot)
}

macro_rules! export_pcontrol {
    ($name:ident, $slot:expr) => {
        /// # Safety
        /// As for the MPI function of that name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                // With unwind information: see `sites`.
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                // rdi rsi rdx rcx r8 r9 rax, then xmm0-7: all registers that can carry arguments.
                "sub rsp, 192",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov [rsp + 48], rax",
                "movups [rsp + 64], xmm0",
                "movups [rsp + 80], xmm1",
                "movups [rsp + 96], xmm2",
                "movups [rsp + 112], xmm3",
                "movups [rsp + 128], xmm4",
                "movups [rsp + 144], xmm5",
                "movups [rsp + 160], xmm6",
                "movups [rsp + 176], xmm7",
                "mov rsi, [rbp + 8]",
                "mov edx, {slot}",
                "lea rcx, [rbp + 8]",
                "call {record}",
                "mov r11, rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "mov r9, [rsp + 40]",
                "mov rax, [rsp + 48]",
                "movups xmm0, [rsp + 64]",
                "movups xmm1, [rsp + 80]",
                "movups xmm2, [rsp + 96]",
                "movups xmm3, [rsp + 112]",
                "movups xmm4, [rsp + 128]",
                "movups xmm5, [rsp + 144]",
                "movups xmm6, [rsp + 160]",
                "movups xmm7, [rsp + 176]",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "jmp r11",
                ".cfi_endproc",
                slot = const $slot,
                record = sym record,
            )
        }
    };
}

export_pcontrol!(MPI_Pcontrol, table::MPI_Pcontrol * 2);
export_pcontrol!(PMPI_Pcontrol, table::MPI_Pcontrol * 2 + 1);
