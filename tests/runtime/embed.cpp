// embed.cpp - a C++ program that sees nothing of attune but its two headers and the library.
#include "attune.h"

#include <cstdio>
#include <cstring>

int main()
{
    attune_context_options options{};
    options.size = sizeof options;
    options.store = "/nonexistent/attune-test";
    options.jit = ATTUNE_JIT_FORBID;
    attune_context *context = nullptr;
    attune_problem *problem = nullptr;
    attune_attention attention{};
    attention.size = sizeof attention;
    attention.batch = 1;
    attention.heads = 2;
    attention.seqlen_q = 8;
    attention.head_dim_qk = 16;
    if (std::strcmp(attune_version(), "0.1.0") != 0 || attune_context_create(&options, &context) != ATTUNE_OK ||
        attune_problem_attention(context, &attention, &problem) != ATTUNE_OK) {
        return 1;
    }
    char text[1100];
    attune_problem_text(problem, text, sizeof text);
    std::printf("%s\n", text);
    attune_problem_destroy(problem);
    attune_context_destroy(context);
    return std::strstr(text, "attention.forward q_dtype=f16") == text ? 0 : 1;
}
