// Threads { points: 3200 }, 256 threads a block
struct Uniforms {
    o0: i32,
    o1: i32,
    o2: i32,
    p0: f32,
    p1: f32,
}

@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read> b1: array<f32>;
@group(0) @binding(2) var<storage, read_write> b2: array<f32>;
@group(0) @binding(3) var<uniform> u: Uniforms;

fn g_copysign(a: f32, b: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(a) & 0x7fffffffu) | (bitcast<u32>(b) & 0x80000000u));
}

fn g_expm1(x: f32) -> f32 {
    if (abs(x) > 0.35) { return exp(x) - 1.0; }
    return x * (1.0 + x * (0.5 + x * (0.16666667 + x * (0.041666668 + x * (0.008333334 + x * (0.0013888889 + x * 0.0001984127))))));
}

fn g_tanh(x: f32) -> f32 {
    let a = abs(x);
    if (a > 9.5) { return g_copysign(1.0, x); }
    let t = g_expm1(2.0 * a);
    return g_copysign(t / (t + 2.0), x);
}

@compute @workgroup_size(256)
fn gradus_kernel(
    @builtin(local_invocation_index) local: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let tid: i32 = i32(local);
    let v1: f32 = u.p0;
    let v6: f32 = u.p1;
    for (var r: i32 = i32(workgroup.x) * 256 + tid; r < 3200; r += i32(workgroups.x) * 256) {
        let i0: i32 = r / 100;
        let i1: i32 = r % 100;
        let v0: f32 = b0[u.o0 + 100 * i0 + i1];
        let v2: f32 = (v0 * v1);
        let v3: f32 = b1[u.o1 + i1];
        let v4: f32 = (v2 + v3);
        let v5: f32 = g_tanh(v4);
        let v7: f32 = (v5 * v6);
        let v8: f32 = (v7 + v0);
        b2[u.o2 + 100 * i0 + i1] = v8;
    }
}
