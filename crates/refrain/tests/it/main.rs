//! The commands on real programs, under every MPI of this machine.

mod background;
mod bad_input;
mod capture;
mod command_line;
mod coverage;
mod dynamorio;
mod figures;
mod fortran;
mod lossless;
mod matrix;
mod memory;
mod memory_programs;
mod memory_recorded;
mod memory_windows;
mod mpi4py;
mod order_programs;
#[path = "../../../refrain-encode/tests/it/program/mod.rs"]
mod program;
#[path = "../../../refrain-trace/tests/bad_input/random.rs"]
mod random;
mod real_programs;
#[path = "../../../refrain-encode/tests/it/records/mod.rs"]
mod records;
mod replay;
mod replay_clock;
mod replay_programs;
mod replay_until;
#[path = "../../../refrain-trace/tests/bad_input/sample.rs"]
mod sample;
mod selection;
mod showing;
mod shown;
mod sites;
mod snapshots;
mod survival;
mod threads;
mod timing;
mod transparency;
mod waiting;
