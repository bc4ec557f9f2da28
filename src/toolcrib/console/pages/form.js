// A form made from the schema of a tool's arguments.

import { html, plain, pretty, useMemo, useState, Text } from "./lib.js";
import { Field } from "./ui.js";

const DEPTH = 3;

/** Return a schema with the definition that its `$ref` names. */
function resolve(schema, root) {
  for (let step = 0; step < 8 && typeof schema?.$ref === "string" && schema.$ref.startsWith("#/"); step += 1) {
    let found = root;
    for (const part of schema.$ref.slice(2).split("/")) found = found?.[part.replaceAll("~1", "/").replaceAll("~0", "~")];
    const { $ref, ...rest } = schema;
    schema = { ...(typeof found === "object" ? found : {}), ...rest };
  }
  return typeof schema === "object" && schema !== null ? schema : {};
}

/** Return what kind of field a schema is edited in. */
function kindOf(given, root, depth) {
  let schema = resolve(given, root);
  const options = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(options)) {
    const real = options.map((each) => resolve(each, root)).filter((each) => each.type !== "null");
    if (real.length !== 1) return { kind: "json", schema };
    schema = { ...schema, ...real[0], description: schema.description ?? real[0].description, default: schema.default ?? real[0].default };
  }
  if ("const" in schema) return { kind: "enum", schema: { ...schema, enum: [schema.const] } };
  if (Array.isArray(schema.enum)) return { kind: "enum", schema };
  const type = Array.isArray(schema.type) ? schema.type.filter((each) => each !== "null") : [schema.type];
  if (type.length !== 1) return { kind: "json", schema };
  if (type[0] === "object" && schema.properties && depth < DEPTH) return { kind: "object", schema };
  if (type[0] === "array") {
    const items = kindOf(schema.items ?? {}, root, depth + 1);
    return { kind: ["string", "number", "integer"].includes(items.kind) ? "lines" : "json", items: items.kind, schema };
  }
  return { kind: ["string", "number", "integer", "boolean"].includes(type[0]) ? type[0] : "json", schema };
}

const toNumber = (text) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);

