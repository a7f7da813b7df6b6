//! The pickle machine: a stack, a memo, and a loop. It makes values and calls nothing but the few things of
//! [`super::rebuild`].

use super::{
    globals, malformed,
    opcode::*,
    value::{Heap, Object, Storage, Value},
};
use crate::{Result, bytes::Cursor, error::shorten};
use std::collections::HashMap;

const HIGHEST_PROTOCOL: u8 = 5;

pub struct Machine<'c, 'a> {
    pub heap: Heap<'a>,
    pub storages: Vec<Storage<'a>>,
    cursor: &'c mut Cursor<'a>,
    stack: Vec<Value<'a>>,
    marks: Vec<usize>,
    /// A map, because a file may name any number of its choice.
    memo: HashMap<u32, Value<'a>>,
}

impl<'c, 'a> Machine<'c, 'a> {
    pub fn new(cursor: &'c mut Cursor<'a>) -> Self {
        let (heap, memo) = (Heap::default(), HashMap::new());
        Machine { heap, storages: vec![], cursor, stack: vec![], marks: vec![], memo }
    }

    /// Runs to the pickle's end: its objects, the one it is about, and the storages it names.
    pub fn run(mut self) -> Result<(Heap<'a>, Value<'a>, Vec<Storage<'a>>)> {
        loop {
            let at = self.cursor.offset();
            let op = self.cursor.u8("an instruction").map_err(|e| e.hint("the pickle has no end"))?;
            if op == STOP {
                let root = self.pop().map_err(|e| e.at(at))?;
                return Ok((self.heap, root, self.storages));
            }
            self.step(op).map_err(|e| e.at(at))?;
        }
    }

    fn step(&mut self, op: u8) -> Result<()> {
        let value = match op {
            PROTO => {
                let version = self.cursor.u8("a protocol")?;
                if version > HIGHEST_PROTOCOL {
                    return Err(malformed(format!("pickle protocol 2 to {HIGHEST_PROTOCOL}"), version.to_string()));
                }
                return Ok(());
            }
            FRAME => return self.cursor.u64("a frame's length").map(drop),
            MARK => {
                self.marks.push(self.stack.len());
                return Ok(());
            }
            POP => {
                // On a mark alone, POP takes the mark: protocol 1 writes that for tuples inside themselves.
                if self.pop().is_err() {
                    self.pop_to_mark()?;
                }
                return Ok(());
            }
            POP_MARK => return self.pop_to_mark().map(drop),
            DUP => self.top()?,
            NONE => Value::None,
            NEWTRUE => Value::Bool(true),
            NEWFALSE => Value::Bool(false),
            BININT => Value::Int(i64::from(self.cursor.u32("an integer")? as i32)),
            BININT1 => Value::Int(i64::from(self.cursor.u8("an integer")?)),
            BININT2 => Value::Int(i64::from(self.cursor.u16("an integer")?)),
            LONG1 => {
                let n = self.cursor.u8("a length")?;
                long(self.take(n.into())?)
            }
            LONG4 => {
                let n = self.cursor.u32("a length")?;
                long(self.take(n.into())?)
            }
            BINFLOAT => Value::Float(f64::from_bits(self.cursor.u64("a float")?.swap_bytes())),
            SHORT_BINUNICODE => {
                let n = self.cursor.u8("a length")?;
                self.text(n.into())?
            }
            BINUNICODE => {
                let n = self.cursor.u32("a length")?;
                self.text(n.into())?
            }
            BINUNICODE8 => {
                let n = self.cursor.u64("a length")?;
                self.text(n)?
            }
            // Strings of Python 2: mostly text.
            SHORT_BINSTRING => {
                let n = self.cursor.u8("a length")?;
                self.old_string(n.into())?
            }
            BINSTRING => {
                let n = self.cursor.u32("a length")?;
                self.old_string(n.into())?
            }
            SHORT_BINBYTES => {
                let n = self.cursor.u8("a length")?;
                Value::Bytes(self.take(n.into())?)
            }
            BINBYTES => {
                let n = self.cursor.u32("a length")?;
                Value::Bytes(self.take(n.into())?)
            }
            BINBYTES8 => {
                let n = self.cursor.u64("a length")?;
                Value::Bytes(self.take(n)?)
            }
            EMPTY_LIST | EMPTY_SET => self.heap.add(Object::List(vec![]))?,
            EMPTY_DICT => self.heap.add(Object::Dict(vec![]))?,
            EMPTY_TUPLE => self.heap.add(Object::Tuple(vec![]))?,
            LIST | FROZENSET => {
                let items = self.pop_to_mark()?;
                self.heap.add(Object::List(items))?
            }
            TUPLE => {
                let items = self.pop_to_mark()?;
                self.heap.add(Object::Tuple(items))?
            }
            TUPLE1 | TUPLE2 | TUPLE3 => {
                let mut items = vec![];
                for _ in TUPLE1..=op {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.heap.add(Object::Tuple(items))?
            }
            DICT => {
                let items = self.pop_to_mark()?;
                let pairs = pairs(&items)?;
                self.heap.add(Object::Dict(pairs))?
            }
            APPEND => {
                let item = self.pop()?;
                return self.extend(&[item]);
            }
            APPENDS | ADDITEMS => {
                let items = self.pop_to_mark()?;
                return self.extend(&items);
            }
            SETITEM => {
                let (value, key) = (self.pop()?, self.pop()?);
                return self.update(vec![(key, value)]);
            }
            SETITEMS => {
                let items = self.pop_to_mark()?;
                return self.update(pairs(&items)?);
            }
            BINPUT => {
                let n = self.cursor.u8("a memo's number")?;
                return self.remember(n.into());
            }
            LONG_BINPUT => {
                let n = self.cursor.u32("a memo's number")?;
                return self.remember(n);
            }
            MEMOIZE => return self.remember(self.memo.len() as u32),
            BINGET => {
                let n = self.cursor.u8("a memo's number")?;
                self.recall(n.into())?
            }
            LONG_BINGET => {
                let n = self.cursor.u32("a memo's number")?;
                self.recall(n)?
            }
            GLOBAL => {
                let (module, name) = (self.line()?, self.line()?);
                Value::Global(globals::lookup(module, name)?)
            }
            STACK_GLOBAL => match (self.pop()?, self.pop()?) {
                (Value::Str(name), Value::Str(module)) => Value::Global(globals::lookup(module, name)?),
                (name, _) => return Err(malformed("the two names of a global", self.heap.what(name))),
            },
            BINPERSID => {
                let id = self.pop()?;
                self.storage(id)?
            }
            REDUCE | NEWOBJ => {
                let (args, callee) = (self.pop()?, self.pop()?);
                self.call(callee, args)?
            }
            BUILD => {
                let state = self.pop()?;
                return self.build(self.top()?, state);
            }
            op => {
                let found = format!("{op:#04x} (`{}`)", shorten(&char::from(op).to_string()));
                return Err(malformed("an instruction of a tensor's pickle", found)
                    .hint("save with pickle protocol 2 or later; extension and out-of-band objects are not read"));
            }
        };
        self.stack.push(value);
        Ok(())
    }

    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Value<'a>> {
        if self.stack.len() > self.floor()
            && let Some(value) = self.stack.pop()
        {
            return Ok(value);
        }
        Err(malformed("a value on the stack", "none"))
    }

