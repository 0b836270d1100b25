/* measurer_serve.c - the measuring program's side: requests from stdin to a measurer in this process, until stdin ends.
 *
 * Everything here trusts its parent's frames only as far as their lengths. What a candidate does to this process is the
 * parent's to notice.
 */
#include "autotune/measurer.h"
#include "autotune/measurer_protocol.h"
#include "base/files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct service {
    int input, output;
    const struct driver *driver; /* NULL: the request's */
    struct generator *generator;
    struct measurer *measurer;
    bool open, begun, timed;
    struct buffer payload, frame; /* of the request and of its reply */
    struct buffer step;
};

static bool send_frame(int file, struct buffer *frame)
{
    return message_end(frame, NULL) == ATTUNE_OK && file_write_fully(file, frame->data, frame->length) == 0;
}

static void tell_step(void *data, const char *what)
{
    struct service *service = data;
    message_begin(&service->step, MEASURE_STEP);
    message_add_text(&service->step, MEASURE_KEY_TEXT, what != NULL ? what : "");
    message_add_integer(&service->step, MEASURE_KEY_CANDIDATE, what != NULL);
    send_frame(service->output, &service->step); /* a parent that is gone ends us by our stdin */
}

static attune_status serve_open(struct service *service, const struct message *request, struct error *error)
{
    const char *text = message_text(request, MEASURE_KEY_PROBLEM);
    const struct generator_options options = {.template_path = message_text(request, MEASURE_KEY_TEMPLATES)};
    const struct driver *driver = service->driver;
    const struct schema *schema;
    struct problem problem;
    struct measurer_facts facts;
    char family[FAMILY_NAME_BYTES];
    int ordinal = 0;
    if (service->measurer != NULL) {
        return error_set(error, ATTUNE_INVALID, "a second problem for one measuring program");
    }
    attune_status status =
        driver != NULL ? ATTUNE_OK
                       : driver_parse_device(message_text(request, MEASURE_KEY_DEVICE), &driver, &ordinal, error);
    if (status == ATTUNE_OK) {
        status = generator_create(&options, &service->generator, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    snprintf(family, sizeof family, "%.*s", (int)strcspn(text, " "), text);
    schema = generator_schema(service->generator, family);
    if (schema == NULL) {
        return error_set(error, ATTUNE_NOT_FOUND, "the measuring program does not know the family '%s'", family);
    }
    status = problem_parse(schema, text, &problem, error);
    if (status == ATTUNE_OK) {
        const struct measurer_local_options local = {.generator = service->generator,
                                                     .problem = &problem,
                                                     .seed = (uint64_t)message_integer(request, MEASURE_KEY_SEED),
                                                     .driver = driver,
                                                     .ordinal = ordinal,
                                                     .timing = message_integer(request, MEASURE_KEY_TIMING) != 0,
                                                     .companions =
                                                         message_integer(request, MEASURE_KEY_COMPANIONS) != 0,
                                                     .flushes = message_integer(request, MEASURE_KEY_FLUSHES) != 0,
                                                     .step = tell_step,
                                                     .step_data = service};
        status = measurer_local(&local, &service->measurer, error);
    }
    if (status == ATTUNE_OK) {
        memset(&facts, 0, sizeof facts);
        status = measurer_open(service->measurer, &facts, error);
    }
    if (status == ATTUNE_OK) {
        message_add(&service->frame, MEASURE_KEY_FACTS, &facts, sizeof facts);
        service->open = true;
        service->timed = facts.timed;
    }
    return status;
}

static attune_status serve_begin(struct service *service, const struct message *request, struct error *error)
{
    struct judge_objects judge;
    struct launch reference, compare;
    attune_status status = ATTUNE_OK;
    if (service->begun) {
        return error_set(error, ATTUNE_INVALID, "a second begin for one measuring program");
    }
    bool judged = message_find(request, MEASURE_KEY_REFERENCE) != NULL;
    if (judged) {
        status = measure_object(request, MEASURE_KEY_REFERENCE, &reference, &judge.reference, error);
        if (status == ATTUNE_OK) {
            status = measure_object(request, MEASURE_KEY_COMPARE, &compare, &judge.compare, error);
        }
    }
    if (status == ATTUNE_OK) {
        status = service->measurer->kind->begin(service->measurer, judged ? &judge : NULL, error);
    }
    service->begun = status == ATTUNE_OK;
    return status;
}

static attune_status serve_check(struct service *service, const struct message *request, struct error *error)
{
    struct launch launch;
    struct kernel_object object;
    struct verdict verdict = {0};
    int64_t schedule = message_integer(request, MEASURE_KEY_SCHEDULE);
    attune_status status = measure_object(request, MEASURE_KEY_OBJECT, &launch, &object, error);
    if (status == ATTUNE_OK && (schedule < 0 || schedule > HOST_REVERSE)) {
        status = error_set(error, ATTUNE_INVALID, "there is no schedule %lld", (long long)schedule);
    }
    if (status == ATTUNE_OK) {
        status = measurer_check(service->measurer, &object, (enum host_schedule)schedule,
                                message_integer(request, MEASURE_KEY_COMPANIONS) != 0,
                                measure_number(request, MEASURE_KEY_NUMBER), &verdict, error);
    }
    if (status == ATTUNE_OK) {
        message_add_integer(&service->frame, MEASURE_KEY_RIGHT, verdict.right);
        message_add_integer(&service->frame, MEASURE_KEY_TOO_SLOW, verdict.too_slow);
        message_add_integer(&service->frame, MEASURE_KEY_INPUTS, verdict.kind);
        measure_add_number(&service->frame, MEASURE_KEY_RATIO, verdict.worst_ratio);
        message_add_integer(&service->frame, MEASURE_KEY_CALLS, verdict.calls);
        message_add_integer(&service->frame, MEASURE_KEY_COMPANION_CALLS, verdict.companions);
        message_add_text(&service->frame, MEASURE_KEY_TEXT, verdict.reason);
    }
    return status;
}

static attune_status serve_slot(struct service *service, const struct message *request, struct error *error)
{
    struct launch launch;
    struct kernel_object object;
    int64_t slot = message_integer(request, MEASURE_KEY_SLOT);
    double given = measure_number(request, MEASURE_KEY_NUMBER), number = 0.0;
    attune_status status = ATTUNE_OK;
    if (slot < 0 || slot >= MEASURER_SLOTS || !service->timed) {
        return error_set(error, ATTUNE_INVALID, "slot %lld: there is none, or nothing is timed", (long long)slot);
    }
    switch (request->kind) {
    case MEASURE_LOOK:
        status = measure_object(request, MEASURE_KEY_OBJECT, &launch, &object, error);
        if (status == ATTUNE_OK) {
            status = measurer_look(service->measurer, (int)slot, &object, given, &number, error);
        }
        break;
    case MEASURE_DROP:
        status = measurer_drop(service->measurer, (int)slot, error);
        break;
    case MEASURE_WARM:
        status = measurer_warm(service->measurer, (int)slot, given, error);
        break;
    default:
        status = measurer_sample(service->measurer, (int)slot, &number, error);
        break;
    }
    measure_add_number(&service->frame, MEASURE_KEY_NUMBER, number);
    return status;
}

static attune_status serve(struct service *service, const struct message *request, struct error *error)
{
    if (request->kind == MEASURE_OPEN) {
        return serve_open(service, request, error);
    }
    if (request->kind < MEASURE_OPEN || request->kind > MEASURE_SAMPLE) {
        return error_set(error, ATTUNE_UNSUPPORTED, "a request of kind %u", request->kind);
    }
    if (!service->open || (request->kind != MEASURE_BEGIN && !service->begun)) {
        return error_set(error, ATTUNE_INVALID, "a request of kind %u before its time", request->kind);
    }
    return request->kind == MEASURE_BEGIN   ? serve_begin(service, request, error)
           : request->kind == MEASURE_CHECK ? serve_check(service, request, error)
                                            : serve_slot(service, request, error);
}

/* false at the end of the requests */
static bool receive(struct service *service, struct message *request)
{
    unsigned char header[PROTOCOL_HEADER_BYTES];
    struct message_head head;
    buffer_clear(&service->payload);
    if (!file_read_fully(service->input, header, sizeof header) || message_header(header, &head, NULL) != ATTUNE_OK ||
        !buffer_reserve(&service->payload, (size_t)head.payload_bytes + 1) ||
        !file_read_fully(service->input, service->payload.data, head.payload_bytes)) {
        return false;
    }
    service->payload.length = head.payload_bytes;
    return message_parse(head.kind, service->payload.data, head.payload_bytes, request, NULL) == ATTUNE_OK;
}

int measurer_serve(int input, int output, const struct driver *driver)
{
    struct service service = {.input = input, .output = output, .driver = driver};
    struct message request;
    message_begin(&service.frame, MEASURE_HELLO);
    bool goes_on = send_frame(output, &service.frame);
    while (goes_on && receive(&service, &request)) {
        struct error error = {.message = ""};
        message_begin(&service.frame, MEASURE_REPLY);
        attune_status status = serve(&service, &request, &error);
        message_add_integer(&service.frame, MEASURE_KEY_STATUS, status);
        if (status != ATTUNE_OK) {
            message_add_text(&service.frame, MEASURE_KEY_TEXT, error.message);
            bool lost = service.measurer != NULL && measurer_fate(service.measurer) != MEASURER_WELL;
            message_add_integer(&service.frame, MEASURE_KEY_LOST, lost);
        }
        goes_on = send_frame(output, &service.frame);
    }
    measurer_close(service.measurer);
    if (service.generator != NULL) {
        generator_destroy(service.generator);
    }
    buffer_free(&service.payload);
    buffer_free(&service.frame);
    buffer_free(&service.step);
    return goes_on ? 0 : 1;
}
