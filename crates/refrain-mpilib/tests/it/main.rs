//! Every MPI of this machine, opened at run time.

mod opened;
