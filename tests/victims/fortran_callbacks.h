! Callbacks; a part of fortran_calls.h.

    ! Nearly all of them call MPI. (Those for attributes make no use of the object that
    ! they are given: Open MPI 4.1 gives them a wrong one.)

    subroutine add(a, b, length, datatype)
#ifdef MPI_F08
        type(c_ptr), value :: a, b
        integer, pointer :: from(:), to(:)
#else
        integer :: a(*), b(*)
#endif
        integer :: length, bytes
        HANDLE(MPI_Datatype) :: datatype
        call mpi_type_size(datatype, bytes, ierr)
        call called('MPI_Type_size(datatype=MPI_INTEGER, size=4)')
#ifdef MPI_F08
        call c_f_pointer(a, from, [length])
        call c_f_pointer(b, to, [length])
        to = from + to
#else
        b(1:length) = a(1:length) + b(1:length)
#endif
    end subroutine

    subroutine copy_comm(comm, keyval, extra_state, value_in, value_out, flag, ierror)
        HANDLE(MPI_Comm) :: comm
        integer :: keyval, ierror
        integer(kind=aint) :: extra_state, value_in, value_out
        logical :: flag
        call say_version
        value_out = value_in + extra_state
        flag = .true.
        ierror = MPI_SUCCESS
    end subroutine

    subroutine delete_comm(comm, keyval, value, extra_state, ierror)
        HANDLE(MPI_Comm) :: comm
        integer :: keyval, ierror
        integer(kind=aint) :: value, extra_state
        call say_version
        ierror = MPI_SUCCESS
    end subroutine

    subroutine copy_type(datatype, keyval, extra_state, value_in, value_out, flag, ierror)
        HANDLE(MPI_Datatype) :: datatype
        integer :: keyval, ierror
        integer(kind=aint) :: extra_state, value_in, value_out
        logical :: flag
        call say_version
        value_out = value_in + extra_state
        flag = .true.
        ierror = MPI_SUCCESS
    end subroutine

    subroutine delete_type(datatype, keyval, value, extra_state, ierror)
        HANDLE(MPI_Datatype) :: datatype
        integer :: keyval, ierror
        integer(kind=aint) :: value, extra_state
        call say_version
        ierror = MPI_SUCCESS
    end subroutine

    subroutine copy_win(win, keyval, extra_state, value_in, value_out, flag, ierror)
        HANDLE(MPI_Win) :: win
        integer :: keyval, ierror
        integer(kind=aint) :: extra_state, value_in, value_out
        logical :: flag
        flag = .false.
        ierror = MPI_SUCCESS
    end subroutine

    subroutine delete_win(win, keyval, value, extra_state, ierror)
        HANDLE(MPI_Win) :: win
        integer :: keyval, ierror
        integer(kind=aint) :: value, extra_state
        call say_version
        ierror = MPI_SUCCESS
    end subroutine

    subroutine on_comm_error(comm, code)
        HANDLE(MPI_Comm) :: comm
        integer :: code, class
        call mpi_error_class(code, class, ierr)
        call called('MPI_Error_class(errorclass=MPI_ERR_RANK)')
    end subroutine

    subroutine on_win_error(win, code)
        HANDLE(MPI_Win) :: win
        integer :: code
        call say_version
    end subroutine

    subroutine on_file_error(file, code)
        HANDLE(MPI_File) :: file
        integer :: code
        call say_version
    end subroutine

    subroutine query(extra_state, status, ierror)
        integer(kind=aint) :: extra_state
        STATUS_TYPE :: status
        integer :: ierror
        call mpi_status_set_elements(status, MPI_INTEGER, 5, ierr)
        call called('MPI_Status_set_elements(datatype=MPI_INTEGER, count=5)')
        call mpi_status_set_cancelled(status, .false., ierr)
        call called('MPI_Status_set_cancelled(flag=false)')
        SOURCE_OF(status) = 3
        TAG_OF(status) = int(extra_state)
        ierror = MPI_SUCCESS
    end subroutine

    subroutine free(extra_state, ierror)
        integer(kind=aint) :: extra_state
        integer :: ierror
        call say_version
        ierror = MPI_SUCCESS
    end subroutine

    subroutine cancel(extra_state, complete, ierror)
        integer(kind=aint) :: extra_state
        logical :: complete
        integer :: ierror
        ierror = MPI_SUCCESS
    end subroutine
