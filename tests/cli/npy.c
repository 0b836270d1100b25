/* .npy files: what is written is read back, and every way of being wrong is named. */
#include "cli/npy.h"

#include "base/files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* version 1 file with this header text and `data` zero bytes behind it */
static size_t make_file(unsigned char *file, const char *header, size_t data)
{
    size_t length = strlen(header);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)(length & 0xff);
    file[9] = (unsigned char)(length >> 8);
    memcpy(file + 10, header, length);
    memset(file + 10 + length, 0, data);
    return 10 + length + data;
}

static void a_written_array_is_read_back(void **state)
{
    (void)state;
    char folder[4096], path[4200];
    struct error error = {0};
    assert_int_equal(folder_temporary(folder, sizeof folder, &error), ATTUNE_OK);
    assert_int_equal(path_join(path, sizeof path, folder, "array with blanks.npy", &error), ATTUNE_OK);
    for (int rank = 0; rank <= 4; rank++) {
        const int64_t shape[] = {2, 3, 1, 5};
        const float data[30] = {1, 2, 3};
        struct buffer file = BUFFER_INIT;
        struct npy npy;
        assert_int_equal(npy_write(path, NPY_F4, rank, shape, data, &error), ATTUNE_OK);
        assert_int_equal(npy_read(path, &file, &npy, &error), ATTUNE_OK);
        assert_int_equal(npy.dtype, NPY_F4);
        assert_int_equal(npy.rank, rank);
        assert_memory_equal(npy.shape, shape, (size_t)rank * sizeof shape[0]);
        assert_int_equal(npy.offset % 64, 0);
        assert_memory_equal(file.data + npy.offset, data, (size_t)npy.elements * sizeof data[0]);
        buffer_free(&file);
    }
    folder_remove(folder);
}

static void headers_as_numpy_writes_them_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        enum npy_dtype dtype;
        int rank;
    } cases[] = {
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }          \n", 12, NPY_F2, 2},
        {"{'shape':(4,),'descr':\"<u2\",'fortran_order':False}\n", 8, NPY_U2, 1},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", 8, NPY_F8, 0},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7), }\n", 0, NPY_F4, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char file[256];
        struct npy npy;
        struct error error = {0};
        size_t length = make_file(file, cases[i].header, cases[i].data);
        assert_int_equal(npy_parse(file, length, &npy, &error), ATTUNE_OK);
        assert_int_equal(npy.dtype, cases[i].dtype);
        assert_int_equal(npy.rank, cases[i].rank);
    }
}

static void a_wrong_file_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *named;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 23,
         "promises 24 bytes of data, the file has 23: it is truncated"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 25, "longer than its array"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 24, "Fortran order"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, "big-endian"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, "dtype '<i4' is not read"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", 8, "dtype '|O' is not read"},
        {"{'descr': '<f4', 'fortran_order': False, }\n", 4, "not a dict"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n", 4, "not a dict"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x\n", 4, "not a dict"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}\n", 4, "not a dict"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}\n", 4, "at most 8 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}\n", 4, "not a dict"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}\n", 4, "overflows"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}\n", 4, "overflows"},
        {"{'descr': '<f4'", 4, "not a dict"},
        {"", 0, "not a dict"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char file[512];
        struct npy npy;
        struct error error = {0};
        size_t length = make_file(file, cases[i].header, cases[i].data);
        assert_int_equal(npy_parse(file, length, &npy, &error), ATTUNE_INVALID);
        if (strstr(error.message, cases[i].named) == NULL) {
            fail_msg("'%s' gave '%s', which does not say '%s'", cases[i].header, error.message, cases[i].named);
        }
    }
}

/* Every prefix of a good file is refused: exact heap blocks, so that a sanitizer sees a read past the end. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    unsigned char file[256];
    size_t length = make_file(file, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }   \n", 12);
    for (size_t cut = 0; cut < length; cut++) {
        unsigned char *copy = malloc(cut + (cut == 0));
        struct npy npy;
        memcpy(copy, file, cut);
        assert_int_equal(npy_parse(copy, cut, &npy, NULL), ATTUNE_INVALID);
        free(copy);
    }
}

static void a_huge_header_is_refused_before_it_is_read(void **state)
{
    (void)state;
    const unsigned char file[] = "\x93NUMPY\x02\x00\xff\xff\xff\x7f{'descr'";
    struct npy npy;
    struct error error = {0};
    assert_int_equal(npy_parse(file, sizeof file - 1, &npy, &error), ATTUNE_INVALID);
    assert_non_null(strstr(error.message, "the header has 2147483647 bytes, at most 65536"));
}

static void narrowing_rounds_to_nearest_even_once(void **state)
{
    (void)state;
    assert_int_equal(half_from_double(1.0), 0x3c00);
    assert_int_equal(half_from_double(-2.0), 0xc000);
    assert_int_equal(half_from_double(65504.0), 0x7bff);
    assert_int_equal(half_from_double(65519.999), 0x7bff);
    assert_int_equal(half_from_double(65520.0), 0x7c00);
    assert_int_equal(half_from_double(1e300), 0x7c00);
    assert_int_equal(half_from_double(-INFINITY), 0xfc00);
    assert_int_equal(half_from_double(NAN) & 0x7fff, 0x7e00);
    assert_int_equal(half_from_double(0x1p-24), 0x0001);
    assert_int_equal(half_from_double(0x1p-25), 0x0000);
    assert_int_equal(half_from_double(0x1.8p-25), 0x0001);
    assert_int_equal(half_from_double(0x1.ffcp-15), 0x0400); /* a tie that carries into the first normal */
    assert_int_equal(half_from_double(1.0 + 0x1p-11), 0x3c00);
    assert_int_equal(half_from_double(1.0 + 0x1p-11 + 0x1p-40), 0x3c01); /* through float it would be 0x3c00 */
    assert_int_equal(half_from_double(1.0 + 0x3p-11), 0x3c02);
    assert_int_equal(bfloat_from_double(1.0), 0x3f80);
    assert_int_equal(bfloat_from_double(1.0 + 0x1p-8), 0x3f80);
    assert_int_equal(bfloat_from_double(1.0 + 0x3p-8), 0x3f82);
    assert_int_equal(bfloat_from_double(3.4e38), 0x7f80);
    assert_int_equal(bfloat_from_double(-0.0), 0x8000);
    assert_int_equal(bfloat_from_double(1e-300), 0x0000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_array_is_read_back),
        cmocka_unit_test(headers_as_numpy_writes_them_are_read),
        cmocka_unit_test(a_wrong_file_is_refused_with_the_reason),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(a_huge_header_is_refused_before_it_is_read),
        cmocka_unit_test(narrowing_rounds_to_nearest_even_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
