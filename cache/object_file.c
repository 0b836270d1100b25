/* object_file.c - encoding and decoding of object files.
 *
 *   0  magic "attuneOB"         8  version u32          12  header bytes u32     16  payload bytes u64
 *  24  payload digest (32)     56  name (32)            88  source key (32)
 * 120  target (64)            184  compiler (64)       248  identity (65)       313  kernel (64)    377  minimum driver
 * (32) 409  zeros to 416           416  digest of bytes 0-415 (32)                   448  payload
 */
#include "cache/object_file.h"

#include <string.h>

enum {
    AT_VERSION = 8,
    AT_HEADER_BYTES = 12,
    AT_PAYLOAD_BYTES = 16,
    AT_PAYLOAD_DIGEST = 24,
    AT_NAME = 56,
    AT_SOURCE = 88,
    AT_TARGET = 120,
    AT_COMPILER = 184,
    AT_IDENTITY = 248,
    AT_KERNEL = 313,
    AT_MINIMUM_DRIVER = 377,
    AT_PADDING = 409,
    AT_HEADER_DIGEST = 416
};
static const char magic[8] = {'a', 't', 't', 'u', 'n', 'e', 'O', 'B'};

static void put_number(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get_number(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

/* printable ASCII, ended and filled up with zeros: one text has one form */
static bool text_is_canonical(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && text[i] >= ' ' && text[i] <= '~') {
        i++;
    }
    if (i == bytes) {
        return false;
    }
    for (; i < bytes; i++) {
        if (text[i] != '\0') {
            return false;
        }
    }
    return true;
}

static bool identity_is_hex(const char *identity)
{
    size_t length = strlen(identity);
    return (length == 0 || length == DIGEST_HEX_BYTES - 1) && strspn(identity, "0123456789abcdef") == length;
}

static attune_status put_text(unsigned char *at, const char *text, size_t bytes, const char *field, struct error *error)
{
    size_t length = strnlen(text, bytes);
    if (length == bytes) {
        return error_set(error, ATTUNE_INVALID, "object header: %s is not ended within its %zu bytes", field, bytes);
    }
    memcpy(at, text, length);
    if (!text_is_canonical((const char *)at, bytes)) {
        return error_set(error, ATTUNE_INVALID, "object header: %s holds a character that is not printable ASCII",
                         field);
    }
    return ATTUNE_OK;
}

static attune_status encode_header(const struct object_header *header, unsigned char *h, struct error *error)
{
    struct target target;
    attune_status status = target_parse(header->target, &target, error);
    if (status != ATTUNE_OK) {
        error_prefix(error, "object header: target");
        return ATTUNE_INVALID;
    }
    if (header->kernel[0] == '\0') {
        return error_set(error, ATTUNE_INVALID, "object header: kernel is empty; name the symbol to launch");
    }
    if (!identity_is_hex(header->identity)) {
        return error_set(error, ATTUNE_INVALID, "object header: identity \"%.64s\" is not 64 hex digits",
                         header->identity);
    }
    if ((status = put_text(h + AT_TARGET, header->target, sizeof header->target, "target", error)) != ATTUNE_OK ||
        (status = put_text(h + AT_COMPILER, header->compiler, sizeof header->compiler, "compiler", error)) !=
            ATTUNE_OK ||
        (status = put_text(h + AT_IDENTITY, header->identity, sizeof header->identity, "identity", error)) !=
            ATTUNE_OK ||
        (status = put_text(h + AT_KERNEL, header->kernel, sizeof header->kernel, "kernel", error)) != ATTUNE_OK ||
        (status = put_text(h + AT_MINIMUM_DRIVER, header->minimum_driver, sizeof header->minimum_driver,
                           "minimum driver", error)) != ATTUNE_OK) {
        return status;
    }
    memcpy(h + AT_SOURCE, header->source.bytes, DIGEST_BYTES);
    return ATTUNE_OK;
}

attune_status object_file_encode(const struct digest *name, const struct object_header *header, const void *payload,
                                 size_t length, struct buffer *file, struct error *error)
{
    unsigned char h[OBJECT_FILE_HEADER_BYTES] = {0};
    struct digest digest;
    if (length == 0 || length > OBJECT_FILE_BYTES_MAX - OBJECT_FILE_HEADER_BYTES) {
        return error_set(error, ATTUNE_INVALID, "object of %zu bytes: 1 to %zu can be stored", length,
                         OBJECT_FILE_BYTES_MAX - OBJECT_FILE_HEADER_BYTES);
    }
    attune_status status = encode_header(header, h, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    memcpy(h, magic, sizeof magic);
    put_number(h + AT_VERSION, OBJECT_FILE_VERSION, 4);
    put_number(h + AT_HEADER_BYTES, OBJECT_FILE_HEADER_BYTES, 4);
    put_number(h + AT_PAYLOAD_BYTES, length, 8);
    digest_of(payload, length, &digest);
    memcpy(h + AT_PAYLOAD_DIGEST, digest.bytes, DIGEST_BYTES);
    memcpy(h + AT_NAME, name->bytes, DIGEST_BYTES);
    digest_of(h, AT_HEADER_DIGEST, &digest);
    memcpy(h + AT_HEADER_DIGEST, digest.bytes, DIGEST_BYTES);

    buffer_reserve(file, file->length + sizeof h + length);
    buffer_append(file, h, sizeof h);
    buffer_append(file, payload, length);
    return buffer_ok(file, error);
}

static attune_status corrupt(struct error *error, const char *what)
{
    return error_set(error, ATTUNE_CORRUPT, "%s", what);
}

static attune_status decode_texts(const unsigned char *h, struct object_header *header, struct error *error)
{
    const struct {
        int at;
        char *into;
        size_t bytes;
    } texts[] = {
        {AT_TARGET, header->target, sizeof header->target},
        {AT_COMPILER, header->compiler, sizeof header->compiler},
        {AT_IDENTITY, header->identity, sizeof header->identity},
        {AT_KERNEL, header->kernel, sizeof header->kernel},
        {AT_MINIMUM_DRIVER, header->minimum_driver, sizeof header->minimum_driver},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        memcpy(texts[i].into, h + texts[i].at, texts[i].bytes);
        if (!text_is_canonical(texts[i].into, texts[i].bytes)) {
            return corrupt(error, "a text of the header is malformed");
        }
    }
    memcpy(header->source.bytes, h + AT_SOURCE, DIGEST_BYTES);
    for (int i = AT_PADDING; i < AT_HEADER_DIGEST; i++) {
        if (h[i] != 0) {
            return corrupt(error, "the header's padding is not zero");
        }
    }
    struct target target;
    if (target_parse(header->target, &target, NULL) != ATTUNE_OK || header->kernel[0] == '\0' ||
        !identity_is_hex(header->identity)) {
        return corrupt(error, "the header's target, kernel or identity is malformed");
    }
    return ATTUNE_OK;
}

attune_status object_file_decode(const struct digest *name, const char *file, size_t length,
                                 struct object_header *header, const char **payload, size_t *payload_bytes,
                                 struct error *error)
{
    const unsigned char *h = (const unsigned char *)file;
    struct object_header scratch;
    struct digest digest;
    if (length < OBJECT_FILE_HEADER_BYTES) {
        return error_set(error, ATTUNE_CORRUPT, "%zu bytes are too few for an object's header", length);
    }
    if (memcmp(h, magic, sizeof magic) != 0) {
        return corrupt(error, "it is not an attune object");
    }
    uint64_t version = get_number(h + AT_VERSION, 4);
    if (version != OBJECT_FILE_VERSION) {
        return error_set(error, ATTUNE_CORRUPT, "format version %llu is not %d", (unsigned long long)version,
                         OBJECT_FILE_VERSION);
    }
    digest_of(h, AT_HEADER_DIGEST, &digest);
    if (memcmp(h + AT_HEADER_DIGEST, digest.bytes, DIGEST_BYTES) != 0) {
        return corrupt(error, "the header's digest differs");
    }
    if (get_number(h + AT_HEADER_BYTES, 4) != OBJECT_FILE_HEADER_BYTES ||
        get_number(h + AT_PAYLOAD_BYTES, 8) != length - OBJECT_FILE_HEADER_BYTES) {
        return corrupt(error, "its length is not the one in the header");
    }
    if (length == OBJECT_FILE_HEADER_BYTES) {
        return corrupt(error, "it holds no code");
    }
    if (memcmp(h + AT_NAME, name->bytes, DIGEST_BYTES) != 0) {
        return corrupt(error, "it is another object under this name");
    }
    attune_status status = decode_texts(h, header != NULL ? header : &scratch, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    *payload = file + OBJECT_FILE_HEADER_BYTES;
    *payload_bytes = length - OBJECT_FILE_HEADER_BYTES;
    digest_of(*payload, *payload_bytes, &digest);
    if (memcmp(h + AT_PAYLOAD_DIGEST, digest.bytes, DIGEST_BYTES) != 0) {
        return corrupt(error, "the payload's digest differs");
    }
    return ATTUNE_OK;
}
