// The tools: find one, read what it does, run it, write it for a provider.

import {
  Text, count, duration, events, get, go, html, link, listen, me, percent, plain, plural, post, pretty, route, useEffect, useLoad, useRef, useState,
} from "../lib.js";
import { Badge, Block, Busy, Button, Command, CopyButton, Dialog, Empty, Head, Icon, Panel, Problem, SearchBox, Tabs, VirtualList } from "../ui.js";
import { Fields, Json } from "../form.js";

const LEVELS = [["summary", "Summary"], ["schema", "Schema"], ["full", "Full"]];
const HINTS = {
  readOnlyHint: ["only reads", "changes something"],
  destructiveHint: ["may destroy something", "destroys nothing"],
  idempotentHint: ["can be repeated safely", "repeating it repeats its effects"],
  openWorldHint: ["accesses the outside world", "stays within its own data"],
};

function useTools() {
  const { q = "", namespace = "" } = route.value.query;
  const [state, setState] = useState({ rows: [], total: 0, error: null, busy: true, note: "" });
  const next = useRef(null);
  const busy = useRef(false);
  const turn = useRef(0);
  const load = async (cursor) => {
    const mine = cursor ? turn.current : (turn.current += 1);
    busy.current = true;
    try {
      const page = q.trim()
        ? await get("/search", { query: q.trim(), namespace, limit: 50 })
        : await get("/tools", { namespace, limit: 1000, cursor });
      if (mine !== turn.current) return;
      next.current = (!q.trim() && page.nextCursor) || null;
      setState((before) => {
        const rows = cursor ? [...before.rows, ...page.items] : page.items;
        return { rows, total: q.trim() ? rows.length : page.total, error: null, busy: false, note: page.note ?? "" };
      });
    } catch (error) {
      if (mine === turn.current) setState((before) => ({ ...before, error, busy: false }));
    } finally {
      busy.current = false;
    }
  };
  useEffect(() => {
    const timer = setTimeout(load, q.trim() ? 120 : 0);
    return () => clearTimeout(timer);
  }, [q, namespace]);
  useEffect(() => listen("catalogue", () => q.trim() || load()), [q, namespace]);
  return { ...state, more: () => next.current && !busy.current && load(next.current), reload: () => load() };
}

const REASONS = {
  name: () => "named",
  word: (reason) => `“${reason.text}” in ${(reason.fields ?? []).join(", ")}`,
  spelling: (reason) => `“${reason.text}” read as ${(reason.matched ?? []).join(", ")}`,
  example: (reason) => `example “${reason.text}”`,
  topic: (reason) => `topic ${reason.text}`,
  learned: (reason) => `run after “${reason.text}”`,
  deprecated: () => "deprecated",
};

const why = (reasons) =>
  (reasons ?? [])
    .filter((reason) => reason.kind in REASONS)
    .map((reason) => REASONS[reason.kind](reason))
    .join("; ") || "by its meaning alone";

function Confidence({ value }) {
  return html`<span class="confidence" title=${`confidence ${value.toFixed(3)}`}>
    <span class="bar"><span style=${{ width: `${Math.round(value * 100)}%` }}></span></span><span class="tabular">${percent(value)}</span>
  </span>`;
}

