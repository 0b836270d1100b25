// engine.cpp - a small embedding program: prepares and launches attention through attune.h on the host device, twice
// or more, and checks every number against fp64. What the store and its surroundings do to an engine is seen here.
//
//   engine [--calls N] [--forbid | --tune] [--locale NAME] [--locale-late NAME] [--stack BYTES] [--wait FILE]
//          [--pause SECONDS] PROBLEM...
//
// A PROBLEM is the part after "attention.forward dtype=f32 ". Prints two lines a call: `plan OBJECT RUNG` and
// `output DIGEST`. Exit code 0: all right; 1: a call failed; 4: wrong numbers (with dropout they are not checked).
#include "attune.h"

#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <locale>
#include <pthread.h>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

struct Options {
    int calls = 1;
    bool forbid = false;
    bool tune = false;
    std::string locale, locale_late, wait;
    size_t stack = 0;
    unsigned pause = 0; // between problems
    std::vector<std::string> problems;
};

// a locale whose numbers are grouped and have a decimal comma, whatever is installed
struct Grouping : std::numpunct<char> {
    char do_decimal_point() const override
    {
        return ',';
    }
    char do_thousands_sep() const override
    {
        return '.';
    }
    std::string do_grouping() const override
    {
        return "\3";
    }
};

void enter(const std::string &name)
{
    if (name.empty()) {
        return;
    }
    std::locale::global(std::locale(std::locale(name.c_str()), new Grouping));
    if (std::setlocale(LC_ALL, name.c_str()) == nullptr) {
        std::fprintf(stderr, "engine: no locale %s\n", name.c_str());
        std::exit(77);
    }
}

[[noreturn]] void fail(attune_context *context, const char *what)
{
    char message[1024] = "";
    attune_last_error(context, message, sizeof message);
    std::fprintf(stderr, "engine: %s: %s\n", what, message);
    std::exit(1);
}

long number(const std::string &problem, const char *field, long otherwise)
{
    const std::string wanted = std::string(" ") + field + "=";
    const std::string text = " " + problem;
    const size_t at = text.find(wanted);
    return at == std::string::npos ? otherwise : std::strtol(text.c_str() + at + wanted.size(), nullptr, 10);
}

// contiguous [1, seqlen, heads, dim], as many keys as queries
bool right(const std::string &problem, const std::vector<float> &q, const std::vector<float> &k,
           const std::vector<float> &v, const std::vector<float> &o)
{
    const long heads = number(problem, "heads", 1), seqlen = number(problem, "seqlen_q", 1);
    const long dim = number(problem, "head_dim", 16), causal = number(problem, "causal", 0);
    double scale = 1 / std::sqrt(static_cast<double>(dim));
    const size_t given = problem.find("scale=");
    if (given != std::string::npos) { // whatever the locale says
        std::from_chars(problem.data() + given + 6, problem.data() + problem.size(), scale);
    }
    for (long head = 0; head < heads; head++) {
        for (long i = 0; i < seqlen; i++) {
            std::vector<double> sum(static_cast<size_t>(dim), 0.0);
            double total = 0;
            for (long j = 0; j < (causal != 0 ? i + 1 : seqlen); j++) {
                double score = 0;
                for (long d = 0; d < dim; d++) {
                    score += static_cast<double>(q[(i * heads + head) * dim + d]) * k[(j * heads + head) * dim + d];
                }
                const double weight = std::exp(score * scale);
                total += weight;
                for (long d = 0; d < dim; d++) {
                    sum[d] += weight * v[(j * heads + head) * dim + d];
                }
            }
            for (long d = 0; d < dim; d++) {
                if (!(std::fabs(sum[d] / total - o[(i * heads + head) * dim + d]) < 1e-5)) {
                    std::fprintf(stderr, "engine: head %ld, query %ld, element %ld is %g instead of %g\n", head, i, d,
                                 static_cast<double>(o[(i * heads + head) * dim + d]), sum[d] / total);
                    return false;
                }
            }
        }
    }
    return true;
}

