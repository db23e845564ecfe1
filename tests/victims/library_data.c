/*
 * A library with static data, to be opened by `buffers.c`.
 */
int library_data[64] = { 1, 2, 3 };

int *library_data_address(void)
{
    return library_data;
}
