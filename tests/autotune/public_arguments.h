/* public_arguments.h - a call's sizes and strides as attune_launch_attention takes them. */
#ifndef TESTS_AUTOTUNE_PUBLIC_ARGUMENTS_H
#define TESTS_AUTOTUNE_PUBLIC_ARGUMENTS_H

#include "autotune/attention.h"
#include "runtime/attune.h"

/* everything explicit; the pointers are the caller's to set */
static inline attune_attention_arguments public_arguments(const struct attention *a)
{
    return (attune_attention_arguments){.size = sizeof(attune_attention_arguments),
                                        .batch = a->batch,
                                        .heads = a->heads,
                                        .kv_heads = a->kv_heads,
                                        .seqlen_q = a->seqlen_q,
                                        .seqlen_k = a->seqlen_k,
                                        .q_batch_stride = a->q.batch_stride,
                                        .q_seq_stride = a->q.seq_stride,
                                        .q_head_stride = a->q.head_stride,
                                        .k_batch_stride = a->k.batch_stride,
                                        .k_seq_stride = a->k.seq_stride,
                                        .k_head_stride = a->k.head_stride,
                                        .v_batch_stride = a->v.batch_stride,
                                        .v_seq_stride = a->v.seq_stride,
                                        .v_head_stride = a->v.head_stride,
                                        .o_batch_stride = a->o.batch_stride,
                                        .o_seq_stride = a->o.seq_stride,
                                        .o_head_stride = a->o.head_stride,
                                        .explicit_strides = 1,
                                        .explicit_sizes = 1};
}

#endif
