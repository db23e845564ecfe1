! What a Fortran victim has called, in the words of `refrain show --full`; to be included in a
! victim's main module, behind `contains`.
!
!     call mpi_send(buffer, 3, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, ierr)
!     call called('MPI_Send(count=3, datatype=MPI_INTEGER, dest=1, tag=7, comm=MPI_COMM_WORLD)')
!
! Not all arguments need be stated, and `_` stands for what nobody can know. The call must have
! set `ierr` to success, or to an error if the text says so: 'MPI_Send(...) = ERR_RANK'. A call
! during which others are made, by callbacks, is announced first, so that it comes before them:
!
!     at = calling()
!     call mpi_reduce(...)
!     call called_at(at, 'MPI_Reduce(...)')
!
! The last statement of a victim is expect_print(rank). It writes a line for each call to a
! file, named by EXPECT_FILE and the rank, or to the standard output: `expect RANK.THREAD DEPTH
! TEXT`, as expect.h does; there is one thread.

    ! Announces a call; gives its place.
    integer function calling()
        calls = calls + 1
        depths(calls) = depth
        texts(calls) = '(announced, but never stated)'
        depth = depth + 1
        calling = calls
    end function

    ! States a call that was announced.
    subroutine called_at(at, text)
        integer, intent(in) :: at
        character(len=*), intent(in) :: text
        depth = depths(at)
        if (index(text, ') = ') == 0) then
            if (ierr /= 0) texts(at) = text // ' = ierr ' // number(ierr)
            if (ierr == 0) texts(at) = text // ' = SUCCESS'
        else
            if (ierr == 0 .or. ierr == untouched) texts(at) = text // ', but ierr ' // number(ierr)
            if (ierr /= 0 .and. ierr /= untouched) texts(at) = text
        end if
        ! The next call must set it.
        ierr = untouched
    end subroutine

    ! States a call.
    subroutine called(text)
        character(len=*), intent(in) :: text
        integer :: at
        at = calling()
        call called_at(at, text)
    end subroutine

    ! States a call that has no error code, or whose error code the program left out.
    subroutine called_plain(text)
        character(len=*), intent(in) :: text
        integer :: at
        at = calling()
        depth = depths(at)
        texts(at) = text
    end subroutine

    subroutine expect_print(rank)
        integer, intent(in) :: rank
        character(len=500) :: file
        integer :: i, out, length
        call get_environment_variable('EXPECT_FILE', file, length)
        if (length > 0) then
            open(newunit=out, file=trim(file) // '.' // number(rank), action='write')
        else
            out = 6
        end if
        do i = 1, calls
            write(out, '(a)') 'expect ' // number(rank) // '.0 ' // number(depths(i)) // ' ' // &
                trim(texts(i))
        end do
        if (length > 0) close(out)
    end subroutine

    function number(n)
        integer, intent(in) :: n
        character(len=:), allocatable :: number
        number = long(int(n, kind=MPI_ADDRESS_KIND))
    end function

    function long(n)
        integer(kind=MPI_ADDRESS_KIND), intent(in) :: n
        character(len=:), allocatable :: long
        character(len=24) :: text
        write(text, '(i0)') n
        long = trim(text)
    end function

    ! An address, or a number in place of one.
    function address(n)
        integer(kind=MPI_ADDRESS_KIND), intent(in) :: n
        character(len=:), allocatable :: address
        character(len=24) :: text
        write(text, '(z0)') n
        address = '0x' // trim(text)
        if (n == 0) address = 'NULL'
        call lower(address)
    end function

    subroutine lower(text)
        character(len=*), intent(inout) :: text
        integer :: i
        do i = 1, len(text)
            if (text(i:i) >= 'A' .and. text(i:i) <= 'F') text(i:i) = achar(iachar(text(i:i)) + 32)
        end do
    end subroutine

    function bool(flag)
        logical, intent(in) :: flag
        character(len=:), allocatable :: bool
        bool = 'false'
        if (flag) bool = 'true'
    end function

    function list(all)
        integer, intent(in) :: all(:)
        character(len=:), allocatable :: list
        integer :: i
        list = '['
        do i = 1, size(all)
            if (i > 1) list = list // ', '
            list = list // number(all(i))
        end do
        list = list // ']'
    end function

    function quoted(text)
        character(len=*), intent(in) :: text
        character(len=:), allocatable :: quoted
        quoted = '"' // trim(text) // '"'
    end function
