// Blocks { points: 64 }, 64 threads a block
struct Uniforms {
    o0: i32,
    o1: i32,
}

@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<uniform> u: Uniforms;
var<workgroup> s0_f32: array<f32, 64>;

fn g_bits(b: u32) -> f32 {
    var x: u32 = b;
    return bitcast<f32>(x);
}

@compute @workgroup_size(64)
fn gradus_kernel(
    @builtin(local_invocation_index) local: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let tid: i32 = i32(local);
    for (var r: i32 = i32(workgroup.x); r < 64; r += i32(workgroups.x)) {
        var a1: f32 = g_bits(0xff800000u);
        for (var c: i32 = tid; c < 1000; c += 64) {
            let v0: f32 = b0[u.o0 + 1000 * r + c];
            a1 = select(v0, a1, a1 > v0 || a1 != a1);
        }
        s0_f32[tid] = a1;
        workgroupBarrier();
        var half1: i32 = 32;
        while (half1 > 0) {
            if (tid < half1) {
                s0_f32[tid] = select(s0_f32[tid + half1], s0_f32[tid], s0_f32[tid] > s0_f32[tid + half1] || s0_f32[tid] != s0_f32[tid]);
            }
            workgroupBarrier();
            half1 = half1 / 2;
        }
        let v1: f32 = s0_f32[0];
        workgroupBarrier();
        var a4: f32 = 0.0;
        for (var c: i32 = tid; c < 1000; c += 64) {
            let v0: f32 = b0[u.o0 + 1000 * r + c];
            let v2: f32 = (v0 - v1);
            let v3: f32 = exp(v2);
            a4 = (a4 + v3);
        }
        s0_f32[tid] = a4;
        workgroupBarrier();
        var half4: i32 = 32;
        while (half4 > 0) {
            if (tid < half4) {
                s0_f32[tid] = (s0_f32[tid] + s0_f32[tid + half4]);
            }
            workgroupBarrier();
            half4 = half4 / 2;
        }
        let v4: f32 = s0_f32[0];
        workgroupBarrier();
        for (var c: i32 = tid; c < 1000; c += 64) {
            let v0: f32 = b0[u.o0 + 1000 * r + c];
            let v2: f32 = (v0 - v1);
            let v3: f32 = exp(v2);
            let v5: f32 = (v3 / v4);
            b1[u.o1 + 1000 * r + c] = v5;
        }
    }
}
