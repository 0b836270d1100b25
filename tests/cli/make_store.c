/* make_store.c - `make_store FOLDER`: a store with made-up times, for looking at its report. */
#include "fake_store.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_store FOLDER\n");
        return 2;
    }
    return fake_store_make(argv[1], 300) ? 0 : 1;
}
