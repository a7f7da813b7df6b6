//! As much of protocol buffers as an event needs (`tensorboard/compat/proto/event.proto`, `summary.proto`).

fn varint(out: &mut Vec<u8>, mut x: u64) {
    while x >= 0x80 {
        out.push(x as u8 | 0x80);
        x >>= 7;
    }
    out.push(x as u8);
}

/// A field of bytes: a text or a message.
fn bytes(out: &mut Vec<u8>, field: u64, data: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, data.len() as u64);
    out.extend(data);
}

/// Event.wall_time.
fn begin(wall_time: f64) -> Vec<u8> {
    let mut out = vec![1 << 3 | 1];
    out.extend(wall_time.to_le_bytes());
    out
}

/// The first event of a file: Event.file_version.
pub fn version(wall_time: f64) -> Vec<u8> {
    let mut out = begin(wall_time);
    bytes(&mut out, 3, b"brain.Event:2");
    out
}

/// Event.step, and Event.summary with one Value: tag and simple_value.
pub fn scalar(wall_time: f64, step: u64, tag: &str, value: f32) -> Vec<u8> {
    let mut inner = vec![];
    bytes(&mut inner, 1, tag.as_bytes());
    inner.push(2 << 3 | 5);
    inner.extend(value.to_le_bytes());
    let mut summary = vec![];
    bytes(&mut summary, 1, &inner);
    let mut out = begin(wall_time);
    varint(&mut out, 2 << 3);
    varint(&mut out, step);
    bytes(&mut out, 5, &summary);
    out
}