function Documentation({ id }) {
  const [level, setLevel] = useState("full");
  const { data, error } = useLoad((signal) => get(`/tools/${encodeURIComponent(id)}`, { level }, { signal }), [id, level]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Busy} />`;
  const tool = data.tool;
  const hints = Object.entries(data.annotations ?? {}).filter(([name, value]) => HINTS[name] && typeof value === "boolean");
  return html`<${Tabs} label="Level of detail" items=${LEVELS} chosen=${level} choose=${setLevel} />
    <p class="description"><${Text} value=${tool?.description || data.summary} /></p>
    ${hints.length > 0 &&
    html`<p class="badges">${hints.map(([name, value]) => html`<${Badge} key=${name} kind=${name === "destructiveHint" && value ? "bad" : ""}>${HINTS[name][value ? 0 : 1]}<//>`)}</p>`}
    ${data.notes && html`<h3>Notes</h3><p class="description"><${Text} value=${data.notes} /></p>`}
    ${data.examples?.length > 0 &&
    html`<h3>Examples</h3><ul class="plain">${data.examples.map(
      (each, place) =>
        html`<li key=${place}><strong><${Text} value=${each.title || "Example"} /></strong> ${each.resultHint && html`<span class="muted">gives <${Text} value=${each.resultHint} /></span>`}
          <${Block} value=${each.args ?? {}} label=${`Arguments of the example ${place + 1}`} /></li>`,
    )}</ul>`}
    ${tool && level !== "summary" && html`<h3>Arguments</h3><${Block} value=${tool.inputSchema} label="Schema of the arguments" tall />`}
    ${tool?.outputSchema && level === "full" && html`<h3>Result</h3><${Block} value=${tool.outputSchema} label="Schema of the result" tall />`}
    ${data.externalRefs?.length > 0 && html`<h3>See also</h3><ul class="plain">${data.externalRefs.map((each) => html`<li key=${each}><${Text} value=${each} /></li>`)}</ul>`}`;
}

const SAVED = "toolcrib-requests";
const readSaved = () => {
  try {
    return JSON.parse(localStorage.getItem(SAVED) ?? "{}");
  } catch {
    return {};
  }
};

function Run({ id }) {
  const doc = useLoad((signal) => get(`/tools/${encodeURIComponent(id)}`, { level: "full" }, { signal }), [id]);
  const [args, setArgs] = useState({});
  const [form, setForm] = useState(0);
  const [isJson, setJson] = useState(false);
  const [isBad, setBad] = useState(false);
  const [state, setState] = useState({});
  const [saved, setSaved] = useState(() => readSaved()[id] ?? []);
  const controller = useRef(null);
  useEffect(() => () => controller.current?.abort(), []);
  const keep = (list) => {
    const all = readSaved();
    localStorage.setItem(SAVED, JSON.stringify({ ...all, [id]: list }));
    setSaved(list);
  };
  const fill = (given) => {
    setArgs(given ?? {});
    setForm((last) => last + 1);
    setState({});
  };
  const run = async (confirmed) => {
    controller.current = new AbortController();
    setState({ busy: true, progress: null, began: Date.now() });
    try {
      let ended = false;
      const body = { toolId: id, args, ...(confirmed ? { confirmed } : {}) };
      for await (const { kind, data } of events("/run", { method: "POST", body, signal: controller.current.signal })) {
        if (kind === "progress") setState((before) => ({ ...before, progress: data }));
        else {
          ended = true;
          setState({ [kind]: data });
        }
      }
      if (!ended) setState({ error: { code: "internal", message: "the connection ended before the call did" } });
    } catch (error) {
      if (controller.current.signal.aborted) setState({ error: { code: "cancelled", message: "you cancelled the call" } });
      else setState({ error: { code: error.code ?? "internal", message: error.message, details: error.details } });
    }
  };
  if (doc.error) return html`<${Problem} error=${doc.error} />`;
  if (!doc.data) return html`<${Busy} />`;
  const schema = doc.data.tool?.inputSchema ?? {};
  const example = doc.data.examples?.[0]?.args;
  const hasFields = Object.keys(schema.properties ?? {}).length > 0;
  const submit = (event) => {
    event.preventDefault();
    run();
  };
  return html`<form class="run" onSubmit=${submit}>
      <div class="run-tools">
        ${example && html`<${Button} kind="quiet" onClick=${() => fill(example)}>Fill in the example<//>`}
        ${(hasFields || !schema.properties) && html`<${Button} kind="quiet" onClick=${() => (setJson(!isJson), setForm((last) => last + 1))}>${isJson ? "As a form" : "As JSON"}<//>`}
        <${Button} kind="quiet" disabled=${isBad} onClick=${() => keep([{ at: Date.now(), args }, ...saved].slice(0, 20))}>Save the request<//>
      </div>
      ${saved.length > 0 &&
      html`<ul class="plain saved" aria-label="Saved requests">${saved.map(
        (each, place) =>
          html`<li key=${each.at}><button type="button" class="plain-link mono cut" onClick=${() => fill(each.args)}><${Text} value=${JSON.stringify(each.args)} /></button>
            <${Button} kind="quiet" icon="close" label="Forget this request" onClick=${() => keep(saved.filter((_, at) => at !== place))} /></li>`,
      )}</ul>`}
      <div key=${form}>
        ${isJson || (!hasFields && schema.type !== "object" && Object.keys(schema).length > 0 && schema.properties === undefined)
          ? html`<div class="field"><label for="args">Arguments as JSON</label><${Json} id="args" value=${args} change=${(next) => setArgs(next ?? {})} onBad=${setBad} rows=${8} /></div>`
          : html`<${Fields} id="arg" schema=${schema} root=${schema} value=${args} change=${setArgs} />`}
        ${!isJson && !hasFields && html`<p class="muted">It takes no arguments.</p>`}
      </div>
      <div class="run-go">
        <button class="button primary" disabled=${state.busy || isBad}><${Icon} name="play" />Run</button>
        ${state.busy && html`<${Button} onClick=${() => controller.current.abort()}>Cancel<//>`}
      </div>
    </form>
    <div aria-live="polite">
      ${state.busy && html`<${Progress} progress=${state.progress} />`}
      ${state.result && html`<${Result} result=${state.result} />`}
      ${state.error && html`<${Failure} error=${state.error} />`}
    </div>
    ${state.question &&
    html`<${Dialog} title="Allow this call?" close=${() => setState({})}>
      <${Block} value=${state.question.text} label="What will be done" tall />
      <div class="dialog-actions">
        <${Button} onClick=${() => setState({})}>Do not run it<//>
        <${Button} kind="danger" onClick=${() => run(state.question.key)}>Run it<//>
      </div>
    <//>`}`;
}

function Progress({ progress }) {
  const known = progress && progress.total > 0;
  return html`<div class="progress">
    <progress value=${known ? progress.progress : undefined} max=${known ? progress.total : undefined} aria-label="Progress"></progress>
    <span class="muted">${progress ? html`${known ? `${progress.progress} of ${progress.total}` : progress.progress} <${Text} value=${progress.message ?? ""} />` : "Running …"}</span>
  </div>`;
}

const Result = ({ result }) => html`<section class="outcome">
  <p><${Badge} kind="good">ok<//> <span class="muted">${duration(result.duration)}</span> <${CopyButton} text=${pretty(result.structured)}>Copy the result<//></p>
  <${Block} value=${result.structured} label="Result" tall />
  ${result.notes?.map((note, place) => html`<p key=${place} class="muted"><${Text} value=${note} /></p>`)}
</section>`;

const Failure = ({ error }) => html`<section class="outcome" role="alert">
  <p><${Badge} kind="bad">${error.code}<//></p>
  <p class="bad-text"><${Text} value=${error.message} /></p>
  ${error.details?.problems && html`<ul>${error.details.problems.map((each, place) => html`<li key=${place}><span class="mono"><${Text} value=${each.path || "/"} /></span> <${Text} value=${each.message} /></li>`)}</ul>`}
</section>`;

const FORMATS = ["openai", "anthropic", "gemini", "mcp"];

function Convert({ id }) {
  const formats = [...FORMATS.filter((each) => me.value.formats.includes(each)), ...me.value.formats.filter((each) => !FORMATS.includes(each))];
  const [to, setTo] = useState(formats[0]);
  const [isStrict, setStrict] = useState(false);
  const strictly = to === "openai" || to === "anthropic";
  const { data, error } = useLoad(() => post("/convert", { ids: [id], to, options: strictly && isStrict ? { strict: true } : {} }), [id, to, isStrict && strictly]);
  const made = data?.items[0];
  const own = new Set(["backend", "namespace", "tags", "version"]);
  const warnings = (made?.warnings ?? []).filter((each) => each.part !== "definition" || !own.has(each.feature));
  return html`<${Tabs} label="Format" items=${formats.map((each) => [each, each])} chosen=${to} choose=${setTo} />
    ${strictly && html`<label class="check"><input type="checkbox" checked=${isStrict} onChange=${(event) => setStrict(event.target.checked)} /> Hold the model to the schema (strict)</label>`}
    ${error && html`<${Problem} error=${error} />`}
    ${made && html`<p><${CopyButton} text=${pretty(made.payload)}>Copy the definition<//></p>
      <${Block} value=${made.payload} label="Definition" tall />
      ${warnings.length > 0 && html`<h3>Lost in the conversion</h3><ul class="plain">${warnings.map((each, place) => html`<li key=${place}><span class="mono"><${Text} value=${each.path || each.feature} /></span> <${Text} value=${each.message} /></li>`)}</ul>`}`}`;
}

function Tool({ id }) {
  const { query } = route.value;
  const tab = query.tab ?? "docs";
  const setTab = (next) => go("tools", id, { ...query, tab: next === "docs" ? "" : next }, { replace: true });
  return html`<${Panel} title=${id} close=${() => go("tools", "", query)}>
    <p class="links"><a href=${link("calls", "", { tool: id })}>Its calls</a>${me.value.operator && html`<a href=${link("access", "", { tool: id })}>Who may call it</a>`}</p>
    <${Tabs} label="Tool" items=${[["docs", "What it does"], ["run", "Run"], ["convert", "Convert"]]} chosen=${tab} choose=${setTab} />
    <div role="tabpanel" aria-label=${{ docs: "What it does", run: "Run", convert: "Convert" }[tab]}>
      ${tab === "docs" ? html`<${Documentation} id=${id} />` : tab === "run" ? html`<${Run} id=${id} />` : html`<${Convert} id=${id} />`}
    </div>
  <//>`;
}

export default function Tools() {
  const { rows, total, error, busy, note, more, reload } = useTools();
  const spaces = useLoad((signal) => get("/namespaces", {}, { signal }));
  const { query, id } = route.value;
  const set = (name, value) => go("tools", "", { ...query, [name]: value }, { replace: true });
  const open = (tool) => go("tools", tool.id, query);
  const isSearch = Boolean((query.q ?? "").trim());
  return html`<${Head} title="Tools" about=${rows.length ? (isSearch ? `${plural(total, "tool")} found, best first` : plural(total, "tool")) : null} />
    <div class="filters">
      <${SearchBox} label="What should it do?" value=${query.q ?? ""} change=${(value) => set("q", value)} />
      <select aria-label="Namespace" value=${query.namespace ?? ""} onChange=${(event) => set("namespace", event.target.value)}>
        <option value="">Any namespace</option>
        ${[...new Set([...(spaces.data?.items ?? []), ...(query.namespace ? [query.namespace] : [])])].map((each) => html`<option key=${each} value=${each}>${plain(each)}</option>`)}
      </select>
    </div>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${note && rows.length > 0 && html`<p class="notice quiet">Nothing clearly fits; these are guesses.</p>`}
    ${!rows.length && busy && html`<${Busy} />`}
    ${!rows.length && !busy && !error &&
    (isSearch || query.namespace
      ? html`<${Empty} title="No tool fits"><p>Say in other words what the tool should do, or <${Button} kind="quiet" onClick=${() => go("tools")}>show all tools<//></p><//>`
      : html`<${Empty} title="No tools yet"><p>Add a server, and its tools appear here:</p><${Command}>toolcrib add time -- uvx mcp-server-time<//><//>`)}
    <div class="with-panel">
      ${rows.length > 0 &&
      html`<${VirtualList}
        key=${isSearch ? "found" : "all"}
        label="Tools"
        rows=${rows}
        total=${total}
        height=${isSearch ? 76 : 52}
        need=${more}
        selected=${id}
        open=${open}
        row=${(tool) =>
          html`<span role="cell" class="tool-cell">
              <button type="button" class="plain-link mono cut" onClick=${() => open(tool)}><${Text} value=${tool.id} /></button>
              <span class="muted cut"><${Text} value=${tool.shortDescription} /></span>
              ${isSearch && html`<span class="small cut why">score ${tool.score?.toFixed(2)} (${tool.scoreType}) · <${Text} value=${why(tool.why)} /></span>`}
            </span>
            <span role="cell" class="tool-side">${isSearch && tool.confidence !== undefined ? html`<${Confidence} value=${tool.confidence} />` : (tool.tags ?? []).slice(0, 2).map((tag) => html`<${Badge} key=${tag}><${Text} value=${tag} /><//>`)}</span>`}
      />`}
      ${id && html`<${Tool} key=${id} id=${id} />`}
    </div>`;
}
