// Blocks { points: 300 }, 16 threads a block
struct Uniforms {
    o0: i32,
    o1: i32,
}

@group(0) @binding(0) var<storage, read> b0: array<f32>;
@group(0) @binding(1) var<storage, read_write> b1: array<f32>;
@group(0) @binding(2) var<uniform> u: Uniforms;
var<workgroup> s0_f32: array<f32, 16>;

@compute @workgroup_size(16)
fn gradus_kernel(
    @builtin(local_invocation_index) local: u32,
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
) {
    let tid: i32 = i32(local);
    for (var r: i32 = i32(workgroup.x); r < 300; r += i32(workgroups.x)) {
        let from1: i32 = tid * 512;
        var to1: i32 = from1 + 512;
        if (to1 > 5000) { to1 = 5000; }
        var a1: f32 = 0.0;
        for (var c: i32 = from1; c < to1; c += 1) {
            let v0: f32 = b0[u.o0 + r + 300 * c];
            a1 = (a1 + v0);
        }
        s0_f32[tid] = a1;
        workgroupBarrier();
        var near1: i32 = 1;
        while (near1 < 16) {
            if (tid % (2 * near1) == 0 && tid + near1 < 10) {
                s0_f32[tid] = (s0_f32[tid] + s0_f32[tid + near1]);
            }
            workgroupBarrier();
            near1 = near1 * 2;
        }
        let v1: f32 = s0_f32[0];
        workgroupBarrier();
        if (tid == 0) { b1[u.o1 + r] = v1; }
    }
}
