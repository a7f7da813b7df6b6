//! A million nodes on a small stack: nothing may recurse.

use gradus_scalar::{Value, live_nodes, var};

const NODES: usize = 1_000_000;

/// Runs `f` with 64 KiB of stack, far too little for a million calls within calls.
fn on_a_small_stack(f: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(f);
    thread.expect("a thread starts").join().expect("the body does not panic");
}

fn chain(x: &Value) -> Value {
    (0..NODES).fold(x.clone(), |z, _| &z + x)
}

#[test]
fn a_chain_builds_differentiates_and_drops() {
    on_a_small_stack(|| {
        let x = var("x", 1.0);
        let z = chain(&x);
        assert_eq!(z.value(), NODES as f64 + 1.0);
        assert_eq!(live_nodes(), NODES + 1);
        let grads = z.backward();
        assert_eq!(grads.wrt(&x), Some(NODES as f64 + 1.0));
        assert_eq!(z.jvp(&[(&x, 1.0)]), NODES as f64 + 1.0);
        drop((z, grads));
        assert_eq!(live_nodes(), 1);
    });
}

#[test]
fn a_chain_is_differentiated_twice() {
    on_a_small_stack(|| {
        let x = var("x", 1.0);
        let z = (0..NODES).fold(&x * &x, |z, _| -z);
        let first = z.grad_graph(&[&x]).remove(0);
        assert_eq!((first.value(), first.backward().wrt(&x)), (2.0, Some(2.0)));
    });
}

#[test]
fn a_chain_prints() {
    on_a_small_stack(|| {
        let z = chain(&var("x", 1.0));
        let text = z.graph().to_string();
        assert_eq!(text.lines().count(), 2 * NODES + 1);
        assert!(text.len() < 150 * text.lines().count());
        assert_eq!(z.to_dot().lines().count(), 3 + NODES + 1 + 2 * NODES);
    });
}

#[test]
fn a_chain_out_of_order_differentiates() {
    on_a_small_stack(|| {
        // The first negation takes the hole, below its operand.
        let hole = var("hole", 0.0);
        let x = var("x", 1.0);
        let z = x.sin();
        drop(hole);
        let z = (0..NODES).fold(z, |z, _| -z);
        assert_eq!(z.backward().wrt(&x), Some(1f64.cos()));
        drop(z);
        assert_eq!(live_nodes(), 1);
    });
}

#[test]
fn a_chain_left_alive_at_the_end_of_its_thread() {
    thread_local!(static KEPT: std::cell::RefCell<Option<Value>> = const { std::cell::RefCell::new(None) });
    on_a_small_stack(|| KEPT.set(Some(chain(&var("x", 1.0)))));
}
