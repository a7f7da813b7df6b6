// Threads { points: 3200 }, 256 threads a block
extern "C" __global__ void __launch_bounds__(256) gradus_kernel(const float* __restrict__ b0, const float* __restrict__ b1, float* __restrict__ b2, const float p0, const float p1) {
    const float v1 = p0;
    const float v6 = p1;
    for (int r = (int)(blockIdx.x * 256 + threadIdx.x); r < 3200; r += (int)(gridDim.x * 256)) {
        const int i0 = r / 100;
        const int i1 = r % 100;
        const float v0 = b0[100 * i0 + i1];
        const float v2 = (v0 * v1);
        const float v3 = b1[i1];
        const float v4 = (v2 + v3);
        const float v5 = tanh(v4);
        const float v7 = (v5 * v6);
        const float v8 = (v7 + v0);
        b2[100 * i0 + i1] = v8;
    }
}
