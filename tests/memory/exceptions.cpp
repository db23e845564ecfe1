// Exceptions that pass several frames with destructors, and exceptions that are rethrown.
#include <cstdio>
#include <stdexcept>
#include <vector>

static volatile long marks[8];

struct Guard {
    int which;
    ~Guard() { marks[which]++; }
};

__attribute__((noinline)) static void
thrower(int depth)
{
    Guard guard{ 0 };
    if (depth == 0)
        throw std::runtime_error("thrown");
    thrower(depth - 1);
    marks[1]++; // never
}

__attribute__((noinline)) static void
between(int depth)
{
    try {
        thrower(depth);
    } catch (const std::logic_error &) {
        marks[2]++; // never
    } catch (...) {
        marks[3]++;
        throw;
    }
}

__attribute__((noinline)) static void
after()
{
    marks[4]++;
}

int
main()
{
    std::vector<long> turns;
    for (int turn = 0; turn < 50; turn++) {
        try {
            between(turn % 5);
        } catch (const std::exception &) {
            marks[5]++;
        }
        after();
        turns.push_back(turn);
    }
    std::printf("%ld %ld %ld %ld %ld %ld %zu\n", marks[0], marks[1], marks[2], marks[3], marks[4],
                marks[5], turns.size());
    return 0;
}