function Input({ id, name, given, root, value, change, required, depth }) {
  const { kind, schema, items } = useMemo(() => kindOf(given, root, depth), [given, root, depth]);
  const facts = [
    Array.isArray(schema.enum) ? "" : kind === "lines" ? "one on each line" : kind === "json" ? "JSON" : kind === "string" && schema.format ? schema.format : kind === "string" ? "text" : kind,
    schema.minimum !== undefined && `from ${schema.minimum}`,
    schema.maximum !== undefined && `to ${schema.maximum}`,
    schema.maxLength !== undefined && `up to ${schema.maxLength} characters`,
    schema.default !== undefined && `default ${JSON.stringify(schema.default)}`,
    !required && "optional",
  ].filter(Boolean).join(" · ");
  const label = html`<span class="mono"><${Text} value=${name} /></span>${required ? html`<span class="required" title="required" aria-hidden="true">*</span>` : null}
    <span class="muted small"><${Text} value=${facts} /></span>`;
  const hint = schema.description && html`<${Text} value=${schema.description} />`;
  const shared = { id, required, "aria-required": required };
  if (kind === "object") {
    return html`<fieldset><legend>${label}</legend>${hint && html`<p class="hint">${hint}</p>`}
      <${Fields} id=${id} schema=${schema} root=${root} value=${value ?? {}} change=${change} depth=${depth + 1} /></fieldset>`;
  }
  let input;
  if (kind === "enum") {
    const place = schema.enum.findIndex((each) => JSON.stringify(each) === JSON.stringify(value));
    input = html`<select ...${shared} value=${String(place)} onChange=${(event) => change(event.target.value === "-1" ? undefined : schema.enum[Number(event.target.value)])}>
      <option value="-1">${required ? "Choose …" : "–"}</option>
      ${schema.enum.map((each, at) => html`<option key=${at} value=${String(at)}>${plain(typeof each === "string" ? each : JSON.stringify(each))}</option>`)}
    </select>`;
  } else if (kind === "boolean") {
    input = html`<select ...${shared} value=${value === undefined ? "" : String(value)} onChange=${(event) => change(event.target.value === "" ? undefined : event.target.value === "true")}>
      <option value="">${required ? "Choose …" : "–"}</option><option value="true">yes</option><option value="false">no</option>
    </select>`;
  } else if (kind === "number" || kind === "integer") {
    input = html`<input ...${shared} type="number" step=${kind === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} value=${value ?? ""}
      onInput=${(event) => change(event.target.value === "" ? undefined : toNumber(event.target.value))} />`;
  } else if (kind === "lines") {
    input = html`<${Lines} ...${shared} value=${value} change=${change} isNumber=${items !== "string"} />`;
  } else if (kind === "json") {
    input = html`<${Json} ...${shared} value=${value} change=${change} />`;
  } else if (schema.format === "date") {
    input = html`<input ...${shared} type="date" value=${value ?? ""} onInput=${(event) => change(event.target.value || undefined)} />`;
  } else if (schema.writeOnly || schema.format === "password") {
    input = html`<input ...${shared} type="password" autocomplete="off" value=${value ?? ""} onInput=${(event) => change(event.target.value || undefined)} />`;
  } else {
    const text = String(value ?? "");
    input = html`<textarea ...${shared} rows=${Math.min(12, Math.max(1, text.split("\n").length))} maxlength=${schema.maxLength} spellcheck="false"
      value=${text} onInput=${(event) => change(event.target.value === "" && !required ? undefined : event.target.value)}></textarea>`;
  }
  return html`<${Field} id=${id} label=${label} hint=${hint}>${input}<//>`;
}

function Lines({ value, change, isNumber, ...more }) {
  const [text, setText] = useState(() => (value ?? []).join("\n"));
  const read = (typed) => {
    setText(typed);
    const lines = typed.split("\n").filter((line) => line.trim() !== "");
    change(lines.length ? (isNumber ? lines.map(toNumber) : lines) : undefined);
  };
  return html`<textarea ...${more} rows=${Math.min(10, Math.max(3, text.split("\n").length))} spellcheck="false" value=${text} onInput=${(event) => read(event.target.value)}></textarea>`;
}

/** A value as JSON; `onBad` hears whether it can be read. */
export function Json({ value, change, onBad, rows = 4, ...more }) {
  const [text, setText] = useState(() => (value === undefined ? "" : pretty(value)));
  const [fault, setFault] = useState("");
  const read = (typed) => {
    setText(typed);
    try {
      change(typed.trim() === "" ? undefined : JSON.parse(typed));
      setFault("");
      onBad?.(false);
    } catch (error) {
      setFault(error.message);
      onBad?.(true);
    }
  };
  return html`<textarea ...${more} class="mono" rows=${Math.min(20, Math.max(rows, text.split("\n").length))} spellcheck="false" aria-invalid=${Boolean(fault)} value=${text} onInput=${(event) => read(event.target.value)}></textarea>
    ${fault && html`<p class="bad-text small" role="alert">${fault}</p>`}`;
}

export function Fields({ id, schema, root, value, change, depth = 0 }) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const names = Object.keys(typeof schema.properties === "object" ? schema.properties : {});
  names.sort((a, b) => Number(required.has(b)) - Number(required.has(a)));
  const set = (name, next) => {
    const { [name]: _, ...rest } = value;
    change(next === undefined ? rest : { ...rest, [name]: next });
  };
  return names.map(
    (name, place) =>
      html`<${Input} key=${name} id=${`${id}-${place}`} name=${name} given=${schema.properties[name]} root=${root} value=${value[name]}
        change=${(next) => set(name, next)} required=${required.has(name)} depth=${depth} />`,
  );
}
