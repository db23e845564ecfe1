! Windows and files; a part of fortran_calls.h.

    subroutine windows
        HANDLE(MPI_Win) :: win
        integer :: memory(8), data(4), unit
        integer(kind=aint) :: length
        POINTER_TYPE :: pointer
        integer, pointer :: array(:)

        memory = rank
        data = 10 + rank
        call mpi_win_create(memory, 32_aint, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
        call called('MPI_Win_create(size=32, disp_unit=4, comm=MPI_COMM_WORLD, win=win1)')
        call mpi_win_fence(0, win, ierr)
        call called('MPI_Win_fence(assert=0, win=win1)')
        call mpi_put(data, 2, MPI_INTEGER, peer, 1_aint, 2, MPI_INTEGER, win, ierr)
        call called('MPI_Put(origin_count=2, target_rank=' // number(peer) // &
            ', target_disp=1, target_count=2, win=win1)')
        call mpi_win_fence(0, win, ierr)
        call called('MPI_Win_fence(win=win1)')
        call mpi_get(data, 1, MPI_INTEGER, peer, 0_aint, 1, MPI_INTEGER, win, ierr)
        call called('MPI_Get(origin_count=1, target_disp=0, win=win1)')
        call mpi_win_fence(0, win, ierr)
        call called('MPI_Win_fence(win=win1)')
        call mpi_win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, win, ierr)
        call called('MPI_Win_lock(lock_type=MPI_LOCK_EXCLUSIVE, rank=' // number(peer) // &
            ', win=win1)')
        call mpi_accumulate(data, 1, MPI_INTEGER, peer, 4_aint, 1, MPI_INTEGER, MPI_SUM, win, &
            ierr)
        call called('MPI_Accumulate(target_disp=4, op=MPI_SUM, win=win1)')
        call mpi_win_unlock(peer, win, ierr)
        call called('MPI_Win_unlock(rank=' // number(peer) // ', win=win1)')
        call mpi_win_free(win, ierr)
        call called('MPI_Win_free(win=win1)')

        call mpi_alloc_mem(64_aint, MPI_INFO_NULL, pointer, ierr)
        call called('MPI_Alloc_mem(size=64, info=MPI_INFO_NULL, baseptr=' // &
            address(POINTER_VALUE(pointer)) // ')')
        call c_f_pointer(transfer(pointer, c_null_ptr), array, [16])
        array = 0
        call mpi_free_mem(array, ierr)
        call called('MPI_Free_mem(base=' // address(POINTER_VALUE(pointer)) // ')')
        call mpi_win_allocate(64_aint, 4, MPI_INFO_NULL, MPI_COMM_WORLD, pointer, win, ierr)
        call called('MPI_Win_allocate(size=64, disp_unit=4, baseptr=' // &
            address(POINTER_VALUE(pointer)) // ', win=win1)')
        call mpi_win_free(win, ierr)
        call called('MPI_Win_free(win=win1)')
        call mpi_win_allocate_shared(64_aint, 4, MPI_INFO_NULL, MPI_COMM_WORLD, pointer, win, &
            ierr)
        call called('MPI_Win_allocate_shared(baseptr=' // address(POINTER_VALUE(pointer)) // &
            ', win=win1)')
        call mpi_win_shared_query(win, peer, length, unit, pointer, ierr)
        call called('MPI_Win_shared_query(win=win1, rank=' // number(peer) // ', size=' // &
            long(length) // ', disp_unit=4, baseptr=' // address(POINTER_VALUE(pointer)) // ')')
        call mpi_win_free(win, ierr)
        call called('MPI_Win_free(win=win1)')
    end subroutine

    subroutine files
        HANDLE(MPI_File) :: file
        HANDLE(MPI_Request) :: request
        STATUS_TYPE :: status
        integer :: data(4), got(4)
        integer(kind=MPI_OFFSET_KIND) :: place

        data = rank + 1
        call mpi_file_open(MPI_COMM_WORLD, 'fortran.data      ', &
            ior(MPI_MODE_CREATE, MPI_MODE_RDWR), MPI_INFO_NULL, file, ierr)
        call called('MPI_File_open(comm=MPI_COMM_WORLD, filename="fortran.data", ' // &
            'info=MPI_INFO_NULL, fh=file1)')
        place = 16 * rank
        call mpi_file_write_at(file, place, data, 4, MPI_INTEGER, status, ierr)
        call called('MPI_File_write_at(fh=file1, offset=' // number(16 * rank) // ', count=4)')
        call mpi_file_read_at_all(file, place, got, 4, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
        call called('MPI_File_read_at_all(fh=file1, offset=' // number(16 * rank) // &
            ', count=4)')
        call mpi_file_iwrite_at(file, place, data, 4, MPI_INTEGER, request, ierr)
        call called('MPI_File_iwrite_at(fh=file1, request=r1)')
        call mpi_wait(request, status, ierr)
        call called('MPI_Wait(request=r1)')
        place = 0
        call mpi_file_set_view(file, place, MPI_INTEGER, MPI_INTEGER, 'native    ', &
            MPI_INFO_NULL, ierr)
        call called('MPI_File_set_view(fh=file1, disp=0, etype=MPI_INTEGER, ' // &
            'filetype=MPI_INTEGER, datarep="native")')
        call mpi_file_write_all(file, data, 4, MPI_INTEGER, status, ierr)
        call called('MPI_File_write_all(fh=file1, count=4)')
        call mpi_file_close(file, ierr)
        call called('MPI_File_close(fh=file1)')
        call barrier
        if (rank == 0) then
            call mpi_file_delete('fortran.data ', MPI_INFO_NULL, ierr)
            call called('MPI_File_delete(filename="fortran.data")')
        end if
    end subroutine
