/* digest.c - BLAKE2b-256 by libsodium. */
#include "base/digest.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(crypto_generichash_state) <= sizeof(struct digest_state), "digest_state holds libsodium's state");

static crypto_generichash_state *state_of(struct digest_state *state)
{
    return (crypto_generichash_state *)(void *)state->opaque;
}

void digest_begin(struct digest_state *state)
{
    if (sodium_init() < 0) { /* idempotent and thread-safe; fails only without a source of random bytes */
        abort();
    }
    crypto_generichash_init(state_of(state), NULL, 0, DIGEST_BYTES);
}

void digest_update(struct digest_state *state, const void *bytes, size_t length)
{
    if (length > 0) {
        crypto_generichash_update(state_of(state), bytes, length);
    }
}

void digest_field(struct digest_state *state, const void *bytes, size_t length)
{
    uint8_t size[8]; /* little-endian on every machine */
    for (int i = 0; i < 8; i++) {
        size[i] = (uint8_t)((uint64_t)length >> (8 * i));
    }
    digest_update(state, size, sizeof size);
    digest_update(state, bytes, length);
}

void digest_end(struct digest_state *state, struct digest *digest)
{
    crypto_generichash_final(state_of(state), digest->bytes, DIGEST_BYTES);
}

void digest_of(const void *bytes, size_t length, struct digest *digest)
{
    struct digest_state state;
    digest_begin(&state);
    digest_update(&state, bytes, length);
    digest_end(&state, digest);
}

void digest_hex(const struct digest *digest, char hex[DIGEST_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < DIGEST_BYTES; i++) {
        hex[2 * i] = digits[digest->bytes[i] >> 4];
        hex[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    hex[DIGEST_HEX_BYTES - 1] = '\0';
}

void digest_short(const char *text, char id[DIGEST_SHORT_BYTES])
{
    struct digest digest;
    char hex[DIGEST_HEX_BYTES];
    digest_of(text, strlen(text), &digest);
    digest_hex(&digest, hex);
    memcpy(id, hex, DIGEST_SHORT_BYTES - 1);
    id[DIGEST_SHORT_BYTES - 1] = '\0';
}

attune_status digest_from_hex(const char *hex, size_t length, struct digest *digest)
{
    static const char digits[] = "0123456789abcdef";
    if (length != DIGEST_HEX_BYTES - 1) {
        return ATTUNE_INVALID;
    }
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        const char *high = hex[2 * i] != '\0' ? strchr(digits, hex[2 * i]) : NULL;
        const char *low = hex[2 * i + 1] != '\0' ? strchr(digits, hex[2 * i + 1]) : NULL;
        if (high == NULL || low == NULL) {
            return ATTUNE_INVALID;
        }
        digest->bytes[i] = (uint8_t)((high - digits) * 16 + (low - digits));
    }
    return ATTUNE_OK;
}
