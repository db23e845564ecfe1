! What only mpi_f08 has; a part of fortran_calls.h.

    ! What only mpi_f08 has: error codes may be left out, and array sections need no copy.
    subroutine only_in_f08
        integer :: field(4, 4), keyval, bytes, i
        integer(kind=aint) :: got
        logical :: flag
        type(MPI_Comm) :: comm
        type(MPI_Info) :: info
        character(len=8) :: value

        call mpi_barrier(MPI_COMM_WORLD)
        call called_plain('MPI_Barrier(comm=MPI_COMM_WORLD) = SUCCESS')
        call mpi_comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, keyval, 1_aint)
        call called_plain('MPI_Comm_create_keyval(comm_keyval=' // number(keyval) // ') = SUCCESS')
        call mpi_comm_set_attr(MPI_COMM_SELF, keyval, 12_aint)
        call called_plain('MPI_Comm_set_attr(attribute_val=0xc) = SUCCESS')
        call mpi_comm_get_attr(MPI_COMM_SELF, keyval, got, flag)
        call called_plain('MPI_Comm_get_attr(attribute_val=' // address(got) // &
            ', flag=true) = SUCCESS')
        call mpi_comm_delete_attr(MPI_COMM_SELF, keyval)
        call called_plain('MPI_Comm_delete_attr(comm=MPI_COMM_SELF) = SUCCESS')
        call mpi_comm_free_keyval(keyval)
        call called_plain('MPI_Comm_free_keyval() = SUCCESS')
        call mpi_info_create(info)
        call called_plain('MPI_Info_create(info=info1) = SUCCESS')
        call mpi_info_set(info, 'k ', ' v')
        call called_plain('MPI_Info_set(key="k", value="v") = SUCCESS')
        call mpi_info_get(info, ' k', 8, value, flag)
        call called_plain('MPI_Info_get(key="k", value="v", flag=true) = SUCCESS')
        call mpi_info_free(info)
        call called_plain('MPI_Info_free(info=info1) = SUCCESS')

        call mpi_comm_dup(MPI_COMM_WORLD, comm)
        call called_plain('MPI_Comm_dup(newcomm=comm1) = SUCCESS')
        call mpi_comm_set_errhandler(comm, MPI_ERRORS_RETURN)
        call called_plain('MPI_Comm_set_errhandler(comm=comm1) = SUCCESS')
        call mpi_send(field, 1, MPI_INTEGER, 99, 1, comm)
        call called_plain('MPI_Send(dest=99) = ERR_RANK')
        call mpi_comm_get_attr(comm, MPI_KEYVAL_INVALID, got, flag)
        call called_plain('MPI_Comm_get_attr(comm=comm1, comm_keyval=MPI_KEYVAL_INVALID) = _')
        call mpi_comm_free(comm)
        call called_plain('MPI_Comm_free(comm=comm1) = SUCCESS')

        field = rank
        do i = 1, 2
            if (rank == 0) then
                call mpi_send(field(2, :), 4, MPI_INTEGER, 1, 1, MPI_COMM_WORLD)
                call called_plain('MPI_Send(dest=1, tag=1) = SUCCESS')
            else
                call mpi_recv(field(3, :), 4, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE)
                call called_plain('MPI_Recv(source=0, tag=1) = SUCCESS')
            end if
            call mpi_bcast(field(:, ::2), 8, MPI_INTEGER, 0, MPI_COMM_WORLD)
            call called_plain('MPI_Bcast(root=0) = SUCCESS')
        end do
        if (rank == 1 .and. any(field(3, :) /= 0)) error stop 'the message was lost'
        call mpi_type_size(MPI_INTEGER, bytes)
        call called_plain('MPI_Type_size(datatype=MPI_INTEGER, size=4) = SUCCESS')
    end subroutine
