! The calls of fortran_mpif, fortran_mpi and fortran_f08, which define what differs between the
! three: how MPI is made known, and what the types of handles, statuses and pointers are.
!
! Two ranks. Every call is stated right after it was made (fortran_expect.h), so that a test can
! compare what was called with what was written down.

module victim
    use, intrinsic :: iso_c_binding
    USE_MPI
    implicit none
    INCLUDE_MPI

    integer, parameter :: untouched = -77777, aint = MPI_ADDRESS_KIND
    integer :: ierr = untouched, calls = 0, depth = 0, depths(2000)
    character(len=700) :: texts(2000)
    integer :: rank, peer

contains

#include "fortran_expect.h"

#include "fortran_callbacks.h"
#include "fortran_messages.h"
#include "fortran_attributes.h"
#include "fortran_objects.h"
#include "fortran_storage.h"
#ifdef MPI_F08
#include "fortran_only_f08.h"
#endif

    ! A call that may be made anywhere.
    subroutine say_version
        integer :: version, subversion
        call mpi_get_version(version, subversion, ierr)
        call called('MPI_Get_version(version=' // number(version) // ', subversion=' // &
                    number(subversion) // ')')
    end subroutine

    subroutine barrier
        call mpi_barrier(MPI_COMM_WORLD, ierr)
        call called('MPI_Barrier(comm=MPI_COMM_WORLD)')
    end subroutine

end module

program main
    use victim
    implicit none
    integer :: provided, size, length
    logical :: flag
    character(len=MPI_MAX_PROCESSOR_NAME) :: name

    call mpi_initialized(flag, ierr)
    call called('MPI_Initialized(flag=false)')
#ifdef MPI_F08
    call mpi_init_thread(MPI_THREAD_FUNNELED, provided, ierr)
    call called('MPI_Init_thread(required=MPI_THREAD_FUNNELED)')
#else
    call mpi_init(ierr)
    call called('MPI_Init()')
#endif
    call mpi_comm_rank(MPI_COMM_WORLD, rank, ierr)
    call called('MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=' // number(rank) // ')')
    call mpi_comm_size(MPI_COMM_WORLD, size, ierr)
    call called('MPI_Comm_size(comm=MPI_COMM_WORLD, size=' // number(size) // ')')
    peer = 1 - rank
    call pmpi_comm_rank(MPI_COMM_WORLD, provided, ierr)
    call called('MPI_Comm_rank(comm=MPI_COMM_WORLD, rank=' // number(rank) // ')')
    call mpi_query_thread(provided, ierr)
    call called('MPI_Query_thread()')
    call mpi_is_thread_main(flag, ierr)
    call called('MPI_Is_thread_main(flag=true)')
    call mpi_get_processor_name(name, length, ierr)
    call called('MPI_Get_processor_name(name=' // quoted(name) // ', resultlen=' // &
        number(length) // ')')
    call say_version
    call mpi_pcontrol(1)
    call called_plain('MPI_Pcontrol(level=1) = SUCCESS')
    if (mpi_wtime() < 0) error stop 'time runs backwards'

    call messages
    call collectives
    call attributes
    call errors
    call communicators
    call datatypes
    call windows
    call files
    call infos
#ifdef MPI_F08
    call only_in_f08
#endif

    call mpi_finalize(ierr)
    call called('MPI_Finalize()')
    call mpi_finalized(flag, ierr)
    call called('MPI_Finalized(flag=true)')
    call expect_print(rank)
end program
