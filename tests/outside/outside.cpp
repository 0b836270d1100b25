// outside.cpp STORE TRAIL - attune from C++ with nothing but what is installed.
//
// Work first: a plan is prepared (compiled into STORE on the first run) and launched in several sizes, compared with a
// reference of its own. Then every function gets wrong arguments, each of which must answer a status and a message that
// names the argument. functions.inc and structs.inc list what the headers declare: a function that no call here is for
// fails the program, so that a new one cannot be forgotten.
#include <attune.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#define STRUCT(name)                                                                                                   \
    static_assert(std::is_standard_layout<name>::value && std::is_trivial<name>::value, #name " is plain data");
#include "structs.inc"
#undef STRUCT

namespace
{

std::map<std::string, int> calls;
std::FILE *trail;
int faults;

void fault(const std::string &text)
{
    std::printf("FAULT: %s\n", text.c_str());
    faults++;
}

// counts a call, and leaves its name where a crash can be read from
template <class Result, class... Parameters, class... Given>
Result call(const char *name, Result (*function)(Parameters...), Given... given)
{
    calls[name]++;
    std::rewind(trail);
    std::fprintf(trail, "%-60s\n", name);
    std::fflush(trail);
    return function(given...);
}
#define CALL(function, ...) call(#function, function __VA_OPT__(, ) __VA_ARGS__)

std::string last_error(attune_context *context)
{
    std::vector<char> text(CALL(attune_last_error, context, nullptr, size_t(0)) + 1);
    CALL(attune_last_error, context, text.data(), text.size());
    return text.data();
}

void check(attune_context *context, attune_status status, const char *what)
{
    if (status != ATTUNE_OK) {
        std::printf("%s: %s: %s\n", what, CALL(attune_status_name, status), last_error(context).c_str());
        std::exit(1);
    }
}

template <class Struct> Struct sized()
{
    Struct made{};
    made.size = sizeof made;
    return made;
}

// ---------------------------------------------------------------------------------------------- work

struct Scene {
    attune_context *context = nullptr;
    attune_device *device = nullptr;
    attune_problem *problem = nullptr;
    attune_plan *plan = nullptr;

    Scene(const char *store, attune_jit_mode mode)
    {
        auto options = sized<attune_context_options>();
        options.store = store;
        options.jit = mode;
        check(nullptr, CALL(attune_context_create, &options, &context), "context");
        if (mode != ATTUNE_JIT_FORBID) {
            check(context, CALL(attune_jit_register, context), "jit");
        }
        check(context, CALL(attune_device_open, context, "host", &device), "device");
        const attune_attention attention = good_attention();
        check(context, CALL(attune_problem_attention, context, &attention, &problem), "problem");
        check(context, CALL(attune_prepare, device, problem, nullptr, &plan), "prepare");
    }
    Scene(const Scene &) = delete;
    Scene &operator=(const Scene &) = delete;
    ~Scene()
    {
        CALL(attune_plan_destroy, plan);
        CALL(attune_problem_destroy, problem);
        CALL(attune_context_destroy, context);
    }

    static attune_attention good_attention()
    {
        auto attention = sized<attune_attention>();
        attention.q_dtype = ATTUNE_F32;
        attention.batch = 2;
        attention.heads = 4;
        attention.kv_heads = 2;
        attention.seqlen_q = 9;
        attention.head_dim_qk = 16;
        attention.causal = ATTUNE_CAUSAL_TOP_LEFT;
        attention.lse = 1;
        return attention;
    }
};

struct Case {
    int64_t batch, heads, kv_heads, seqlen_q, seqlen_k, dim = 16;
    std::vector<float> q, k, v, o, lse;

    Case(int64_t batches, int64_t head_count, int64_t queries, int64_t keys, unsigned seed)
        : batch(batches), heads(head_count), kv_heads(head_count / 2), seqlen_q(queries), seqlen_k(keys)
    {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        const auto fill = [&](std::vector<float> &into, int64_t count) {
            into.resize(size_t(count));
            std::generate(into.begin(), into.end(), [&] { return normal(random); });
        };
        fill(q, batch * seqlen_q * heads * dim);
        fill(k, batch * seqlen_k * kv_heads * dim);
        fill(v, batch * seqlen_k * kv_heads * dim);
        o.assign(q.size(), NAN);
        lse.assign(size_t(batch * heads * seqlen_q), NAN);
    }

    attune_attention_arguments arguments()
    {
        auto a = sized<attune_attention_arguments>();
        a.q = q.data();
        a.k = k.data();
        a.v = v.data();
        a.o = o.data();
        a.lse = lse.data();
        a.batch = batch;
        a.heads = heads;
        a.kv_heads = kv_heads;
        a.seqlen_q = seqlen_q;
        a.seqlen_k = seqlen_k;
        return a;
    }

    // largest difference to softmax in double precision, top-left causal
    double difference() const
    {
        double worst = 0;
        for (int64_t row = 0; row < batch * seqlen_q * heads; row++) {
            const int64_t head = row % heads, query = row / heads % seqlen_q, sequence = row / heads / seqlen_q;
            const int64_t visible = std::min(query + 1, seqlen_k);
            std::vector<double> weights(size_t(visible), 0.0), expected(size_t(dim), 0.0);
            double total = 0, largest = -INFINITY;
            const auto key = [&](int64_t j) { return ((sequence * seqlen_k + j) * kv_heads + head / 2) * dim; };
            for (int64_t j = 0; j < visible; j++) {
                for (int64_t d = 0; d < dim; d++) {
                    weights[size_t(j)] += double(q[size_t(row * dim + d)]) * double(k[size_t(key(j) + d)]) / 4;
                }
                largest = std::max(largest, weights[size_t(j)]);
            }
            for (double &weight : weights) {
                total += weight = std::exp(weight - largest);
            }
            for (int64_t j = 0; j < visible; j++) {
                for (int64_t d = 0; d < dim; d++) {
                    expected[size_t(d)] += weights[size_t(j)] * double(v[size_t(key(j) + d)]) / total;
                }
            }
            for (int64_t d = 0; d < dim; d++) {
                const double apart = std::fabs(double(o[size_t(row * dim + d)]) - expected[size_t(d)]);
                worst = apart <= worst ? worst : apart; // NaN stays
            }
            const size_t at = size_t((sequence * heads + head) * seqlen_q + query);
            const double apart = std::fabs(double(lse[at]) - (largest + std::log(total)));
            worst = apart <= worst ? worst : apart;
        }
        return worst;
    }
};

void work(Scene &scene)
{
    const int64_t sizes[][4] = {{2, 4, 9, 9}, {1, 2, 1, 40}, {3, 6, 33, 17}};
    for (const auto &size : sizes) {
        Case one(size[0], size[1], size[2], size[3], 7);
        auto arguments = one.arguments();
        check(scene.context, CALL(attune_launch_attention, scene.plan, &arguments, nullptr, nullptr, size_t(0)),
              "launch");
        const double apart = one.difference();
        if (!(apart < 1e-4)) {
            fault("a launch is wrong by " + std::to_string(apart));
        }
    }
    // two threads with one plan
    std::vector<Case> cases;
    for (unsigned i = 0; i < 2; i++) {
        cases.emplace_back(1, 4, 20, 30, 100 + i);
    }
    std::vector<attune_status> statuses(2, ATTUNE_INTERNAL);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 2; i++) {
        threads.emplace_back([&, i] {
            const auto arguments = cases[i].arguments();
            statuses[i] = attune_launch_attention(scene.plan, &arguments, nullptr, nullptr, 0);
        });
    }
    for (size_t i = 0; i < 2; i++) {
        threads[i].join();
        if (statuses[i] != ATTUNE_OK || !(cases[i].difference() < 1e-4)) {
            fault("a launch from a thread is wrong");
        }
    }
}

// ---------------------------------------------------------------------------------------------- misuse

void refused(const char *name, attune_context *context, attune_status status, const std::string &before,
             const std::string &word)
{
    const std::string message = last_error(context);
    if (status == ATTUNE_OK) {
        fault(std::string(name) + " takes a wrong " + word);
    } else if (message == before || message.find(word) == std::string::npos) {
        fault(std::string(name) + " does not name " + word + ": " + message);
    }
}

int serial;

// leaves a failure behind that is unlike every other, and gives its message
std::string unlike_any(attune_context *context)
{
    serial++;
    if (context == nullptr) {
        attune_context *none = nullptr;
        auto options = sized<attune_context_options>();
        options.tune_seconds = -serial;
        CALL(attune_context_create, &options, &none);
    } else {
        attune_problem *none = nullptr;
        const std::string text = "attention.forward heads=-" + std::to_string(serial);
        CALL(attune_problem_parse, context, text.c_str(), &none);
    }
    return last_error(context);
}

// A call with one wrong argument, to be named. keeper: whose message it is; NULL where the context or handle is wrong.
#define REFUSED(word, keeper, function, ...)                                                                           \
    do {                                                                                                               \
        const std::string before_it = unlike_any(keeper);                                                              \
        const attune_status answer = CALL(function, __VA_ARGS__);                                                      \
        refused(#function, keeper, answer, before_it, word);                                                           \
    } while (0)

// an enumerator that C++ itself could not make
template <class Enum> Enum wrong_enum(int value)
{
    static_assert(sizeof(Enum) == sizeof(int), "enums are as wide as int");
    Enum made;
    std::memcpy(&made, &value, sizeof made);
    return made;
}

void misuse_making(Scene &s, const char *store)
{
    attune_context *context = nullptr;
    attune_device *device = nullptr;
    attune_problem *problem = nullptr;
    auto options = sized<attune_context_options>();
    options.store = store;
    REFUSED("context", nullptr, attune_context_create, &options, nullptr);
    options.size = 3;
    REFUSED("options.size", nullptr, attune_context_create, &options, &context);
    options.size = sizeof options;
    options.tune_seconds = NAN;
    REFUSED("tune_seconds", nullptr, attune_context_create, &options, &context);
    REFUSED("context", nullptr, attune_jit_register, nullptr);
    REFUSED("context", nullptr, attune_device_open, nullptr, "host", &device);
    REFUSED("device", s.context, attune_device_open, s.context, "host", nullptr);
    REFUSED("tpu:0", s.context, attune_device_open, s.context, "tpu:0", &device);
    auto about = sized<attune_device_info>();
    REFUSED("device", nullptr, attune_device_describe, nullptr, &about);
    REFUSED("info", s.context, attune_device_describe, s.device, nullptr);
    about.size = 0;
    REFUSED("info.size", s.context, attune_device_describe, s.device, &about);
    auto attention = Scene::good_attention();
    REFUSED("context", nullptr, attune_problem_attention, nullptr, &attention, &problem);
    REFUSED("attention", s.context, attune_problem_attention, s.context, nullptr, &problem);
    REFUSED("problem", s.context, attune_problem_attention, s.context, &attention, nullptr);
    attention.kv_heads = 3;
    REFUSED("kv_heads=3", s.context, attune_problem_attention, s.context, &attention, &problem);
    REFUSED("context", nullptr, attune_problem_parse, nullptr, "attention.forward", &problem);
    REFUSED("text", s.context, attune_problem_parse, s.context, nullptr, &problem);
    REFUSED("problem", s.context, attune_problem_parse, s.context, "attention.forward", nullptr);
    REFUSED("colour", s.context, attune_problem_parse, s.context, "attention.forward colour=red", &problem);
    if (context != nullptr || device != nullptr || problem != nullptr) {
        fault("a failed call left a handle");
    }
}

void misuse_plans(Scene &s)
{
    attune_plan *plan = nullptr;
    auto options = sized<attune_prepare_options>();
    REFUSED("device", nullptr, attune_prepare, nullptr, s.problem, nullptr, &plan);
    REFUSED("problem", s.context, attune_prepare, s.device, nullptr, nullptr, &plan);
    REFUSED("plan", s.context, attune_prepare, s.device, s.problem, nullptr, nullptr);
    options.lowest_rung = wrong_enum<attune_rung>(99);
    REFUSED("lowest_rung", s.context, attune_prepare, s.device, s.problem, &options, &plan);
    auto info = sized<attune_plan_info>();
    REFUSED("plan", nullptr, attune_plan_describe, nullptr, &info);
    REFUSED("info", s.context, attune_plan_describe, s.plan, nullptr);
    info.size = 1;
    REFUSED("info.size", s.context, attune_plan_describe, s.plan, &info);
    if (plan != nullptr) {
        fault("a failed prepare left a plan");
    }
    if (CALL(attune_problem_text, nullptr, nullptr, size_t(9)) != 0) {
        fault("NULL has a problem text");
    }
    for (int value : {-1, 15, 99}) {
        if (std::strcmp(CALL(attune_status_name, wrong_enum<attune_status>(value)), "unknown status") != 0) {
            fault("an unknown status has a name");
        }
    }
    if (std::string(CALL(attune_version)) != std::to_string(ATTUNE_VERSION_MAJOR) + "." +
                                                 std::to_string(ATTUNE_VERSION_MINOR) + "." +
                                                 std::to_string(ATTUNE_VERSION_PATCH)) {
        fault("library and header are of two versions");
    }
    CALL(attune_plan_destroy, nullptr);
    CALL(attune_problem_destroy, nullptr);
    CALL(attune_context_destroy, nullptr);
}

void misuse_launches(Scene &s)
{
    const size_t none = 0;
    size_t bytes = 0;
    Case one(2, 4, 9, 9, 3);
    const auto good = one.arguments();
    auto wrong = good;
    const auto attention = Scene::good_attention();
    REFUSED("plan", nullptr, attune_launch_attention, nullptr, &good, nullptr, nullptr, none);
    REFUSED("arguments", s.context, attune_launch_attention, s.plan, nullptr, nullptr, nullptr, none);
    REFUSED("plan", nullptr, attune_workspace_attention, nullptr, &good, &bytes);
    REFUSED("arguments", s.context, attune_workspace_attention, s.plan, nullptr, &bytes);
    REFUSED("bytes", s.context, attune_workspace_attention, s.plan, &good, nullptr);
    REFUSED("device", nullptr, attune_attention_forward, nullptr, &attention, &good, nullptr, nullptr, none);
    REFUSED("attention", s.context, attune_attention_forward, s.device, nullptr, &good, nullptr, nullptr, none);
    REFUSED("arguments", s.context, attune_attention_forward, s.device, &attention, nullptr, nullptr, nullptr, none);
    const std::pair<const char *, void (*)(attune_attention_arguments &)> mistakes[] = {
        {"arguments.size", [](attune_attention_arguments &a) { a.size = 8; }},
        {"q is NULL", [](attune_attention_arguments &a) { a.q = nullptr; }},
        {"o=0x", [](attune_attention_arguments &a) { a.o = static_cast<char *>(a.o) + 1; }},
        {"lse is NULL", [](attune_attention_arguments &a) { a.lse = nullptr; }},
        {"batch=-1", [](attune_attention_arguments &a) { a.batch = -1; }},
        {"seqlen_k=", [](attune_attention_arguments &a) { a.seqlen_k = INT64_MAX; }},
        {"kv_heads", [](attune_attention_arguments &a) { a.kv_heads = 4; }},
        {"q_seq_stride", [](attune_attention_arguments &a) { a.q_seq_stride = -64; }},
        {"o_head_stride", [](attune_attention_arguments &a) { a.o_head_stride = 1; }},
        {"scale", [](attune_attention_arguments &a) { a.scale = INFINITY; }},
        {"dropout", [](attune_attention_arguments &a) { a.dropout = 0.5; }},
        {"offset", [](attune_attention_arguments &a) { a.offset = uint64_t(1) << 32; }},
        {"explicit_sizes=2", [](attune_attention_arguments &a) { a.explicit_sizes = 2; }},
    };
    for (const auto &[word, make] : mistakes) {
        wrong = good;
        make(wrong);
        REFUSED(word, s.context, attune_launch_attention, s.plan, &wrong, nullptr, nullptr, none);
    }
    attune_argument named[3] = {};
    named[0].name = "q";
    named[0].kind = ATTUNE_ARGUMENT_POINTER;
    named[0].pointer = one.q.data();
    named[1] = named[2] = named[0];
    const attune_argument *const list = named;
    REFUSED("plan", nullptr, attune_launch, nullptr, list, size_t(1), nullptr, nullptr, none);
    REFUSED("arguments", s.context, attune_launch, s.plan, nullptr, size_t(1), nullptr, nullptr, none);
    REFUSED("count", s.context, attune_launch, s.plan, list, SIZE_MAX, nullptr, nullptr, none);
    REFUSED("twice", s.context, attune_launch, s.plan, list, size_t(2), nullptr, nullptr, none);
    named[0].kind = wrong_enum<attune_argument_kind>(77);
    REFUSED("\"q\"", s.context, attune_launch, s.plan, list, size_t(1), nullptr, nullptr, none);
    for (float value : one.o) {
        if (!std::isnan(value)) {
            fault("a refused launch wrote o");
            break;
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3 || (trail = std::fopen(argv[2], "w")) == nullptr) {
        return 2;
    }
    {
        Scene scene(argv[1], ATTUNE_JIT_COMPILE);
        work(scene);
    }
    Scene scene(argv[1], ATTUNE_JIT_FORBID); // the store is filled
    work(scene);
    misuse_making(scene, argv[1]);
    misuse_plans(scene);
    misuse_launches(scene);
    const char *const functions[] = {
#define FUNCTION(name) #name,
#include "functions.inc"
#undef FUNCTION
    };
    for (const char *name : functions) {
        if (calls[name] == 0) {
            fault(std::string(name) + " is declared and never called here");
        }
    }
    std::printf("%d functions, %d wrong calls, %d faults\n", int(sizeof functions / sizeof *functions), serial, faults);
    return faults == 0 ? 0 : 1;
}
