//! Recurrent layers, attention and transformers against PyTorch; and decoding with a cache against decoding without.

mod common;

use common::{Fixtures, near};
use gradus_core::{DType, Result, Tensor};
use gradus_nn::*;

fn fixtures() -> Fixtures {
    Fixtures::load("sequences.safetensors")
}

fn options() -> RnnOptions {
    RnnOptions::default()
}

#[test]
fn recurrent_layers() -> Result<()> {
    let f = fixtures();
    let rnn = Rnn::new(3, 4)?;
    f.check("rnn", &rnn, |x| rnn.forward(&x[0], None).map(|(y, h)| vec![y, h]));
    let rnn = Rnn::with(3, 4, RnnOptions { num_layers: 2, batch_first: true, ..options() })?;
    let rnn = rnn.nonlinearity(Nonlinearity::Relu);
    f.check("rnn_relu_state", &rnn, |x| rnn.forward(&x[0], Some(&x[1])).map(|(y, h)| vec![y, h]));
    let gru = Gru::new(3, 4)?;
    f.check("gru", &gru, |x| gru.forward(&x[0], None).map(|(y, h)| vec![y, h]));
    let gru = Gru::with(3, 2, RnnOptions { num_layers: 2, bidirectional: true, ..options() })?;
    f.check("gru_both_ways", &gru, |x| gru.forward(&x[0], Some(&x[1])).map(|(y, h)| vec![y, h]));
    Ok(())
}

fn flat((y, (h, c)): (Tensor, (Tensor, Tensor))) -> Vec<Tensor> {
    vec![y, h, c]
}

#[test]
fn lstm() -> Result<()> {
    let f = fixtures();
    let lstm = Lstm::new(3, 4)?;
    f.check("lstm", &lstm, |x| lstm.forward(&x[0], None).map(flat));
    let start = |x: &[Tensor]| (x[1].clone(), x[2].clone());
    f.check("lstm_unbatched", &lstm, |x| lstm.forward(&x[0], Some(&start(x))).map(flat));
    let both = RnnOptions { num_layers: 2, bidirectional: true, batch_first: true, ..options() };
    let lstm = Lstm::with(3, 2, both)?;
    f.check("lstm_stacked_both_ways", &lstm, |x| lstm.forward(&x[0], Some(&start(x))).map(flat));
    let lstm = Lstm::with(3, 4, RnnOptions { proj_size: 2, bias: false, ..options() })?;
    f.check("lstm_projected", &lstm, |x| lstm.forward(&x[0], None).map(flat));
    Ok(())
}

#[test]
fn sequences_of_different_lengths() -> Result<()> {
    let f = fixtures();
    let lstm = Lstm::with(3, 2, RnnOptions { num_layers: 2, bidirectional: true, ..options() })?;
    f.check("lstm_lengths", &lstm, |x| lstm.forward_lengths(&x[0], &[4, 2, 3], None).map(flat));
    let gru = Gru::with(3, 2, RnnOptions { bidirectional: true, ..options() })?;
    f.check("gru_lengths", &gru, |x| gru.forward_lengths(&x[0], &[4, 2, 3], None).map(|(y, h)| vec![y, h]));
    Ok(())
}

#[test]
fn cells() {
    let f = fixtures();
    let cell = RnnCell::new(3, 4);
    f.check("rnn_cell", &cell, |x| Ok(vec![cell.forward(&x[0], Some(&x[1]))?]));
    let cell = GruCell::new(3, 4);
    f.check("gru_cell", &cell, |x| Ok(vec![cell.forward(&x[0], Some(&x[1]))?]));
    let cell = LstmCell::new(3, 4);
    f.check("lstm_cell", &cell, |x| cell.forward(&x[0], Some(&(x[1].clone(), x[2].clone()))).map(|(h, c)| vec![h, c]));
}

