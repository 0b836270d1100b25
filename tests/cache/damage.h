/* damage.h - what may have become of a file of a store. `step` is of the kinds that have several. Each aborts the test
 * when the damage itself cannot be done. */
#ifndef TESTS_CACHE_DAMAGE_H
#define TESTS_CACHE_DAMAGE_H

#include "base/buffer.h"
#include "base/digest.h"
#include "base/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static inline void damage_cut(const char *path, int sixteenths)
{
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(truncate(path, facts.st_size * sixteenths / 16), 0);
}

static inline void damage_flip(const char *path, int seed)
{
    struct buffer bytes = BUFFER_INIT;
    assert_int_equal(file_read(path, 64 << 20, &bytes, NULL), ATTUNE_OK);
    size_t at = (size_t)seed * 2654435761u % bytes.length;
    bytes.data[at] = (char)(bytes.data[at] ^ (1 << seed % 8));
    assert_int_equal(file_publish(path, bytes.data, bytes.length, NULL), ATTUNE_OK);
    buffer_free(&bytes);
}

static inline void damage_fifo(const char *path, int step)
{
    (void)step;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static inline void damage_open_to_others(const char *path, int step)
{
    (void)step;
    assert_int_equal(chmod(path, 0666), 0);
}

/* Replaces one text of a record's JSON and seals it anew into `changed`: a wrong writer, or one who knows how. `json`
 * is cut before its old seal. */
static inline void damage_resealed(struct buffer *json, const char *from, const char *to, struct buffer *changed)
{
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    char *check = strstr(json->data, ",\"check\"");
    assert_non_null(check);
    strcpy(check, "}");
    char *at = strstr(json->data, from);
    if (at == NULL) {
        fail_msg("%s is not in %s", from, json->data);
    }
    buffer_append(changed, json->data, (size_t)(at - json->data));
    buffer_text(changed, to);
    buffer_text(changed, at + strlen(from));
    digest_of(changed->data, changed->length, &digest);
    digest_hex(&digest, hex);
    changed->length--;
    buffer_format(changed, ",\"check\":\"%s\"}\n", hex);
}

#endif
