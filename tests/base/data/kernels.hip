/* kernels.hip - two small kernels with known facts: 128 threads, 1040 bytes of shared memory, a stack, five arguments; and a
 * plain second one. Compiled by make_objects into the objects beside it. */
#ifdef __HIP__
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define LANE __builtin_amdgcn_workitem_id_x()
#define BARRIER() __builtin_amdgcn_s_barrier()
#define BOUND(n) __attribute__((amdgpu_flat_work_group_size(n, n)))
#else
#define LANE threadIdx.x
#define BARRIER() __syncthreads()
#define BOUND(n) __launch_bounds__(n)
#endif

extern "C" __global__ BOUND(128) void attention_forward(const float *q, float *o, int n, long long stride, float scale)
{
    __shared__ float tile[260];
    volatile float local[5];
    int lane = LANE;
    tile[lane] = q[lane];
    BARRIER();
#pragma unroll 1
    for (int i = 0; i < 5; i++) {
        local[i] = tile[lane + i] * scale;
    }
    o[lane * stride] = local[n];
}

#ifdef ACCUMULATORS
extern "C" __global__ BOUND(256) void second(float *o)
{
    asm volatile("; uses accumulators" ::: "a7", "v19");
    o[LANE] = 1;
}
#else
extern "C" __global__ void second(float *o)
{
    o[LANE] = 1;
}
#endif
