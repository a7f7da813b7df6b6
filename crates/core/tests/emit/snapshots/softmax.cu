// Blocks { points: 64 }, 64 threads a block
extern "C" __global__ void __launch_bounds__(64) gradus_kernel(const float* __restrict__ b0, float* __restrict__ b1) {
    __shared__ float s0_float[64];
    const int tid = threadIdx.x;
    for (int r = (int)blockIdx.x; r < 64; r += (int)gridDim.x) {
        float a1 = __int_as_float(0xff800000);
        for (int c = tid; c < 1000; c += 64) {
            const float v0 = b0[1000 * r + c];
            a1 = ((a1 > v0 || a1 != a1) ? a1 : v0);
        }
        s0_float[tid] = a1;
        __syncthreads();
        int half1 = 32;
        while (half1 > 0) {
            if (tid < half1) {
                s0_float[tid] = ((s0_float[tid] > s0_float[tid + half1] || s0_float[tid] != s0_float[tid]) ? s0_float[tid] : s0_float[tid + half1]);
            }
            __syncthreads();
            half1 = half1 / 2;
        }
        const float v1 = s0_float[0];
        __syncthreads();
        float a4 = 0.0f;
        for (int c = tid; c < 1000; c += 64) {
            const float v0 = b0[1000 * r + c];
            const float v2 = (v0 - v1);
            const float v3 = exp(v2);
            a4 = (a4 + v3);
        }
        s0_float[tid] = a4;
        __syncthreads();
        int half4 = 32;
        while (half4 > 0) {
            if (tid < half4) {
                s0_float[tid] = (s0_float[tid] + s0_float[tid + half4]);
            }
            __syncthreads();
            half4 = half4 / 2;
        }
        const float v4 = s0_float[0];
        __syncthreads();
        for (int c = tid; c < 1000; c += 64) {
            const float v0 = b0[1000 * r + c];
            const float v2 = (v0 - v1);
            const float v3 = exp(v2);
            const float v5 = (v3 / v4);
            b1[1000 * r + c] = v5;
        }
    }
}