#[test]
fn dropout_between_layers_is_for_training() -> Result<()> {
    let lstm = Lstm::with(3, 4, RnnOptions { num_layers: 2, dropout: 0.5, ..options() })?;
    let x = Tensor::randn([5, 2, 3]);
    let run = || lstm.forward(&x, None).map(|(y, _)| y);
    assert!(!run()?.equal(&run()?)?);
    lstm.eval();
    assert!(run()?.equal(&run()?)?);
    Ok(())
}

/// The last two of five keys of the first sequence are padding.
fn hidden() -> Tensor {
    Tensor::from([[false, false, false, true, true], [false; 5]])
}

#[test]
fn attention() -> Result<()> {
    let f = fixtures();
    let batch_first = MultiheadAttentionOptions { batch_first: true, ..Default::default() };
    let padded = AttentionMasks::padding(&hidden());
    let causal = AttentionMasks::causal();
    let m = MultiheadAttention::with(4, 2, batch_first)?;
    f.check("attention_self", &m, |x| {
        let (y, w) = m.forward_with_weights(&x[0], &x[0], &x[0], &padded, true)?;
        near("both ways", &m.forward(&x[0], &x[0], &x[0], &padded)?, &y);
        Ok(vec![m.forward(&x[0], &x[0], &x[0], &padded)?, w])
    });
    let m = MultiheadAttention::new(4, 2)?;
    f.check("attention_causal", &m, |x| {
        let (y, w) = m.forward_with_weights(&x[0], &x[0], &x[0], &causal, false)?;
        near("both ways", &m.forward(&x[0], &x[0], &x[0], &causal)?, &y);
        let by_mask = AttentionMasks { attn_mask: Some(causal_mask(5)?), ..Default::default() };
        near("by a mask", &m.forward(&x[0], &x[0], &x[0], &by_mask)?, &y);
        Ok(vec![m.forward(&x[0], &x[0], &x[0], &causal)?, w])
    });
    let m = MultiheadAttention::with(4, 2, MultiheadAttentionOptions { kdim: Some(3), vdim: Some(5), ..batch_first })?;
    f.check("attention_cross", &m, |x| {
        let (y, w) = m.forward_with_weights(&x[0], &x[1], &x[2], &padded, true)?;
        near("both ways", &m.forward(&x[0], &x[1], &x[2], &padded)?, &y);
        Ok(vec![m.forward(&x[0], &x[1], &x[2], &padded)?, w])
    });
    let extras =
        MultiheadAttentionOptions { add_bias_kv: true, add_zero_attn: true, bias: false, ..Default::default() };
    let m = MultiheadAttention::with(4, 2, extras)?;
    f.check("attention_extras", &m, |x| {
        let masks = AttentionMasks::default();
        let (y, w) = m.forward_with_weights(&x[0], &x[1], &x[1], &masks, true)?;
        near("both ways", &m.forward(&x[0], &x[1], &x[1], &masks)?, &y);
        Ok(vec![m.forward(&x[0], &x[1], &x[1], &masks)?, w])
    });
    let m = MultiheadAttention::new(4, 1)?;
    f.check("attention_unbatched", &m, |x| {
        let masks = AttentionMasks::default();
        let (_, w) = m.forward_with_weights(&x[0], &x[0], &x[0], &masks, true)?;
        Ok(vec![m.forward(&x[0], &x[0], &x[0], &masks)?, w])
    });
    Ok(())
}

fn small() -> TransformerOptions {
    TransformerOptions { dim_feedforward: 6, dropout: 0.0, batch_first: true, ..Default::default() }
}

