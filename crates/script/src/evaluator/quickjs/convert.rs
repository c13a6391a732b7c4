// SPDX-License-Identifier: Apache-2.0
//! Values of the engine to [`Value`] and back. What has no meaning outside a program (functions,
//! maps, cycles, …) is refused with its place in the whole.

use rquickjs::convert::Coerced;
use rquickjs::object::Property;
use rquickjs::{
    Array, Ctx, Error, Exception, FromJs, Function, Object, Result, TypedArray, Value as Js,
};

use super::hooks::Hooks;
use crate::protocol::codec::MAX_FROM;
use crate::value::{MAX_DEPTH, MAX_PARTS, Value};

/// Characters of a place that are shown whole.
const LONG: usize = 100;

/// A value on its way out.
struct Out<'a, 'js> {
    ctx: &'a Ctx<'js>,
    hooks: &'a Hooks,
    /// What leads to the value: `request`, `.labels`, `[3]`.
    path: Vec<String>,
    /// Objects above it.
    above: Vec<Js<'js>>,
    /// Bytes that it may still take.
    left: usize,
    /// Parts that it may still have.
    parts: usize,
}

/// What a program's value is outside. `what` is its name in errors.
pub(super) fn out<'js>(ctx: &Ctx<'js>, hooks: &Hooks, what: &str, value: Js<'js>) -> Result<Value> {
    Out {
        ctx,
        hooks,
        path: vec![what.to_owned()],
        above: Vec::new(),
        left: MAX_FROM - (64 << 10),
        parts: MAX_PARTS,
    }
    .value(value)
}

impl<'js> Out<'_, 'js> {
    fn refuse(&self, why: &str) -> Error {
        let path = self.path.concat();
        // The engine's messages are short.
        let path = if path.chars().count() > LONG {
            let begin: String = path.chars().take(LONG / 2).collect();
            format!("{begin}…{}", self.path.last().map_or("", String::as_str))
        } else {
            path
        };
        Exception::throw_type(self.ctx, &format!("{path}: {why}"))
    }

    fn take(&mut self, bytes: usize) -> Result<()> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| self.refuse("more than 16 MiB can't be sent at once"))?;
        Ok(())
    }

    fn value(&mut self, value: Js<'js>) -> Result<Value> {
        let parts = self.parts.checked_sub(1);
        self.parts = parts.ok_or_else(|| self.refuse("too many values to be sent at once"))?;
        if value.is_undefined() {
            Ok(Value::Undefined)
        } else if value.is_null() {
            Ok(Value::Null)
        } else if let Some(value) = value.as_bool() {
            Ok(Value::Bool(value))
        } else if let Some(value) = value.as_number() {
            Ok(Value::Number(value))
        } else if value.is_string() {
            self.string(value).map(Value::String)
        } else if value.is_big_int() {
            let digits = Coerced::<String>::from_js(self.ctx, value)?.0;
            digits
                .parse()
                .map(Value::BigInt)
                .map_err(|_| self.refuse("an integer of more than 128 bits"))
        } else if value.is_object() {
            self.object(value)
        } else {
            Err(self.refuse("a symbol can't be sent"))
        }
    }

    fn string(&mut self, value: Js<'js>) -> Result<String> {
        let text = self.hooks.function(self.ctx, "text")?;
        let text: String = text.call((value,))?;
        self.take(text.len())?;
        Ok(text)
    }

    fn object(&mut self, value: Js<'js>) -> Result<Value> {
        let unknown = self.hooks.function(self.ctx, "unknown")?;
        if let Some(text) = unknown.call::<_, Option<String>>((value.clone(),))? {
            return Ok(Value::Unknown(text));
        }
        if value.is_proxy() {
            return Err(self.refuse("a Proxy can't be sent; copy it into a plain object"));
        }
        if value.is_function() {
            return Err(self.refuse("a function can't be sent"));
        }
        if self.above.len() >= usize::from(MAX_DEPTH) {
            return Err(self.refuse("nested too deep"));
        }
        if self.above.contains(&value) {
            return Err(self.refuse("it contains itself"));
        }
        self.above.push(value.clone());
        let converted = self.compound(value);
        self.above.pop();
        converted
    }

    fn compound(&mut self, value: Js<'js>) -> Result<Value> {
        if let Some(array) = value.as_array() {
            let mut items = Vec::new();
            for index in 0..array.len() {
                self.path.push(format!("[{index}]"));
                items.push(self.value(array.get(index)?)?);
                self.path.pop();
            }
            return Ok(Value::Array(items));
        }
        if TypedArray::<u8>::from_value(value.clone()).is_ok() {
            let hex = self.hooks.function(self.ctx, "hex")?;
            let hex: String = hex.call((value,))?;
            self.take(hex.len() / 2)?;
            return Ok(Value::Bytes(unhex(&hex)));
        }
        let Some(object) = value.into_object() else {
            return Err(self.refuse("it can't be sent"));
        };
        let json: Js<'js> = object.get("toJSON")?;
        if let Some(json) = json.into_function() {
            let plain: Js<'js> = json.call((rquickjs::function::This(object), ""))?;
            return self.value(plain);
        }
        let kind: Option<String> = self
            .hooks
            .function(self.ctx, "kind")?
            .call((object.clone(),))?;
        if let Some(kind) = kind {
            let why = format!("a {kind} can't be sent; use a plain object");
            return Err(self.refuse(&why));
        }
        self.fields(&object)
    }

    fn fields(&mut self, object: &Object<'js>) -> Result<Value> {
        let mut fields = Vec::new();
        for key in object.keys::<Js<'js>>() {
            let key = self.string(key?)?;
            self.path.push(format!(".{key}"));
            let value = object.get(key.as_str())?;
            let value = self.value(value)?;
            self.path.pop();
            fields.push((key, value));
        }
        Ok(Value::Object(fields))
    }
}

