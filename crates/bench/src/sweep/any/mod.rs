//! `--sweep --draw N --seed S`: cases that nobody chose. Functions, shapes, layouts and types are drawn at random, so that the figure is one
//! of shapes that no work was done for. A case is its name, `any:KIND:...`: the drawing side makes names, and this side and
//! `any.py` each make the case of a name, so that a name found slow can be given again by itself.

mod draw;
mod run;

pub use {draw::names, run::operand, run::run};

/// How the names of drawn cases begin.
const PREFIX: &str = "any:";

/// Whether a name is that of a drawn case.
pub fn is_case(name: &str) -> bool {
    name.starts_with(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_drawn_is_a_case() {
        let _alone = crate::allocations::alone();
        // Nothing is timed: no name begins so.
        let sweep = super::super::Sweep { names: vec!["none".into()], profile: false };
        for name in names(1, 150) {
            run(&sweep, &name).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        assert!(run(&sweep, "any:un:cbrt:f32@3@c").is_err(), "no such function is drawn");
        assert!(run(&sweep, "any:ind:gather:f32@3x3@c:7:1").is_err(), "there is no axis 7");
    }

    #[test]
    fn a_seed_says_what_is_drawn() {
        let _alone = crate::allocations::alone();
        assert_eq!(names(5, 40), names(5, 40));
        let (a, b) = (names(5, 40), names(6, 40));
        assert!(a.iter().filter(|n| b.contains(n)).count() < 5, "two seeds draw almost the same");
    }
}
