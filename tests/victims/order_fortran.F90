! Receives in Fortran whose order differs from run to run: blocking, by waitany, by testsome, after
! a probe; what each rank prints depends on it.
program order_fortran
    use mpi
    implicit none
    integer, parameter :: rounds = 30, most = 64
    integer :: rank, ranks, others, error, round, i, which, found
    integer :: sends(most), receives(most), indices(most), in(most), out(most)
    integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, most)
    logical :: flag
    integer(kind=8) :: digest

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    others = ranks - 1
    digest = rank
    do round = 1, rounds
        call send_all(1)
        do i = 1, others
            call MPI_Recv(in(1), 1, MPI_INTEGER, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &
                          status, error)
            call mix(status(MPI_SOURCE) * 100 + status(MPI_TAG))
            call mix(in(1))
        end do
        call MPI_Waitall(others, sends, MPI_STATUSES_IGNORE, error)

        call post_all()
        call send_all(2)
        do i = 1, others
            call MPI_Waitany(others, receives, which, status, error)
            call mix(which * 100 + status(MPI_SOURCE))
            call mix(in(which))
        end do
        call MPI_Waitall(others, sends, MPI_STATUSES_IGNORE, error)

        call post_all()
        call send_all(2)
        do
            call MPI_Testsome(others, receives, found, indices, statuses, error)
            if (found == MPI_UNDEFINED) exit
            call mix(found)
            do i = 1, found
                call mix(indices(i) * 100 + statuses(MPI_SOURCE, i))
                call mix(in(indices(i)))
            end do
        end do
        call MPI_Waitall(others, sends, MPI_STATUSES_IGNORE, error)

        call send_all(3)
        do i = 1, others
            flag = .false.
            do while (.not. flag)
                call MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, flag, status, error)
                call mix(1)
            end do
            call MPI_Recv(in(1), 1, MPI_INTEGER, status(MPI_SOURCE), 3, MPI_COMM_WORLD, &
                          MPI_STATUS_IGNORE, error)
            call mix(status(MPI_SOURCE))
            call mix(in(1))
        end do
        call MPI_Waitall(others, sends, MPI_STATUSES_IGNORE, error)
    end do
    print '(a, i0, a, z16.16)', 'rank ', rank, ': ', digest
    call MPI_Finalize(error)

contains

    subroutine mix(value)
        integer, intent(in) :: value
        digest = ieor(digest * 1000003_8, int(value, 8))
        digest = ieor(digest, ishft(digest, -29))
    end subroutine

    subroutine send_all(tag)
        integer, intent(in) :: tag
        integer :: i
        do i = 1, others
            out(i) = int(iand(digest, 1048575_8)) + i
            call MPI_Isend(out(i), 1, MPI_INTEGER, mod(rank + i, ranks), tag, MPI_COMM_WORLD, &
                           sends(i), error)
        end do
    end subroutine

    subroutine post_all()
        integer :: i
        do i = 1, others
            call MPI_Irecv(in(i), 1, MPI_INTEGER, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, receives(i), &
                           error)
        end do
    end subroutine
end program
