//! The few Fortran functions that do not come by way of C.
