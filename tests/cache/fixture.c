/* fixture.c - see fixture.h */
#include "fixture.h"

#include "base/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fixture_folder(void **state)
{
    char path[512];
    if (folder_temporary(path, sizeof path, NULL) != ATTUNE_OK) {
        return -1;
    }
    *state = strdup(path);
    return *state != NULL ? 0 : -1;
}

int fixture_remove(void **state)
{
    folder_remove(*state);
    free(*state);
    return 0;
}

struct store *fixture_store(const char *path)
{
    struct store *store = NULL;
    struct error error = {0};
    assert_status(ATTUNE_OK, store_open(path, &store, &error), error);
    assert_non_null(store);
    return store;
}

void fixture_key(int n, int compiler, struct digest *object, struct object_header *header)
{
    char source[64], identity[DIGEST_HEX_BYTES];
    struct digest digest;
    struct object_key key = {.options = "-O3", .identity = identity, .shown = source};
    key.shown_bytes = (size_t)snprintf(source, sizeof source, "kernel %d", n);
    digest_of(&compiler, sizeof compiler, &digest);
    digest_hex(&digest, identity);
    assert_int_equal(target_parse("gfx906", &key.target, NULL), ATTUNE_OK);
    memset(header, 0, sizeof *header);
    object_key_digest(&key, object, &header->source);
    strcpy(header->target, "gfx906");
    snprintf(header->compiler, sizeof header->compiler, "compiler %d", compiler);
    strcpy(header->identity, identity);
    strcpy(header->kernel, "attention_forward");
}

size_t fixture_payload(int n, char *bytes, size_t capacity)
{
    size_t length = 2000 + (size_t)(n % 7) * 100;
    assert_true(length <= capacity);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (char)(i * 31 + (size_t)n * 17);
    }
    return length;
}

void fixture_put(struct store *store, int n)
{
    struct digest object;
    struct object_header header;
    struct error error = {0};
    char bytes[4096];
    size_t length = fixture_payload(n, bytes, sizeof bytes);
    fixture_key(n, 1, &object, &header);
    assert_status(ATTUNE_OK, store_object_put(store, &object, &header, bytes, length, &error), error);
}

attune_status fixture_get(struct store *store, int n)
{
    struct digest object;
    struct object_header header, read;
    struct buffer bytes = BUFFER_INIT;
    char expected[4096];
    size_t length = fixture_payload(n, expected, sizeof expected);
    fixture_key(n, 1, &object, &header);
    attune_status status = store_object_get(store, &object, &read, &bytes, NULL);
    if (status == ATTUNE_OK) {
        assert_int_equal(bytes.length, length);
        assert_memory_equal(bytes.data, expected, length);
        assert_string_equal(read.kernel, header.kernel);
        assert_string_equal(read.target, header.target);
        assert_memory_equal(read.source.bytes, header.source.bytes, DIGEST_BYTES);
    }
    buffer_free(&bytes);
    return status;
}

void fixture_record(int n, int64_t seqlen_q, enum record_kind kind, struct record *record)
{
    char text[512];
    struct problem problem;
    struct error error = {0};
    struct object_header header;
    memset(record, 0, sizeof *record);
    snprintf(text, sizeof text,
             "attention.forward dtype=f16 heads=32 kv_heads=8 seqlen_q=%lld seqlen_k=2048 head_dim=128",
             (long long)seqlen_q);
    assert_status(ATTUNE_OK, problem_parse(schema_attention_forward(), text, &problem, &error), error);
    assert_status(ATTUNE_OK, problem_format(&problem, record->problem, &error), error);
    assert_status(ATTUNE_OK, problem_specialisation(&problem, record->specialisation, &error), error);
    assert_status(ATTUNE_OK, problem_shape(&problem, record->shape, &error), error);
    record->kind = kind;
    strcpy(record->device.target, "gfx906");
    if (kind == RECORD_TUNED) {
        record->device.compute_units = 60;
        record->device.shared_bytes = 65536;
        record->device.memory_bytes = (uint64_t)16 << 30;
        strcpy(record->device.driver, "HIP 5.2");
        strcpy(record->device_name, "Radeon Instinct MI50");
        record->winner_microseconds = 812.25;
        record->default_microseconds = 1000.5;
    }
    strcpy(record->candidate, "attention.forward/portable block_q=64 block_k=64 threads=256");
    fixture_key(n, 1, &record->object, &header);
    strcpy(record->compiler, header.compiler);
    strcpy(record->identity, header.identity);
    strcpy(record->launch.kernel, "attention_forward");
    record->launch.argument_count = 2;
    record->launch.arguments[0] = (struct launch_argument){"q", ARGUMENT_POINTER};
    record->launch.arguments[1] = (struct launch_argument){"seqlen_q", ARGUMENT_I32};
    record->launch.threads = 256;
    record->launch.grid[0] = (struct launch_dimension){1, {{"seqlen_q", 64}}};
    record_new_run(record->run);
    record->complete = true;
    record->created = 1700000000 + n;
}

void fixture_object_path(const char *root, int n, char path[4096])
{
    struct digest object;
    struct object_header header;
    char hex[DIGEST_HEX_BYTES];
    fixture_key(n, 1, &object, &header);
    digest_hex(&object, hex);
    snprintf(path, 4096, "%s/objects/%.2s/%s", root, hex, hex);
}

struct look {
    enum store_entry_kind kind;
    int count;
    char path[512];
};

static attune_status look_at(void *data, const struct store_entry *entry, struct error *error)
{
    struct look *look = data;
    (void)error;
    if (entry->kind == look->kind) {
        look->count++;
        strcpy(look->path, entry->path);
    }
    return ATTUNE_OK;
}

int fixture_count(struct store *store, enum store_entry_kind kind)
{
    struct look look = {.kind = kind};
    struct error error = {0};
    assert_status(ATTUNE_OK, store_walk(store, look_at, &look, &error), error);
    return look.count;
}

void fixture_only_record_path(struct store *store, const char *root, char path[4096])
{
    struct look look = {.kind = STORE_RECORD};
    assert_int_equal(store_walk(store, look_at, &look, NULL), ATTUNE_OK);
    assert_int_equal(look.count, 1);
    snprintf(path, 4096, "%s/%s", root, look.path);
}

int fixture_warnings(void (*call)(void *data), void *data, char *text, size_t bytes)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int saved = dup(2);
    dup2(fileno(file), 2);
    call(data);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    rewind(file);
    size_t length = fread(text, 1, bytes - 1, file);
    text[length] = '\0';
    fclose(file);
    int lines = 0;
    for (const char *c = text; (c = strstr(c, "attune: warning:")) != NULL; c++) {
        lines++;
    }
    return lines;
}
