/* session.c - context, device and plans for commands; see session.h. */
#include "cli/session.h"

attune_status session_error(const struct session *session, attune_status status, struct error *error)
{
    char message[ERROR_MESSAGE_BYTES];
    attune_last_error(session->context, message, sizeof message);
    return error_set(error, status, "%s", message[0] != '\0' ? message : attune_status_name(status));
}

attune_status session_open(struct cli *cli, attune_jit_mode mode, struct session *session, struct error *error)
{
    const char *name = options_text(&cli->options, "device");
    *session = (struct session){0};
    attune_status status = cli_known_device(cli, name, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = driver_parse_device(name != NULL ? name : "", &session->driver, &session->ordinal, error);
    if (status != ATTUNE_OK) {
        return error_prefix(error, "--device");
    }
    attune_context_options settings = {
        .size = sizeof settings, .store = options_text(&cli->options, "store"), .jit = mode};
    driver_format_device(session->driver, session->ordinal, session->device_name);
    status = attune_context_create(&settings, &session->context);
    if (status == ATTUNE_OK) {
        status = attune_jit_register(session->context);
    }
    if (status == ATTUNE_OK) {
        status = attune_device_open(session->context, session->device_name, &session->device);
    }
    if (status != ATTUNE_OK) {
        session_error(session, status, error);
        session_close(session);
    }
    return status;
}

void session_close(struct session *session)
{
    attune_context_destroy(session->context);
    *session = (struct session){0};
}

attune_status session_prepare(const struct session *session, const struct problem *problem, const char *candidate,
                              attune_plan **plan, attune_plan_info *info, struct error *error)
{
    char text[PROBLEM_TEXT_BYTES];
    attune_problem *handle = NULL;
    attune_prepare_options settings = {.size = sizeof settings, .candidate = candidate};
    *plan = NULL;
    attune_status status = problem_format(problem, text, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = attune_problem_parse(session->context, text, &handle);
    if (status == ATTUNE_OK) {
        status = attune_prepare(session->device, handle, &settings, plan);
    }
    if (status == ATTUNE_OK) {
        *info = (attune_plan_info){.size = sizeof *info};
        status = attune_plan_describe(*plan, info);
    }
    if (status != ATTUNE_OK) {
        session_error(session, status, error);
        attune_plan_destroy(*plan);
        *plan = NULL;
    }
    attune_problem_destroy(handle);
    return status;
}

const char *rung_name(attune_rung rung)
{
    switch (rung) {
    case ATTUNE_RUNG_DEFAULT:
        return "default";
    case ATTUNE_RUNG_NEAR:
        return "near";
    case ATTUNE_RUNG_EXACT:
        return "exact";
    }
    return "unknown";
}

json_t *describe_plan(const attune_plan_info *info)
{
    json_t *row = json_object();
    json_set_text(row, "rung", rung_name(info->rung));
    json_set_text(row, "candidate", info->candidate);
    json_set_text(row, "id", info->candidate_id);
    json_set_text(row, "object", info->object);
    json_set_text(row, "compiler", info->compiler);
    json_set_whole(row, "threads", info->threads);
    json_set_whole(row, "shared_bytes", info->shared_bytes);
    json_set_whole(row, "workspace_bytes", (int64_t)info->workspace_bytes);
    json_set_real(row, "winner_microseconds", info->winner_microseconds);
    json_set_real(row, "default_microseconds", info->default_microseconds);
    return row;
}
