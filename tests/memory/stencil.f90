! Fortran: arrays by column, allocated and on the stack, under OpenMP.
program stencil
  implicit none
  integer, parameter :: n = 60
  real(8), allocatable :: a(:,:), b(:,:)
  integer :: i, j, sweep
  allocate(a(n, n), b(n, n))
  a = 1d0
  b = 0d0
  do sweep = 1, 5
    !$omp parallel do schedule(static)
    do j = 2, n - 1
      do i = 2, n - 1
        b(i, j) = 0.2d0 * (a(i, j) + a(i-1, j) + a(i+1, j) + a(i, j-1) + a(i, j+1)) + i
      end do
    end do
    !$omp end parallel do
    a(2:n-1, 2:n-1) = b(2:n-1, 2:n-1)
  end do
  print '(es20.12)', total(a)
contains
  function total(x) result(sum_of_all)
    real(8), intent(in) :: x(:,:)
    real(8) :: sum_of_all, column(size(x, 1))
    integer :: k
    sum_of_all = 0
    do k = 1, size(x, 2)
      column = x(:, k)
      sum_of_all = sum_of_all + sum(column)
    end do
  end function
end program
