// Blocks { points: 300 }, 16 threads a block
extern "C" __global__ void __launch_bounds__(16) gradus_kernel(const float* __restrict__ b0, float* __restrict__ b1) {
    __shared__ float s0_float[16];
    const int tid = threadIdx.x;
    for (int r = (int)blockIdx.x; r < 300; r += (int)gridDim.x) {
        const int from1 = tid * 512;
        int to1 = from1 + 512;
        if (to1 > 5000) { to1 = 5000; }
        float a1 = 0.0f;
        for (int c = from1; c < to1; c += 1) {
            const float v0 = b0[r + 300 * c];
            a1 = (a1 + v0);
        }
        s0_float[tid] = a1;
        __syncthreads();
        int near1 = 1;
        while (near1 < 16) {
            if (tid % (2 * near1) == 0 && tid + near1 < 10) {
                s0_float[tid] = (s0_float[tid] + s0_float[tid + near1]);
            }
            __syncthreads();
            near1 = near1 * 2;
        }
        const float v1 = s0_float[0];
        __syncthreads();
        if (tid == 0) { b1[r] = v1; }
    }
}