#[test]
fn transformers() -> Result<()> {
    let f = fixtures();
    let layer = TransformerEncoderLayer::new(4, 2, small())?;
    f.check("encoder_layer", &layer, |x| {
        let y = layer.forward(&x[0], &AttentionMasks::padding(&hidden()))?;
        Ok(vec![hidden().unsqueeze(-1)?.where_(0.0, &y)?])
    });
    let pre = TransformerOptions { norm_first: true, activation: FeedForwardActivation::Gelu, ..small() };
    let layer = TransformerEncoderLayer::new(4, 2, TransformerOptions { bias: false, ..pre })?;
    f.check("encoder_layer_pre", &layer, |x| Ok(vec![layer.forward(&x[0], &AttentionMasks::causal())?]));
    let options = TransformerOptions { norm_first: true, ..small() };
    let encoder = TransformerEncoder::new(4, 2, 2, options)?.norm(LayerNorm::new(4));
    f.check("encoder", &encoder, |x| Ok(vec![encoder.forward(&x[0], &AttentionMasks::default())?]));
    let layer = TransformerDecoderLayer::new(4, 2, small())?;
    f.check("decoder_layer", &layer, |x| Ok(vec![layer.forward(&x[0], &x[1], &DecoderMasks::causal())?]));
    let decoder = TransformerDecoder::new(4, 2, 2, TransformerOptions { batch_first: false, ..pre })?;
    let decoder = decoder.norm(LayerNorm::new(4));
    f.check("decoder", &decoder, |x| {
        let masks = DecoderMasks { memory: AttentionMasks::padding(&hidden()), ..DecoderMasks::causal() };
        Ok(vec![decoder.forward(&x[0], &x[1], &masks)?])
    });
    let whole = Transformer::new(4, 2, 1, 2, small())?;
    f.check("transformer", &whole, |x| Ok(vec![whole.forward(&x[0], &x[1], &TransformerMasks::causal(None))?]));
    Ok(())
}

#[test]
fn decoding_with_a_cache_is_decoding() -> Result<()> {
    let (e, steps) = (8, 7);
    let memory = Tensor::randn([2, 5, e]);
    let x = Tensor::randn([2, steps, e]);
    for options in [small(), TransformerOptions { norm_first: true, ..small() }] {
        let decoder = TransformerDecoder::new(e, 2, 2, options)?.norm(LayerNorm::new(e));
        let masks = DecoderMasks { memory: AttentionMasks::padding(&hidden()), ..DecoderMasks::causal() };
        let want = decoder.forward(&x, &memory, &masks)?;
        let mut cache = decoder.cache(70); // more than one block of keys
        // A prompt of three, then one by one.
        let mut parts = vec![decoder.forward_cached(&x.narrow(1, 0, 3)?, &memory, &masks.memory, &mut cache)?];
        for t in 3..steps {
            parts.push(decoder.forward_cached(&x.narrow(1, t, 1)?, &memory, &masks.memory, &mut cache)?);
        }
        assert_eq!(cache.len(), steps);
        near("decoder", &Tensor::cat(&parts.iter().collect::<Vec<_>>(), 1)?, &want);
    }
    Ok(())
}

#[test]
fn rotary_positions() -> Result<()> {
    // Products of rotated vectors depend on the distance alone, and lengths stay.
    let (q, k) = (Tensor::randn([6]).to_dtype(DType::F64), Tensor::randn([6]).to_dtype(DType::F64));
    for layout in [RotaryLayout::Halves, RotaryLayout::Interleaved] {
        let mut rotary = RotaryEmbedding::with(6, 100.0, layout)?;
        rotary.to_dtype(DType::F64)?;
        let at = |x: &Tensor, p: usize| rotary.forward_from(&x.reshape([1, 6])?, p)?.reshape([6]);
        let product = |p: usize, r: usize| at(&q, p)?.dot(&at(&k, r)?)?.item::<f64>();
        assert!((product(3, 1)? - product(12, 10)?).abs() < 1e-9);
        assert!((product(3, 1)? - product(3, 2)?).abs() > 1e-6);
        near("length", &at(&q, 5)?.square().sum(), &q.square().sum());
        near("start", &at(&q, 0)?, &q);
    }
    // By hand: one pair, angle = position.
    let rotary = RotaryEmbedding::new(2)?;
    let y = rotary.forward(&Tensor::from([[1.0f32, 0.0], [1.0, 0.0]]))?;
    near("by hand", &y, &Tensor::from([[1.0f32, 0.0], [1f32.cos(), 1f32.sin()]]));
    // In attention, a cache goes on where it stopped.
    let options = MultiheadAttentionOptions { batch_first: true, ..Default::default() };
    let m = MultiheadAttention::with(8, 2, options)?.rotary(RotaryEmbedding::new(4)?);
    let x = Tensor::randn([2, 4, 8]);
    let want = m.forward(&x, &x, &x, &AttentionMasks::causal())?;
    let mut cache = KvCache::new(8);
    for t in 0..4 {
        near("cached", &m.forward_cached(&x.narrow(1, t, 1)?, &mut cache)?, &want.narrow(1, t, 1)?);
    }
    Ok(())
}

