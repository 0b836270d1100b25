/* bad_helper.c - stands in for attune-helper and keeps to the protocol only as far as $BAD_HELPER says. */
#include "generator/compiler_protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *mode;

static bool is(const char *name)
{
    return strcmp(mode, name) == 0;
}

static void put(const void *bytes, size_t length)
{
    for (const char *at = bytes; length > 0;) {
        ssize_t done = write(1, at, length);
        if (done <= 0) {
            _exit(0);
        }
        at += done;
        length -= (size_t)done;
    }
}

static void get(void *bytes, size_t length)
{
    for (char *at = bytes; length > 0;) {
        ssize_t done = read(0, at, length);
        if (done <= 0) {
            _exit(0);
        }
        at += done;
        length -= (size_t)done;
    }
}

static _Noreturn void flood(int file)
{
    static char block[65536];
    memset(block, 'x', sizeof block);
    for (;;) {
        if (write(file, block, sizeof block) < 0) {
            _exit(0);
        }
    }
}

static _Noreturn void nothing(void)
{
    for (;;) {
        pause();
    }
}

static _Noreturn void trickle(const struct buffer *frame)
{
    for (size_t i = 0;; i++) {
        put(frame->data + i % frame->length, 1);
        usleep(50000);
    }
}

static void whole(struct buffer *frame, uint32_t kind, uint32_t request)
{
    (void)kind;
    if (message_end(frame, NULL) != ATTUNE_OK) {
        _exit(9);
    }
    message_set_request(frame, request);
}

static void hello(void)
{
    struct buffer frame = BUFFER_INIT;
    message_begin(&frame, is("hello-kind") ? MESSAGE_REPLY : MESSAGE_HELLO);
    whole(&frame, MESSAGE_HELLO, is("hello-number") ? 7 : 0);
    if (is("hello-silent")) {
        nothing();
    } else if (is("hello-flood")) {
        flood(1);
    } else if (is("hello-errors")) {
        flood(2);
    } else if (is("hello-closes")) {
        _exit(0);
    } else if (is("hello-half")) {
        put(frame.data, frame.length / 2);
        close(1);
        nothing();
    } else if (is("hello-trickle")) {
        frame.data[12] = (char)0xff; /* a payload follows, and follows, and follows */
        frame.data[13] = (char)0xff;
        trickle(&frame);
    } else if (is("hello-long")) {
        memset(frame.data + 12, 0xff, 4);
        put(frame.data, frame.length);
        flood(1);
    }
    put(frame.data, frame.length);
    buffer_free(&frame);
}

/* a good answer is the beginning of most bad ones */
static void reply(uint32_t request)
{
    struct buffer frame = BUFFER_INIT;
    message_begin(&frame, is("kind") ? MESSAGE_HELLO : is("unknown-kind") ? 77 : MESSAGE_REPLY);
    message_add_integer(&frame, KEY_STATUS, is("status") ? 12345 : is("status-negative") ? -1 : ATTUNE_OK);
    message_add_text(&frame, KEY_COMPILER,
                     is("long-texts") ? "0123456789012345678901234567890123456789"
                                        "0123456789012345678901234567890123456789"
                                        "0123456789012345678901234567890123456789"
                                      : "bad helper");
    message_add_text(&frame, KEY_IDENTITY, is("identity") ? "../../../../etc/passwd" : "");
    if (!is("no-object")) {
        message_add_text(&frame, KEY_OBJECT, is("empty-object") ? "" : "no code at all");
    }
    for (int i = 0; is("fields") && i < 40; i++) {
        message_add_text(&frame, KEY_TEXT, "again");
    }
    whole(&frame, MESSAGE_REPLY, is("number") ? request + 1 : is("number-before") ? request - 1 : request);
    if (is("field-length")) {
        memset(frame.data + PROTOCOL_HEADER_BYTES + 4, 0x7f, 4);
    } else if (is("length")) {
        memset(frame.data + 12, 0xff, 4);
    } else if (is("magic")) {
        frame.data[0] ^= 1;
    } else if (is("version")) {
        frame.data[4] = 99;
    } else if (is("half")) {
        put(frame.data, frame.length - 3);
        nothing();
    } else if (is("half-closes")) {
        put(frame.data, frame.length - 3);
        _exit(0);
    } else if (is("trickle")) {
        frame.data[13] = (char)0xff;
        trickle(&frame);
    }
    put(frame.data, frame.length);
    if (is("twice")) { /* and once more, for whoever asks next */
        put(frame.data, frame.length);
    }
    buffer_free(&frame);
}

static _Noreturn void eat(void)
{
    for (;;) {
        char *block = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block != MAP_FAILED) {
            memset(block, 1, 16 << 20);
        }
        usleep(5000);
    }
}

int main(void)
{
    mode = getenv("BAD_HELPER") != NULL ? getenv("BAD_HELPER") : "";
    hello();
    for (;;) {
        char header[PROTOCOL_HEADER_BYTES];
        struct message_head head;
        if (is("deaf")) {
            nothing(); /* requests larger than a pipe are never taken */
        }
        get(header, sizeof header);
        if (message_header(header, &head, NULL) != ATTUNE_OK) {
            return 8;
        }
        char *payload = malloc(head.payload_bytes + 1);
        get(payload, head.payload_bytes);
        free(payload);
        if (is("silent")) {
            nothing();
        } else if (is("flood")) {
            flood(1);
        } else if (is("errors")) {
            flood(2);
        } else if (is("exits")) {
            return 3;
        } else if (is("closes")) {
            close(1);
            nothing();
        } else if (is("eats")) {
            eat();
        } else if (is("daemon")) { /* leaves someone behind who holds the pipes */
            if (fork() == 0) {
                setsid();
                sleep(30);
                _exit(0);
            }
            return 0;
        }
        reply(head.request);
    }
}
