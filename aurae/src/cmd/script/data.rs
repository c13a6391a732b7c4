// SPDX-License-Identifier: Apache-2.0
//! Declarations as data: a JSON or YAML file of workloads, such as another tool writes, becomes the
//! program that runs them. What is in it is what a workload's `toJSON` gives and its `From` takes.

use language::program::Entry;
use language::root::Root;
use language::schema::Schema;

use super::entry::unreadable;
use crate::failure::Failure;

/// How the data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Yaml,
}

/// By the file's ending; none for a program.
pub(crate) fn form(path: &str) -> Option<Form> {
    match path.rsplit_once('.')?.1 {
        "json" => Some(Form::Json),
        "yaml" | "yml" => Some(Form::Yaml),
        _ => None,
    }
}

/// The program of a file of data. The data is in its text: a saved plan knows when it has changed.
pub(crate) fn entry(root: &Root, path: &str, form: Form) -> Result<Entry, Failure> {
    let text = text(root, path)?;
    let quoted = serde_json::to_string(&text)
        .map_err(|problem| Failure::new(format!("{path} can't be read: {problem}")))?;
    Ok(Entry::Text {
        // Its lines aren't the file's.
        name: format!("{path} (as a program)"),
        text: program(&quoted, form)?,
    })
}

/// The data as it was written.
pub(super) fn text(root: &Root, path: &str) -> Result<String, Failure> {
    let bytes = root.bytes(path).map_err(unreadable)?;
    String::from_utf8(bytes)
        .map_err(|problem| Failure::new(format!("{path} is not UTF-8: {problem}")))
}

fn program(quoted: &str, form: Form) -> Result<String, Failure> {
    // A document of YAML begins at `---`, which within a text is never at a line's beginning.
    let parse = match form {
        Form::Json => format!("[JSON.parse({quoted})]"),
        Form::Yaml => format!(
            "{quoted}.split(/^---(?=\\s|$)/m).map((one) => yaml.parse(one))\
             .filter((one) => one !== null && one !== undefined)"
        ),
    };
    let schema = Schema::bare().map_err(|problem| Failure::new(problem.to_string()))?;
    let names = schema.subsystems.iter().flat_map(|one| &one.messages);
    let classes = names.filter_map(|name| schema.message(name));
    let classes = classes.filter(|message| message.is_workload());
    let kinds: Vec<String> = classes.map(|class| class.name.clone()).collect();
    let kinds = kinds.join(", ");
    Ok(format!(
        "const declared: any[] = {parse};\n\
         if (declared.length === 0) throw new TypeError(\"nothing is declared; [] says so\");\n\
         const classes = new Map([{kinds}].map((it) => [it.name.toLowerCase(), it] as const));\n\
         const all = declared.flat().map((one, index) => {{\n  \
           try {{\n    \
             const found = classes.get(String(one?.kind).toLowerCase());\n    \
             if (found !== undefined) return found.From(one);\n    \
             const kinds = [...classes.keys()].join(\" or \");\n    \
             const more = one?.apiVersion === undefined ? \"\"\n      \
               : \"; a manifest of Kubernetes becomes a program by `aurae import`\";\n    \
             throw new TypeError(`a declaration needs kind: ${{kinds}}${{more}}`);\n  \
           }} catch (error) {{\n    \
             const name = typeof one?.name === \"string\" ? ` (${{one.name}})` : \"\";\n    \
             const why = error instanceof Error ? error.message : String(error);\n    \
             throw new TypeError(`item ${{index + 1}}${{name}}: ${{why}}`);\n  \
           }}\n\
         }});\n\
         await runtime.Run(all);\n"
    ))
}
