//! Crops, flips and small rotations.

use super::Transform;
use crate::{Rng, image::Image};
use gradus_core::{Error, Result};

/// The window of a size at a place; `pad` zeros lie around the image.
fn crop(image: &Image, top: usize, left: usize, height: usize, width: usize, pad: usize) -> Image {
    image.make(height, width, |c, y, x| {
        let (y, x) = ((top + y).checked_sub(pad), (left + x).checked_sub(pad));
        y.zip(x).and_then(|(y, x)| image.at(c, y, x)).unwrap_or(0.0)
    })
}

fn too_small(op: &str, image: &Image, height: usize, width: usize) -> Error {
    let why = format!("an image of {} x {} has no window of {height} x {width}", image.height(), image.width());
    Error::value(op, why).hint("resize it first, or pad it")
}

/// A window at a random place, after zeros were put around the image.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomCrop {
    height: usize,
    width: usize,
    padding: usize,
}

impl RandomCrop {
    /// A window of this size.
    pub fn new(height: usize, width: usize) -> RandomCrop {
        RandomCrop { height, width, padding: 0 }
    }

    /// Zeros on every side first.
    pub fn padding(mut self, padding: usize) -> RandomCrop {
        self.padding = padding;
        self
    }
}

impl Transform for RandomCrop {
    fn apply(&self, image: Image, rng: &mut Rng) -> Result<Image> {
        let room = |size: usize, window: usize| (size + 2 * self.padding).checked_sub(window);
        let (Some(down), Some(right)) = (room(image.height(), self.height), room(image.width(), self.width)) else {
            return Err(too_small("RandomCrop", &image, self.height, self.width));
        };
        let (top, left) = (rng.below(down + 1), rng.below(right + 1));
        Ok(crop(&image, top, left, self.height, self.width, self.padding))
    }
}

/// The window in the middle; zeros where the image is smaller, as torchvision does.
#[derive(Clone, Debug, PartialEq)]
pub struct CenterCrop {
    height: usize,
    width: usize,
}

impl CenterCrop {
    /// A window of this size.
    pub fn new(height: usize, width: usize) -> CenterCrop {
        CenterCrop { height, width }
    }
}

impl Transform for CenterCrop {
    fn apply(&self, image: Image, _: &mut Rng) -> Result<Image> {
        let pad = self.height.saturating_sub(image.height()).max(self.width.saturating_sub(image.width()));
        // torchvision rounds half to even where the image is larger, and pads the smaller half first where it is not.
        let start = |size: usize, window: usize| match size.checked_sub(window) {
            Some(room) => pad + (room as f64 / 2.0).round_ties_even() as usize,
            None => pad - (window - size) / 2,
        };
        let (top, left) = (start(image.height(), self.height), start(image.width(), self.width));
        Ok(crop(&image, top, left, self.height, self.width, pad))
    }
}

/// Left to right, with a probability.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomHorizontalFlip {
    /// How often.
    pub p: f64,
}

impl Default for RandomHorizontalFlip {
    fn default() -> RandomHorizontalFlip {
        RandomHorizontalFlip { p: 0.5 }
    }
}

impl Transform for RandomHorizontalFlip {
    fn apply(&self, mut image: Image, rng: &mut Rng) -> Result<Image> {
        if rng.chance(self.p) {
            let width = image.width().max(1);
            image.pixels_mut().chunks_exact_mut(width).for_each(<[f32]>::reverse);
        }
        Ok(image)
    }
}

/// Upside down, with a probability.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomVerticalFlip {
    /// How often.
    pub p: f64,
}

impl Default for RandomVerticalFlip {
    fn default() -> RandomVerticalFlip {
        RandomVerticalFlip { p: 0.5 }
    }
}

impl Transform for RandomVerticalFlip {
    fn apply(&self, image: Image, rng: &mut Rng) -> Result<Image> {
        if !rng.chance(self.p) {
            return Ok(image);
        }
        let h = image.height();
        Ok(image.make(h, image.width(), |c, y, x| image.at(c, h - 1 - y, x).unwrap_or(0.0)))
    }
}

/// Turned around the middle by a random angle, bilinear, zeros where nothing was.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomRotation {
    /// The largest angle either way.
    pub degrees: f64,
}

impl Transform for RandomRotation {
    fn apply(&self, image: Image, rng: &mut Rng) -> Result<Image> {
        let angle = rng.range(-self.degrees, self.degrees).to_radians();
        // A portable sine: the same picture on every machine.
        let (sin, cos) = (libm::sin(angle), libm::cos(angle));
        let (cy, cx) = ((image.height() as f64 - 1.0) / 2.0, (image.width() as f64 - 1.0) / 2.0);
        Ok(image.make(image.height(), image.width(), |c, y, x| {
            // Where this pixel comes from: turned back by the angle.
            let (dy, dx) = (y as f64 - cy, x as f64 - cx);
            let (sy, sx) = (cy + sin * dx + cos * dy, cx + cos * dx - sin * dy);
            let (y0, x0) = (sy.floor(), sx.floor());
            let (fy, fx) = (sy - y0, sx - x0);
            let at = |y: f64, x: f64| {
                let inside = y >= 0.0 && x >= 0.0;
                inside.then(|| image.at(c, y as usize, x as usize)).flatten().map_or(0.0, f64::from)
            };
            let top = at(y0, x0) * (1.0 - fx) + at(y0, x0 + 1.0) * fx;
            let bottom = at(y0 + 1.0, x0) * (1.0 - fx) + at(y0 + 1.0, x0 + 1.0) * fx;
            (top * (1.0 - fy) + bottom * fy) as f32
        }))
    }
}