/// The bytes of hexadecimal digits.
fn unhex(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => byte - b'0',
        _ => byte.saturating_sub(b'a') + 10,
    };
    let (pairs, _) = hex.as_bytes().as_chunks::<2>();
    pairs
        .iter()
        .map(|[high, low]| (digit(*high) << 4) | digit(*low))
        .collect()
}

/// What a value from outside is in a program.
pub(super) fn into<'js>(ctx: &Ctx<'js>, hooks: &Hooks, value: Value) -> Result<Js<'js>> {
    let ctx = ctx.clone();
    Ok(match value {
        Value::Undefined => Js::new_undefined(ctx),
        Value::Null => Js::new_null(ctx),
        Value::Bool(value) => Js::new_bool(ctx, value),
        Value::Number(value) => Js::new_number(ctx, value),
        Value::BigInt(value) => match i64::try_from(value) {
            Ok(small) => rquickjs::BigInt::from_i64(ctx, small)?.into_value(),
            Err(_) => {
                let make: Function<'js> = hooks.function(&ctx, "bigint")?;
                make.call((value.to_string(),))?
            }
        },
        Value::String(text) => rquickjs::String::from_str(ctx, &text)?.into_value(),
        Value::Bytes(bytes) => TypedArray::<u8>::new(ctx, bytes)?.into_value(),
        Value::Array(items) => {
            let array = Array::new(ctx.clone())?;
            for (index, item) in items.into_iter().enumerate() {
                array.set(index, into(&ctx, hooks, item)?)?;
            }
            array.into_value()
        }
        Value::Object(fields) => {
            let object = Object::new(ctx.clone())?;
            for (key, field) in fields {
                // Defined, not assigned: a key may be `__proto__`.
                let field = Property::from(into(&ctx, hooks, field)?);
                object.prop(key, field.writable().enumerable().configurable())?;
            }
            object.into_value()
        }
        Value::Unknown(text) => hooks.function(&ctx, "makeUnknown")?.call((text,))?,
    })
}
