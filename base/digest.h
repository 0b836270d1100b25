/* digest.h - BLAKE2b-256 (libsodium), the only hash of the project: object names, record folders, integrity. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include "base/attune_status.h"

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = 32, DIGEST_HEX_BYTES = 65, DIGEST_SHORT_BYTES = 13 };

struct digest {
    uint8_t bytes[DIGEST_BYTES];
};

struct digest_state {
    _Alignas(64) unsigned char opaque[384]; /* crypto_generichash_state */
};

void digest_begin(struct digest_state *state);
void digest_update(struct digest_state *state, const void *bytes, size_t length);
/* length first, then the bytes: ("ab","c") and ("a","bc") differ */
void digest_field(struct digest_state *state, const void *bytes, size_t length);
void digest_end(struct digest_state *state, struct digest *digest);
void digest_of(const void *bytes, size_t length, struct digest *digest);
void digest_hex(const struct digest *digest, char hex[DIGEST_HEX_BYTES]);
/* the head of a text's digest, 12 hex digits: a candidate's id is that of its name */
void digest_short(const char *text, char id[DIGEST_SHORT_BYTES]);
/* of `length` characters; ATTUNE_INVALID for what digest_hex does not write */
attune_status digest_from_hex(const char *hex, size_t length, struct digest *digest);

#endif
