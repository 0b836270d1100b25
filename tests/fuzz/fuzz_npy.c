/* .npy files: an accepted header promises exactly the bytes that are there, and is written and read back the same. */
#include "cli/npy.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t widths[] = {[NPY_F2] = 2, [NPY_F4] = 4, [NPY_F8] = 8, [NPY_U2] = 2};
    uint8_t *bytes = fuzz_bytes(data, size);
    struct npy npy, second;
    struct error error = {.message = ""};
    attune_status status = npy_parse(bytes, size, &npy, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        struct buffer again = BUFFER_INIT;
        size_t elements = 1;
        HOLDS(npy.rank >= 0 && npy.rank <= NPY_RANK_MAX, "rank %d", npy.rank);
        for (int i = 0; i < npy.rank; i++) {
            HOLDS(npy.shape[i] >= 0, "axis %d of %lld", i, (long long)npy.shape[i]);
            elements *= (size_t)npy.shape[i];
        }
        HOLDS(npy.elements >= 0 && (size_t)npy.elements == elements, "%lld elements", (long long)npy.elements);
        HOLDS(npy.offset <= size && size - npy.offset == elements * widths[npy.dtype], "%zu bytes of data",
              size - npy.offset);
        HOLDS(npy_format(npy.dtype, npy.rank, npy.shape, bytes + npy.offset, &again, &error) == ATTUNE_OK,
              "not written: %s", error.message);
        HOLDS(npy_parse(again.data, again.length, &second, &error) == ATTUNE_OK, "not read back: %s", error.message);
        HOLDS(second.dtype == npy.dtype && second.rank == npy.rank && second.elements == npy.elements &&
                  memcmp(second.shape, npy.shape, sizeof npy.shape) == 0,
              "it becomes another array");
        HOLDS(again.length - second.offset == size - npy.offset &&
                  memcmp(again.data + second.offset, bytes + npy.offset, size - npy.offset) == 0,
              "its data change");
        buffer_free(&again);
    }
    free(bytes);
    return 0;
}
