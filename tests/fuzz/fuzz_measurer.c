/* What the measuring program and its watchdog read from each other's frames. That program runs candidates, which may
 * have written into it: nothing that it says is trusted. The input is a frame's payload. */
#include "autotune/measurer_protocol.h"
#include "tests/fuzz/fuzz.h"

static void check_object(const struct message *message, uint32_t key)
{
    struct launch launch;
    struct kernel_object object;
    struct error error = {.message = ""};
    attune_status status = measure_object(message, key, &launch, &object, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        struct buffer again = BUFFER_INIT;
        HOLDS(object.launch == &launch && launch.threads >= 1 && launch.threads <= 1024, "%u threads", launch.threads);
        message_begin(&again, MEASURE_CHECK);
        HOLDS(measure_add_object(&again, key, &object, &error) == ATTUNE_OK, "not written: %s", error.message);
        HOLDS(message_end(&again, &error) == ATTUNE_OK, "not written: %s", error.message);
        buffer_free(&again);
    }
}

static void check_facts(const struct message *message)
{
    struct measurer_facts facts;
    struct error error = {.message = ""};
    attune_status status = measure_facts(message, &facts, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        char text[TARGET_TEXT_BYTES];
        struct target target;
        target_format(&facts.device.target, text);
        HOLDS(target_parse(text, &target, NULL) == ATTUNE_OK, "target '%s'", text);
        HOLDS(strlen(facts.device.name) < sizeof facts.device.name, "a name without end");
        HOLDS(facts.operations >= 0, "%g operations", facts.operations);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct message message;
    struct error error = {.message = ""};
    uint8_t *payload = fuzz_bytes(data, size);
    attune_status status = message_parse(MEASURE_REPLY, payload, size, &message, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        check_object(&message, MEASURE_KEY_OBJECT);
        check_object(&message, MEASURE_KEY_REFERENCE);
        check_object(&message, MEASURE_KEY_COMPARE);
        check_facts(&message);
        status = measure_status(&message, &error);
        HOLDS(status >= ATTUNE_OK && status <= ATTUNE_INTERNAL && status == error.status, "status %d", (int)status);
        HOLDS((status == ATTUNE_OK) == (error.message[0] == '\0'), "status %d says '%s'", (int)status, error.message);
        (void)measure_number(&message, MEASURE_KEY_NUMBER);
    }
    free(payload);
    return 0;
}
