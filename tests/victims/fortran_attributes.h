! Attributes and errors; a part of fortran_calls.h.

    subroutine attributes
        integer :: keyval, other, at
        integer(kind=aint) :: got
        logical :: flag
        HANDLE(MPI_Comm) :: comm, copy
        HANDLE(MPI_Datatype) :: datatype, second
        HANDLE(MPI_Win) :: win
        integer :: memory(4)
#ifdef MPI_1
        integer :: short
#endif

        call mpi_comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, got, flag, ierr)
        call called('MPI_Comm_get_attr(comm=MPI_COMM_WORLD, comm_keyval=MPI_TAG_UB, ' // &
            'attribute_val=' // address(got) // ', flag=' // bool(flag) // ')')
        call mpi_comm_create_keyval(copy_comm, delete_comm, keyval, 1000_aint, ierr)
        call called('MPI_Comm_create_keyval(comm_copy_attr_fn=' // &
            address(transfer(c_funloc(copy_comm), 0_aint)) // ', comm_delete_attr_fn=' // &
            address(transfer(c_funloc(delete_comm), 0_aint)) // ', comm_keyval=' // &
            number(keyval) // ', extra_state=0x3e8)')
        call mpi_comm_get_attr(MPI_COMM_SELF, keyval, got, flag, ierr)
        call called('MPI_Comm_get_attr(comm=MPI_COMM_SELF, comm_keyval=' // number(keyval) // &
            ', attribute_val=unset, flag=false)')
        call mpi_comm_set_attr(MPI_COMM_SELF, keyval, -42_aint, ierr)
        call called('MPI_Comm_set_attr(comm=MPI_COMM_SELF, comm_keyval=' // number(keyval) // &
            ', attribute_val=0xffffffffffffffd6)')
        call mpi_comm_get_attr(MPI_COMM_SELF, keyval, got, flag, ierr)
        call called('MPI_Comm_get_attr(comm=MPI_COMM_SELF, attribute_val=' // address(got) // &
            ', flag=true)')
        call pmpi_comm_get_attr(MPI_COMM_SELF, keyval, got, flag, ierr)
        call called('MPI_Comm_get_attr(comm=MPI_COMM_SELF, attribute_val=' // address(got) // &
            ', flag=true)')
        at = calling()
        call mpi_comm_set_attr(MPI_COMM_SELF, keyval, huge(got), ierr)
        call called_at(at, 'MPI_Comm_set_attr(attribute_val=' // address(huge(got)) // ')')
        at = calling()
        call pmpi_comm_set_attr(MPI_COMM_SELF, keyval, 7_aint, ierr)
        call called_at(at, 'MPI_Comm_set_attr(attribute_val=0x7)')
        at = calling()
        call mpi_comm_dup(MPI_COMM_SELF, comm, ierr)
        call called_at(at, 'MPI_Comm_dup(comm=MPI_COMM_SELF, newcomm=comm1)')
        call mpi_comm_get_attr(comm, keyval, got, flag, ierr)
        call called('MPI_Comm_get_attr(comm=comm1, attribute_val=' // address(1007_aint) // &
            ', flag=true)')
        at = calling()
        call mpi_comm_delete_attr(MPI_COMM_SELF, keyval, ierr)
        call called_at(at, 'MPI_Comm_delete_attr(comm=MPI_COMM_SELF, comm_keyval=' // &
            number(keyval) // ')')
        at = calling()
        call mpi_comm_free(comm, ierr)
        call called_at(at, 'MPI_Comm_free(comm=comm1)')
        other = keyval
        call mpi_comm_free_keyval(keyval, ierr)
        call called('MPI_Comm_free_keyval(comm_keyval=' // number(other) // '→MPI_KEYVAL_INVALID)')
        call mpi_comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, 0_aint, &
            ierr)
        call called('MPI_Comm_create_keyval(extra_state=NULL)')
        call mpi_comm_set_attr(MPI_COMM_SELF, keyval, 5_aint, ierr)
        call called('MPI_Comm_set_attr(attribute_val=0x5)')
        call mpi_comm_dup(MPI_COMM_SELF, copy, ierr)
        call called('MPI_Comm_dup(newcomm=comm1)')
        call mpi_comm_get_attr(copy, keyval, got, flag, ierr)
        call called('MPI_Comm_get_attr(comm=comm1, attribute_val=0x5, flag=true)')
        call mpi_comm_free(copy, ierr)
        call called('MPI_Comm_free(comm=comm1)')
        call mpi_comm_delete_attr(MPI_COMM_SELF, keyval, ierr)
        call called('MPI_Comm_delete_attr(comm=MPI_COMM_SELF)')
        call mpi_comm_free_keyval(keyval, ierr)
        call called('MPI_Comm_free_keyval()')

        call mpi_type_contiguous(2, MPI_INTEGER, datatype, ierr)
        call called('MPI_Type_contiguous(count=2, oldtype=MPI_INTEGER, newtype=type1)')
        call mpi_type_create_keyval(copy_type, delete_type, keyval, 3_aint, ierr)
        call called('MPI_Type_create_keyval(type_keyval=' // number(keyval) // &
            ', extra_state=0x3)')
        call mpi_type_set_attr(datatype, keyval, 64_aint, ierr)
        call called('MPI_Type_set_attr(datatype=type1, type_keyval=' // number(keyval) // &
            ', attribute_val=0x40)')
        at = calling()
        call mpi_type_dup(datatype, second, ierr)
        call called_at(at, 'MPI_Type_dup(oldtype=type1, newtype=type2)')
        call mpi_type_get_attr(second, keyval, got, flag, ierr)
        call called('MPI_Type_get_attr(datatype=type2, type_keyval=' // number(keyval) // &
            ', attribute_val=' // address(67_aint) // ', flag=true)')
        at = calling()
        call mpi_type_delete_attr(datatype, keyval, ierr)
        call called_at(at, 'MPI_Type_delete_attr(datatype=type1)')
        at = calling()
        call mpi_type_free(second, ierr)
        call called_at(at, 'MPI_Type_free(datatype=type2)')
        call mpi_type_get_attr(datatype, keyval, got, flag, ierr)
        call called('MPI_Type_get_attr(datatype=type1, flag=false)')
        call mpi_type_free(datatype, ierr)
        call called('MPI_Type_free(datatype=type1)')
        call mpi_type_free_keyval(keyval, ierr)
        call called('MPI_Type_free_keyval()')

        call mpi_win_create(memory, 16_aint, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
        call called('MPI_Win_create(base=' // address(loc(memory)) // &
            ', size=16, disp_unit=4, info=MPI_INFO_NULL, comm=MPI_COMM_WORLD, win=win1)')
        call mpi_win_get_attr(win, MPI_WIN_BASE, got, flag, ierr)
        call called('MPI_Win_get_attr(win=win1, win_keyval=MPI_WIN_BASE, attribute_val=' // &
            address(loc(memory)) // ', flag=true)')
        call mpi_win_create_keyval(copy_win, delete_win, keyval, -1_aint, ierr)
        call called('MPI_Win_create_keyval(win_keyval=' // number(keyval) // &
            ', extra_state=0xffffffffffffffff)')
        call mpi_win_set_attr(win, keyval, 99_aint, ierr)
        call called('MPI_Win_set_attr(win=win1, win_keyval=' // number(keyval) // &
            ', attribute_val=0x63)')
        call mpi_win_get_attr(win, keyval, got, flag, ierr)
        call called('MPI_Win_get_attr(win=win1, attribute_val=0x63, flag=true)')
        at = calling()
        call mpi_win_delete_attr(win, keyval, ierr)
        call called_at(at, 'MPI_Win_delete_attr(win=win1)')
        call mpi_win_free_keyval(keyval, ierr)
        call called('MPI_Win_free_keyval()')
        call mpi_win_free(win, ierr)
        call called('MPI_Win_free(win=win1)')

#ifdef MPI_1
        call mpi_keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, keyval, -3, ierr)
        call called('MPI_Keyval_create(keyval=' // number(keyval) // &
            ', extra_state=0xfffffffffffffffd)')
        call mpi_attr_put(MPI_COMM_SELF, keyval, -42, ierr)
        call called('MPI_Attr_put(comm=MPI_COMM_SELF, keyval=' // number(keyval) // &
            ', attribute_val=0xffffffffffffffd6)')
        call mpi_attr_get(MPI_COMM_SELF, keyval, short, flag, ierr)
        call called('MPI_Attr_get(comm=MPI_COMM_SELF, keyval=' // number(keyval) // &
            ', attribute_val=' // address(int(short, aint)) // ', flag=true)')
        call pmpi_attr_get(MPI_COMM_SELF, keyval, short, flag, ierr)
        call called('MPI_Attr_get(attribute_val=' // address(-42_aint) // ', flag=true)')
        call mpi_attr_delete(MPI_COMM_SELF, keyval, ierr)
        call called('MPI_Attr_delete(comm=MPI_COMM_SELF, keyval=' // number(keyval) // ')')
        call mpi_attr_get(MPI_COMM_SELF, keyval, short, flag, ierr)
        call called('MPI_Attr_get(attribute_val=unset, flag=false)')
        call mpi_keyval_free(keyval, ierr)
        call called('MPI_Keyval_free()')
#endif
    end subroutine

    subroutine errors
        integer :: data(1), code, class, length, at
        character(len=MPI_MAX_ERROR_STRING) :: text
        integer(kind=aint) :: got
        logical :: flag
        HANDLE(MPI_Errhandler) :: handler, old
        HANDLE(MPI_Comm) :: comm
        HANDLE(MPI_Win) :: win

        data = 1
        call mpi_comm_dup(MPI_COMM_WORLD, comm, ierr)
        call called('MPI_Comm_dup(newcomm=comm1)')
        call mpi_comm_get_errhandler(comm, handler, ierr)
        call called('MPI_Comm_get_errhandler(comm=comm1, errhandler=MPI_ERRORS_ARE_FATAL)')
        call mpi_comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierr)
        call called('MPI_Comm_set_errhandler(comm=comm1, errhandler=MPI_ERRORS_RETURN)')
        call mpi_send(data, 1, MPI_INTEGER, 99, 1, comm, ierr)
        code = ierr
        call called('MPI_Send(count=1, dest=99, comm=comm1) = ERR_RANK')
        call mpi_error_class(code, class, ierr)
        call called('MPI_Error_class(errorclass=MPI_ERR_RANK)')
        call mpi_error_string(MPI_ERR_RANK, text, length, ierr)
        call called('MPI_Error_string(string=' // quoted(text) // ', resultlen=' // &
            number(length) // ')')
        call mpi_recv(data, -1, MPI_INTEGER, 0, 1, comm, MPI_STATUS_IGNORE, ierr)
        call called('MPI_Recv(count=-1, comm=comm1) = ERR_COUNT')
        call mpi_comm_get_attr(comm, MPI_KEYVAL_INVALID, got, flag, ierr)
        ! Open MPI gives an internal code that is no error code of MPI at all.
        if (ierr < 0) call called('MPI_Comm_get_attr(comm=comm1) = error ' // number(ierr))
        if (ierr > 0) call called('MPI_Comm_get_attr(comm=comm1) = ERR_KEYVAL')

        call mpi_comm_create_errhandler(on_comm_error, handler, ierr)
        call called('MPI_Comm_create_errhandler(comm_errhandler_fn=' // &
            address(transfer(c_funloc(on_comm_error), 0_aint)) // ', errhandler=errhandler1)')
        call mpi_comm_set_errhandler(comm, handler, ierr)
        call called('MPI_Comm_set_errhandler(comm=comm1, errhandler=errhandler1)')
        at = calling()
        call mpi_send(data, 1, MPI_INTEGER, 98, 1, comm, ierr)
        call called_at(at, 'MPI_Send(dest=98, comm=comm1) = ERR_RANK')
        at = calling()
        call mpi_comm_call_errhandler(comm, MPI_ERR_RANK, ierr)
        call called_at(at, 'MPI_Comm_call_errhandler(comm=comm1, errorcode=MPI_ERR_RANK)')
        call mpi_comm_get_errhandler(comm, old, ierr)
        call called('MPI_Comm_get_errhandler(comm=comm1, errhandler=errhandler1)')
        call mpi_errhandler_free(old, ierr)
        call called('MPI_Errhandler_free(errhandler=errhandler1)')
        call mpi_comm_free(comm, ierr)
        call called('MPI_Comm_free(comm=comm1)')

#ifdef MPI_UNTYPED
        call mpi_errhandler_create(on_comm_error, handler, ierr)
        call called('MPI_Errhandler_create(comm_errhandler_fn=' // &
            address(transfer(c_funloc(on_comm_error), 0_aint)) // ')')
        call mpi_errhandler_free(handler, ierr)
        call called('MPI_Errhandler_free()')
#endif
        call mpi_win_create_errhandler(on_win_error, handler, ierr)
        call called('MPI_Win_create_errhandler()')
        call mpi_win_create(data, 4_aint, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
        call called('MPI_Win_create(win=win1)')
        call mpi_win_set_errhandler(win, handler, ierr)
        call called('MPI_Win_set_errhandler(win=win1)')
        at = calling()
        call mpi_win_call_errhandler(win, MPI_ERR_OTHER, ierr)
        call called_at(at, 'MPI_Win_call_errhandler(win=win1, errorcode=MPI_ERR_OTHER)')
        call mpi_win_free(win, ierr)
        call called('MPI_Win_free(win=win1)')
        call mpi_errhandler_free(handler, ierr)
        call called('MPI_Errhandler_free()')

        call mpi_file_create_errhandler(on_file_error, handler, ierr)
        call called('MPI_File_create_errhandler()')
        call mpi_file_delete('no_such_file   ', MPI_INFO_NULL, ierr)
        call called('MPI_File_delete(filename="no_such_file") = ERR_NO_SUCH_FILE')
        call mpi_errhandler_free(handler, ierr)
        call called('MPI_Errhandler_free()')
    end subroutine
