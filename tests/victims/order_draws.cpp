// Prints random numbers and times of the C++ library, which differ in every run.
#include <chrono>
#include <cstdio>
#include <mpi.h>
#include <random>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::random_device device;
    std::mt19937 generator(device());
    auto now = std::chrono::system_clock::now().time_since_epoch();
    printf("%d: %x %x %lld\n", rank, device(), (unsigned)generator(),
           (long long)std::chrono::nanoseconds(now).count());
    MPI_Finalize();
    return 0;
}