    fn top(&self) -> Result<Value<'a>> {
        let above = self.stack.get(self.floor()..).and_then(<[_]>::last);
        above.copied().ok_or_else(|| malformed("a value on the stack", "none"))
    }

    /// The values above the last mark, which goes.
    fn pop_to_mark(&mut self) -> Result<Vec<Value<'a>>> {
        let mark = self.marks.pop().ok_or_else(|| malformed("a mark on the stack", "none"))?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8]> {
        self.cursor.take(n, "a string or number")
    }

    fn text(&mut self, n: u64) -> Result<Value<'a>> {
        let bytes = self.take(n)?;
        std::str::from_utf8(bytes).map(Value::Str).map_err(|e| malformed("UTF-8 text", e.to_string()))
    }

    fn old_string(&mut self, n: u64) -> Result<Value<'a>> {
        let bytes = self.take(n)?;
        Ok(std::str::from_utf8(bytes).map_or(Value::Bytes(bytes), Value::Str))
    }

    fn line(&mut self) -> Result<&'a str> {
        let rest = self.cursor.rest();
        let Some(end) = rest.iter().take(4096).position(|&c| c == b'\n') else {
            return Err(malformed("a name of at most 4096 bytes on a line", "no end of the line"));
        };
        let line = self.take(end as u64 + 1)?;
        let line = line.get(..end).unwrap_or_default();
        std::str::from_utf8(line).map_err(|e| malformed("UTF-8 text", e.to_string()))
    }

    fn extend(&mut self, items: &[Value<'a>]) -> Result<()> {
        let top = self.top()?;
        match self.heap.get_mut(top) {
            Some(Object::List(list)) => {
                list.extend_from_slice(items);
                Ok(())
            }
            _ => Err(malformed("a list to append to", self.heap.what(top))),
        }
    }

    fn update(&mut self, pairs: Vec<(Value<'a>, Value<'a>)>) -> Result<()> {
        let top = self.top()?;
        match self.heap.get_mut(top) {
            Some(Object::Dict(dict)) => {
                dict.extend(pairs);
                Ok(())
            }
            _ => Err(malformed("a dictionary to set items of", self.heap.what(top))),
        }
    }

    fn remember(&mut self, number: u32) -> Result<()> {
        let top = self.top()?;
        self.memo.insert(number, top);
        Ok(())
    }

    fn recall(&mut self, number: u32) -> Result<Value<'a>> {
        let value = self.memo.get(&number).copied();
        value.ok_or_else(|| malformed("a memo that was set", format!("number {number}")))
    }
}

/// An integer of any length, little-endian two's complement.
fn long(bytes: &[u8]) -> Value<'_> {
    if bytes.len() > 8 {
        return Value::Big(bytes);
    }
    let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut all = if negative { [0xff; 8] } else { [0; 8] };
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    Value::Int(i64::from_le_bytes(all))
}

fn pairs<'a>(items: &[Value<'a>]) -> Result<Vec<(Value<'a>, Value<'a>)>> {
    let (pairs, rest) = items.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(malformed("a value for each key", "a key without one"));
    }
    Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
}
