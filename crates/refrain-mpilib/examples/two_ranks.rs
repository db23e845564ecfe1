//! Opens an MPI library and exchanges numbers between ranks:
//!
//! ```text
//! mpirun -n 2 two_ranks /usr/lib/x86_64-linux-gnu/libmpi.so.40
//! ```
//!
//! The program is not linked to any MPI, and compiled without `mpi.h`. It prints a line per rank.

use refrain_mpilib::{Comm, Library, Status, Value};
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("two_ranks: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: two_ranks LIBMPI")?;
    // SAFETY: the user says that it is an MPI library; this program has no other.
    let mpi = unsafe { Library::open(path)? };
    let handle = |name: &str| mpi.predefined(name).ok_or(format!("this MPI has no {name}"));
    let (world, int, double) =
        (handle("MPI_COMM_WORLD")?, handle("MPI_INT")?, handle("MPI_DOUBLE")?);
    let mut line = format!("family={}", mpi.abi().family.name());

    // SAFETY: each function gets arguments of its own form, in the order that MPI demands.
    unsafe {
        mpi.call("MPI_Init", &mut [0, 0])?;
        let mut words = [world, 0];
        mpi.call("MPI_Comm_rank", &mut words)?;
        let rank = words[1] as i32;
        mpi.call("MPI_Comm_size", &mut words)?;
        let size = words[1] as i32;
        line += &format!(" rank={rank} size={size}");

        // The sum of rank + 1 over all ranks.
        let (mine, mut total) = (rank + 1, 0i32);
        let (from, to) = (&raw const mine as usize, &raw mut total as usize);
        mpi.call("MPI_Allreduce", &mut [from, to, 1, int, handle("MPI_SUM")?, world])?;
        line += &format!(" sum={total}");

        // Two doubles around the ring, from any rank, with any tag.
        let (next, tag) = ((rank + 1) % size, 40 + rank);
        let (sent, mut received) = ([f64::from(rank), 0.5], [0f64; 3]);
        let mut status = Status::new();
        let (from, to) = (sent.as_ptr() as usize, received.as_mut_ptr() as usize);
        let (any_source, any_tag) = (mpi.abi().any_source as usize, mpi.abi().any_tag as usize);
        let at = status.address() as usize;
        mpi.call(
            "MPI_Sendrecv",
            &mut [
                from,
                2,
                double,
                next as usize,
                tag as usize,
                to,
                3,
                double,
                any_source,
                any_tag,
                world,
                at,
            ],
        )?;
        let fields = status.fields(&mpi.status_layout()).ok_or("a status")?;
        line += &format!(" received={:?} source={} tag={}", received, fields.source, fields.tag);
        line += &format!(" bytes={:?} cancelled={}", fields.count_bytes, fields.cancelled);
        let mut words = [at, double, 0];
        mpi.call("MPI_Get_count", &mut words)?;
        line += &format!(" count={}", words[2] as i32);

        // A request and a communicator of our own: handles as outputs.
        let mut words = [world, 0];
        mpi.call("MPI_Comm_dup", &mut words)?;
        let comm = words[1];
        let barrier = &mut [comm, 0];
        mpi.call("MPI_Ibarrier", barrier)?;
        let request = &mut [barrier[1], mpi.abi().status_ignore];
        mpi.call("MPI_Wait", request)?;
        line += &format!(" completed={}", request[0] == mpi.abi().request_null);
        let freed = &mut [comm];
        mpi.call("MPI_Comm_free", freed)?;
        line += &format!(" freed={}", freed[0] == mpi.abi().comm_null);

        // Bytes over a communicator that only this library knows.
        let private = Comm::of_world(&mpi).ok_or("a private communicator")?;
        let text = match rank {
            0 => private.send(1, b"hello").map(|()| "sent".to_owned()),
            1 => private.receive(0).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            _ => Some(String::new()),
        };
        let offset = private.offset(10).ok_or("an offset")?;
        line += &format!(" private={text:?} offset={offset} all={:?}", private.all(rank == 0));
        private.free().ok_or("a private communicator")?;

        let tick = mpi.function("MPI_Wtick")?.value(&mut [])?;
        line += &format!(" tick={}", matches!(tick, Value::Double(t) if t > 0.0 && t < 1.0));
        mpi.call("MPI_Finalize", &mut [])?;
    }
    // In one write: ranks share their output.
    std::io::stdout().write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}
