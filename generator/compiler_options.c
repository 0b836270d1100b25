/* compiler_options.c - the flags of every compiler as text. */
#include "generator/compiler_options.h"

#include "base/environment.h"

#include <stdlib.h>
#include <string.h>

#define HIPRTC "-O3 -std=c++17"
#define CLANG                                                                                                          \
    "-x hip --cuda-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -nostdinc -O3 -std=c++17 -fuse-cuid=none"
/* 1097: NVRTC only warns about an attribute it does not know (a vector type) and then compiles something else. */
#define NVRTC "--std=c++17 --diag-error=1097"
/* -O1: -O3 costs half a second a kernel and host times mean nothing. No contraction: the same bits from g++ and
 * clang++. */
#define HOST                                                                                                           \
    "-x c++ -std=c++17 -O1 -w -fPIC -nostdinc -ffp-contract=off -fno-exceptions -fno-rtti -fno-stack-protector "       \
    "-fno-threadsafe-statics"
#define HOST_ADDRESS HOST " -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
#define HOST_THREAD HOST " -g1 -fno-omit-frame-pointer -fsanitize=thread"
#define LINK "-shared -z noexecstack --build-id=none"
#define LINK_WHOLE LINK " -z defs"
#define VERSION(n) " -mcode-object-version=" #n
#define AUTO(n) "hiprtc: " HIPRTC n " clang: " CLANG

static int code_object_row(int code_object)
{
    return code_object >= 4 && code_object <= 6 ? code_object - 3 : 0;
}

const char *compiler_flags(enum compiler_kind kind, enum sanitize sanitize, int code_object)
{
    static const char *const hiprtc[] = {HIPRTC, HIPRTC VERSION(4), HIPRTC VERSION(5), HIPRTC VERSION(6)};
    static const char *const clang[] = {CLANG VERSION(5), CLANG VERSION(4), CLANG VERSION(5), CLANG VERSION(6)};
    static const char *const host[] = {HOST " -g0", HOST_ADDRESS, HOST_THREAD};
    switch (kind) {
    case COMPILER_HIPRTC:
        return hiprtc[code_object_row(code_object)];
    case COMPILER_CLANG:
        return clang[code_object_row(code_object)];
    case COMPILER_NVRTC:
        return NVRTC;
    case COMPILER_HOST:
        return host[sanitize];
    case COMPILER_AUTO:
        break;
    }
    return "";
}

const char *compiler_link_flags(enum sanitize sanitize)
{
    /* A sanitized object takes its runtime from the runner program that loads it. */
    return sanitize == SANITIZE_NONE ? LINK_WHOLE : LINK;
}

const char *compiler_options_text(const struct target *target, enum compiler_kind kind, enum sanitize sanitize,
                                  int code_object)
{
    static const char *const automatic[] = {AUTO("") VERSION(5), AUTO(VERSION(4)) VERSION(4),
                                            AUTO(VERSION(5)) VERSION(5), AUTO(VERSION(6)) VERSION(6)};
    static const char *const host[] = {HOST " -g0 ld: " LINK_WHOLE, HOST_ADDRESS " ld: " LINK,
                                       HOST_THREAD " ld: " LINK};
    int version = 0;
    (void)compiler_code_object(code_object, &version, NULL);
    if (target->vendor == TARGET_NVIDIA) {
        return compiler_flags(COMPILER_NVRTC, SANITIZE_NONE, 0);
    }
    if (target->vendor == TARGET_HOST) {
        return host[sanitize];
    }
    return kind == COMPILER_AUTO ? automatic[code_object_row(version)] : compiler_flags(kind, SANITIZE_NONE, version);
}

attune_status compiler_code_object(int requested, int *code_object, struct error *error)
{
    const char *text = environment_get("ATTUNE_CODE_OBJECT");
    *code_object = 0;
    if (requested == 0 && text != NULL && *text != '\0') {
        if (strlen(text) != 1 || *text < '4' || *text > '6') {
            return error_set(error, ATTUNE_INVALID,
                             "ATTUNE_CODE_OBJECT=\"%s\" is no code object version: set 4 (ROCm 5), 5 or 6, or unset it",
                             text);
        }
        requested = *text - '0';
    }
    if (requested != 0 && (requested < 4 || requested > 6)) {
        return error_set(error, ATTUNE_INVALID, "code object version %d is not one of 4, 5, 6", requested);
    }
    *code_object = requested;
    return ATTUNE_OK;
}