#[test]
fn sinusoidal_positions() -> Result<()> {
    let p = SinusoidalPosition::new(4)?;
    let want: Vec<f32> = (0..3)
        .flat_map(|t| [0, 1].map(|i| t as f32 * 10_000f32.powf(-2.0 * i as f32 / 4.0)))
        .flat_map(|a| [a.sin(), a.cos()])
        .collect();
    near("encoding", &p.encoding(3, 0)?, &Tensor::from_vec(want, [3, 4])?);
    near("later", &p.encoding(1, 2)?, &p.encoding(3, 0)?.narrow(0, 2, 1)?);
    let x = Tensor::zeros([3, 2, 4], DType::F32);
    let y = p.batch_first(false).forward(&x)?;
    near("time first", &y.select(1, 1)?, &SinusoidalPosition::new(4)?.encoding(3, 0)?);
    assert!(SinusoidalPosition::new(5).is_err());
    Ok(())
}

#[test]
fn mistakes_have_numbers() -> Result<()> {
    let text = |e: gradus_core::Error| e.to_string();
    let lstm = Lstm::new(3, 4)?;
    let e = text(lstm.forward(&Tensor::randn([5, 2, 7]), None).err().unwrap());
    assert!(e.contains("Lstm: takes [t, n, 3], not [5, 2, 7]") && e.contains("sequences.rs"), "{e}");
    let state = (Tensor::randn([1, 3, 4]), Tensor::randn([1, 2, 4]));
    let e = text(lstm.forward(&Tensor::randn([5, 2, 3]), Some(&state)).err().unwrap());
    assert!(e.contains("the hidden state must be [1, 2, 4], not [1, 3, 4]"), "{e}");
    let e = text(lstm.forward_lengths(&Tensor::randn([5, 2, 3]), &[6, 1], None).err().unwrap());
    assert!(e.contains("lengths [6, 1] do not fit 2 sequences of up to 5 steps"), "{e}");
    let e = text(Gru::with(3, 4, RnnOptions { proj_size: 2, ..options() }).err().unwrap());
    assert!(e.contains("proj_size 2 is for an LSTM"), "{e}");
    let e = text(MultiheadAttention::new(10, 3).err().unwrap());
    assert!(e.contains("3 heads do not divide an embedding of 10"), "{e}");
    let m = MultiheadAttention::new(4, 2)?;
    let (q, k) = (Tensor::randn([3, 2, 4]), Tensor::randn([5, 1, 4]));
    let e = text(m.forward(&q, &k, &k, &AttentionMasks::default()).err().unwrap());
    assert!(e.contains("batch or number of keys and values differ: queries [3, 2, 4], keys [5, 1, 4]"), "{e}");
    let masks = AttentionMasks::padding(&Tensor::from([[true]]));
    let e = text(m.forward(&q, &q, &q, &masks).err().unwrap());
    assert!(e.contains("must be [2, 3], not [1, 1]"), "{e}");
    Ok(())
}
