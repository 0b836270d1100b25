/* buffer.c - growable bytes; invariant: data is NULL or data[length] == 0 and length < capacity. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer)BUFFER_INIT;
}

void buffer_clear(struct buffer *buffer)
{
    buffer->length = 0;
    if (buffer->data) {
        buffer->data[0] = '\0';
    }
}

bool buffer_reserve(struct buffer *buffer, size_t capacity)
{
    if (buffer->failed) {
        return false;
    }
    if (buffer->data && capacity < buffer->capacity) {
        return true;
    }
    size_t grown = buffer->capacity < 64 ? 64 : buffer->capacity;
    while (grown <= capacity) {
        if (grown > SIZE_MAX / 2) {
            buffer->failed = true;
            return false;
        }
        grown *= 2;
    }
    char *data = realloc(buffer->data, grown);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = grown;
    data[buffer->length] = '\0';
    return true;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t length)
{
    if (length > SIZE_MAX - buffer->length) {
        buffer->failed = true;
        return;
    }
    if (!buffer_reserve(buffer, buffer->length + length)) {
        return;
    }
    if (length > 0) {
        memcpy(buffer->data + buffer->length, bytes, length);
    }
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void buffer_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_format(struct buffer *buffer, const char *format, ...)
{
    if (!buffer_reserve(buffer, buffer->length + 1)) {
        return;
    }
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(buffer->data + buffer->length, buffer->capacity - buffer->length, format, arguments);
    va_end(arguments);
    if (length < 0) {
        buffer->failed = true;
        buffer->data[buffer->length] = '\0';
    } else if ((size_t)length >= buffer->capacity - buffer->length) {
        buffer->data[buffer->length] = '\0';
        if (buffer_reserve(buffer, buffer->length + (size_t)length)) {
            vsnprintf(buffer->data + buffer->length, buffer->capacity - buffer->length, format, again);
            buffer->length += (size_t)length;
        }
    } else {
        buffer->length += (size_t)length;
    }
    va_end(again);
}

attune_status buffer_ok(const struct buffer *buffer, struct error *error)
{
    return buffer->failed ? error_no_memory(error) : ATTUNE_OK;
}

const char *buffer_string(const struct buffer *buffer)
{
    return buffer->data ? buffer->data : "";
}

char *buffer_take(struct buffer *buffer)
{
    char *data = NULL;
    if (buffer_reserve(buffer, buffer->length + 1)) {
        data = buffer->data;
        buffer->data = NULL;
    }
    buffer_free(buffer);
    return data;
}
