//! Draws the names of cases.

/// Random numbers (SplitMix64): the same names for a seed on every machine.
struct Draw(u64);

/// `count` names for a seed.
pub fn names(seed: u64, count: usize) -> Vec<String> {
    // Neighbouring seeds begin far from each other.
    let mut d = Draw(Draw(seed).next());
    (0..count).map(|_| super::PREFIX.to_string() + &d.case()).collect()
}

const FLOATS: [&str; 8] = ["f32", "f32", "f32", "f32", "f32", "f64", "bf16", "f16"];
const NUMBERS: [&str; 8] = ["f32", "f32", "f32", "f64", "bf16", "i64", "i32", "u8"];

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    fn pick(&mut self, list: &[usize]) -> usize {
        list[self.below(list.len())]
    }

    /// An extent up to `most`: each power of two as likely as the next, and a half of them round numbers.
    fn size(&mut self, most: usize) -> usize {
        let bits = (most as f64).log2();
        let x = (self.below(1 << 20) as f64 / (1 << 20) as f64 * bits).exp2() as usize;
        let round = self.pick(&[1, 1, 1, 2, 8, 10, 16, 64]);
        (x.div_ceil(round) * round).clamp(1, most)
    }

    /// A shape of up to `most` elements.
    fn shape(&mut self, rank: usize, most: usize) -> Vec<usize> {
        let total = self.size(most).max(8);
        let mut left = total;
        let mut shape: Vec<usize> = (1..rank)
            .map(|_| {
                let n = self.size(left);
                left = (left / n).max(1);
                n
            })
            .collect();
        shape.push(left);
        for i in (1..rank).rev() {
            let j = self.below(i + 1);
            shape.swap(i, j);
        }
        shape
    }

    /// How an operand of this rank lies: a half of them one element after the other.
    fn layout(&mut self, rank: usize) -> &'static str {
        match rank {
            1 => self.of(&["c", "c", "c", "e"]),
            4 => self.of(&["c", "c", "c", "t", "s", "k"]),
            _ => self.of(&["c", "c", "c", "t", "s", "r", "e"]),
        }
    }

    fn operand(&mut self, types: &[&'static str], rank: usize, most: usize) -> (String, Vec<usize>) {
        let shape = self.shape(rank, most);
        let (kind, layout) = (self.of(types), self.layout(rank));
        (format!("{kind}@{}@{layout}", join(&shape)), shape)
    }

    fn case(&mut self) -> String {
        match self.below(20) {
            0 | 1 => self.unary(),
            2 | 3 => self.binary(),
            4..=6 => self.rows(),
            7..=9 => self.product(),
            10..=12 => self.convolution(),
            13 => self.pool(),
            14 | 15 => self.movement(),
            16 => self.look_up(),
            17 | 18 => self.network(),
            _ => self.attention(),
        }
    }

    fn unary(&mut self) -> String {
        let rank = 1 + self.below(4);
        let real = "exp tanh sigmoid gelu silu relu sin sqrt log square abs neg reciprocal rsqrt softplus elu round";
        let list: Vec<&str> = real.split(' ').collect();
        let f = self.of(&list);
        format!("{}:{f}:{}", self.of(&["un", "un", "ung"]), self.operand(&FLOATS, rank, 4_000_000).0)
    }

    fn binary(&mut self) -> String {
        let rank = 1 + self.below(3);
        let kind = self.of(&NUMBERS);
        let (a, shape) = self.operand(&[kind], rank, 4_000_000);
        let other: Vec<usize> = shape.iter().map(|n| if self.below(5) == 0 { 1 } else { *n }).collect();
        let layout = self.layout(rank);
        let f = self.of(&["add", "mul", "sub", "div", "maximum", "lt", "eq", "where"]);
        format!("bin:{f}:{a}:{kind}@{}@{layout}", join(&other))
    }

    fn rows(&mut self) -> String {
        let rank = 1 + self.below(4);
        let every = "sum mean amax argmax max var logsumexp softmax log_softmax norm cumsum all sort topk prod";
        let list: Vec<&str> = every.split(' ').collect();
        let f = self.of(&list);
        let types =
            if matches!(f, "sum" | "amax" | "argmax" | "max" | "cumsum" | "all" | "sort") { NUMBERS } else { FLOATS };
        let most = if f == "sort" { 300_000 } else { 4_000_000 };
        let (x, _) = self.operand(&types, rank, most);
        let axis = self.below(rank);
        match self.below(5) {
            0 => {
                format!("norm:{}:{}", self.of(&["layer", "rms", "layerg", "rmsg"]), self.operand(&FLOATS, rank, most).0)
            }
            1 if matches!(f, "softmax" | "log_softmax" | "logsumexp" | "mean" | "var" | "amax") => {
                format!("redg:{f}:{}:{axis}", self.operand(&["f32"], rank, most).0)
            }
            _ => format!("red:{f}:{x}:{axis}"),
        }
    }

    fn product(&mut self) -> String {
        let kind = self.of(&["f32", "f32", "f32", "f32", "f64", "bf16"]);
        let (m, k, n) = loop {
            let (m, k, n) = (self.size(3000), self.size(3000), self.size(3000));
            if m * k * n < 300_000_000 {
                break (m, k, n);
            }
        };
        let (l, q) = (self.of(&["c", "c", "t", "s"]), self.of(&["c", "c", "t", "s"]));
        match self.below(4) {
            0 => format!("linear:{}:{kind}:{m}x{k}x{n}", self.of(&["f", "f", "g"])),
            1 => {
                let batch = self.size((100_000_000 / (m * k * n)).clamp(1, 300));
                format!("mm:{kind}@{}@{l}:{kind}@{}@{q}", join(&[batch, m, k]), join(&[batch, k, n]))
            }
            _ => format!("mm:{kind}@{}@{l}:{kind}@{}@{q}", join(&[m, k]), join(&[k, n])),
        }
    }

    fn convolution(&mut self) -> String {
        loop {
            let axes = self.pick(&[1, 2, 2, 2, 2, 3]);
            let (k, stride) = (self.pick(&[1, 3, 3, 3, 5, 7, 2, 4]), self.pick(&[1, 1, 1, 2]));
            let side = self.size([4000, 150, 40][axes - 1]).max(k);
            let (mut c, mut o, n) = (self.size(600), self.size(600), self.size(40));
            let groups = match self.below(6) {
                0 => {
                    o = c;
                    c
                }
                1 => {
                    let g = self.pick(&[2, 4, 8]);
                    (c, o) = (c.div_ceil(g) * g, o.div_ceil(g) * g);
                    g
                }
                _ => 1,
            };
            let (padding, dilation) = if self.below(4) == 0 { (0, 1) } else { (k / 2, 1) };
            let out = ((side + 2 * padding - k) / stride + 1).pow(axes as u32);
            let work = n * o * out * (c / groups) * k.pow(axes as u32);
            if !(1_000..400_000_000).contains(&work) || n * side.pow(axes as u32) * c.max(o) > 6_000_000 {
                continue;
            }
            let mut x = vec![n, c];
            x.extend(vec![side; axes]);
            let mut w = vec![o, c / groups];
            w.extend(vec![k; axes]);
            let kind = self.of(&["f32", "f32", "f32", "f32", "f32", "f32", "f64", "bf16"]);
            let layout = if axes == 2 { self.of(&["c", "c", "c", "c", "k", "s"]) } else { "c" };
            let what = self.of(&["f", "i", "w"]);
            return format!(
                "conv:{what}:{kind}@{}@{layout}:{}:{stride}:{padding}:{dilation}:{groups}",
                join(&x),
                join(&w)
            );
        }
    }

    fn pool(&mut self) -> String {
        loop {
            let (k, stride) = (self.pick(&[2, 2, 3, 3, 5]), self.pick(&[1, 2, 2, 3]));
            let x = [self.size(40), self.size(300), self.size(120).max(k), self.size(120).max(k)];
            if x.iter().product::<usize>() > 4_000_000 {
                continue;
            }
            let padding = self.pick(&[0, 0, k / 2]);
            let (f, layout) = (self.of(&["max", "mean", "maxg", "meang"]), self.of(&["c", "c", "c", "k"]));
            return format!("pool:{f}:f32@{}@{layout}:{k}:{stride}:{padding}", join(&x));
        }
    }

    fn movement(&mut self) -> String {
        let rank = 2 + self.below(3);
        let f =
            self.of(&["cat", "stack", "permute", "permute", "flip", "roll", "repeat", "pad", "tril", "copy", "cast"]);
        let (x, _) = self.operand(&NUMBERS, rank, 2_000_000);
        let axis = self.below(rank);
        let argument = match f {
            "permute" => {
                let mut order: Vec<usize> = (0..rank).collect();
                for i in (1..rank).rev() {
                    let j = self.below(i + 1);
                    order.swap(i, j);
                }
                join(&order)
            }
            "cast" => self.of(&NUMBERS).to_string(),
            _ => axis.to_string(),
        };
        format!("move:{f}:{x}:{argument}")
    }

    fn look_up(&mut self) -> String {
        let rank = 2 + self.below(2);
        let f = self.of(&["select", "gather", "scatter_add", "index_add", "embedding", "embeddingg", "masked_fill"]);
        let (x, shape) = self.operand(&["f32", "f32", "bf16", "i64"], rank, 1_000_000);
        let (x, axis) = match f.starts_with("embedding") {
            true => (format!("f32@{}@c", join(&shape[..2])), 0),
            false => (x, self.below(rank)),
        };
        format!("ind:{f}:{x}:{axis}:{}", self.size(5000))
    }

    fn network(&mut self) -> String {
        let how = self.of(&["step", "infer"]);
        match self.below(4) {
            0 => {
                let mut sizes = vec![self.size(2000)];
                sizes.extend((0..1 + self.below(3)).map(|_| self.size(1200)));
                sizes.push(10);
                format!("net:{how}:mlp:{}:{}", join(&sizes), self.size(500))
            }
            1 => {
                let (side, batch) = (4 + self.size(60), self.size(32));
                let channels = [self.size(100), self.size(100)];
                format!("net:{how}:cnn:{}:{batch}", join(&[self.pick(&[1, 3]), side, channels[0], channels[1]]))
            }
            2 => {
                let (heads, head) = (self.pick(&[1, 2, 4, 6]), self.pick(&[16, 32, 40, 64]));
                let shape = [1 + self.below(2), heads, heads * head, self.size(200)];
                format!("net:{how}:gpt:{}:{}", join(&shape), self.size(8))
            }
            _ => {
                let (kind, shape) = (self.of(&["lstm", "gru"]), [self.size(200), self.size(400), self.size(60)]);
                format!("net:{how}:{kind}:{}:{}", join(&shape), self.size(64))
            }
        }
    }

    fn attention(&mut self) -> String {
        let (b, h, t, d) = (self.size(8), self.size(12), self.size(600), self.pick(&[16, 32, 40, 64, 80, 128]));
        let (causal, how) = (self.pick(&[0, 1]), self.of(&["f", "g"]));
        format!("attention:{how}:{}:{causal}", join(&[b, h, t, d]))
    }
}

/// Sizes with an `x` between them.
fn join(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}
