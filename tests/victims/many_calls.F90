! Calls from many call sites of one program. The Fortran library implements some of them itself and forwards
! others to C: 24 in all.
program many_calls
  use mpi
  implicit none
  integer :: ierr, rank, size, i, comm, newtype
  integer :: buffer(8)
  integer(kind=MPI_ADDRESS_KIND) :: address
  character(len=MPI_MAX_OBJECT_NAME) :: name
  logical :: flag
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierr)
  buffer = rank
  do i = 1, 5
     call MPI_Bcast(buffer, 8, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
     call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
  call MPI_Comm_set_name(comm, 'a name', ierr)
  call MPI_Comm_get_name(comm, name, i, ierr)
  call MPI_Type_contiguous(3, MPI_INTEGER, newtype, ierr)
  call MPI_Type_commit(newtype, ierr)
  call MPI_Type_free(newtype, ierr)
  call MPI_Comm_get_attr(comm, MPI_TAG_UB, address, flag, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, buffer, 8, MPI_INTEGER, MPI_SUM, comm, ierr)
  call MPI_Comm_free(comm, ierr)
  call MPI_Pcontrol(1)
  call MPI_Finalize(ierr)
  print '(a)', '> done'
end program