void call(attune_context *context, attune_device *device, const std::string &problem)
{
    attune_problem *parsed = nullptr;
    attune_plan *plan = nullptr;
    const std::string text = "attention.forward dtype=f32 " + problem;
    if (attune_problem_parse(context, text.c_str(), &parsed) != ATTUNE_OK) {
        fail(context, "problem");
    }
    if (attune_prepare(device, parsed, nullptr, &plan) != ATTUNE_OK) {
        fail(context, "prepare");
    }
    attune_plan_info info = {};
    info.size = sizeof info;
    if (attune_plan_describe(plan, &info) != ATTUNE_OK) {
        fail(context, "describe");
    }
    std::printf("plan %s %d\n", info.object, static_cast<int>(info.rung));
    const size_t elements = static_cast<size_t>(number(problem, "heads", 1) * number(problem, "seqlen_q", 1) *
                                                number(problem, "head_dim", 16));
    std::vector<float> q(elements), k(elements), v(elements), o(elements, NAN);
    std::vector<char> workspace(info.workspace_bytes + 1);
    uint32_t state = 1;
    for (size_t i = 0; i < elements; i++) {
        for (std::vector<float> *x : {&q, &k, &v}) {
            state = state * 1664525 + 1013904223;
            (*x)[i] = static_cast<float>(state >> 8) / 8388608.0F - 1.0F;
        }
    }
    attune_attention_arguments arguments = {};
    arguments.size = sizeof arguments;
    arguments.q = q.data();
    arguments.k = k.data();
    arguments.v = v.data();
    arguments.o = o.data();
    if (attune_launch_attention(plan, &arguments, nullptr, workspace.data(), info.workspace_bytes) != ATTUNE_OK) {
        fail(context, "launch");
    }
    attune_plan_destroy(plan);
    attune_problem_destroy(parsed);
    uint64_t digest = 14695981039346656037U;
    for (const float value : o) {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        digest = (digest ^ bits) * 1099511628211U;
    }
    std::printf("output %016llx\n", static_cast<unsigned long long>(digest));
    if (problem.find("dropout") == std::string::npos && !right(problem, q, k, v, o)) {
        std::exit(4);
    }
}

void *run(void *data)
{
    const Options &options = *static_cast<const Options *>(data);
    attune_context *context = nullptr;
    attune_device *device = nullptr;
    attune_context_options chosen = {};
    chosen.size = sizeof chosen;
    chosen.jit = options.forbid ? ATTUNE_JIT_FORBID : options.tune ? ATTUNE_JIT_TUNE : ATTUNE_JIT_COMPILE;
    chosen.tune_seconds = 0.5;
    enter(options.locale);
    if (attune_context_create(&chosen, &context) != ATTUNE_OK || attune_jit_register(context) != ATTUNE_OK ||
        attune_device_open(context, "host", &device) != ATTUNE_OK) {
        fail(context, "context");
    }
    for (int i = 0; i < options.calls; i++) {
        for (const std::string &problem : options.problems) {
            call(context, device, problem);
            sleep(options.pause);
            enter(options.locale_late);
        }
    }
    attune_context_destroy(context);
    return nullptr;
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        if (word == "--forbid" || word == "--tune") {
            (word == "--tune" ? options.tune : options.forbid) = true;
        } else if (word.rfind("--", 0) == 0 && i + 1 < argc) {
            const std::string value = argv[++i];
            if (word == "--calls") {
                options.calls = std::atoi(value.c_str());
            } else if (word == "--stack") {
                options.stack = static_cast<size_t>(std::atol(value.c_str()));
            } else if (word == "--locale") {
                options.locale = value;
            } else if (word == "--locale-late") {
                options.locale_late = value;
            } else if (word == "--show-locale") { // that it is a real one
                enter(value);
                std::ostringstream text;
                text << 0.125 << ' ' << std::fixed << std::setprecision(1) << 1024.5;
                std::printf("%s\n", text.str().c_str());
                return 0;
            } else if (word == "--pause") {
                options.pause = static_cast<unsigned>(std::atoi(value.c_str()));
            } else if (word == "--wait") {
                options.wait = value;
            } else {
                return 2;
            }
        } else {
            options.problems.push_back(word);
        }
    }
    while (!options.wait.empty() && access(options.wait.c_str(), F_OK) != 0) {
        usleep(500);
    }
    if (options.stack == 0) {
        run(&options);
        return 0;
    }
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, options.stack) != 0 ||
        pthread_create(&thread, &attributes, run, &options) != 0) {
        return 2;
    }
    pthread_join(thread, nullptr);
    return 0;
}
