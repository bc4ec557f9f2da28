// The durable runs: begun, followed live, cancelled, resumed. Code is shown line by line, a chain as a graph.

import { Text, count, duration, get, go, html, listen, plain, plural, post, route, events, time, useEffect, useLoad, useRef, useState } from "../lib.js";
import { Badge, Block, Busy, Button, Command, Empty, Field, Head, Panel, Problem, Tabs } from "../ui.js";
import { Json } from "../form.js";

const KINDS = { done: "good", running: "accent", failed: "bad" };
const ROW = 44;
const GUTTER = 44;

/** Return the state of calls in words, and the kind of its badge. */
function stateOf(calls, isRunning) {
  if (calls.some((call) => call.state === "open")) return isRunning ? ["running", "accent"] : ["may have run", "bad"];
  if (calls.some((call) => call.state === "failed")) return ["failed", "bad"];
  return calls.length ? ["done", "good"] : ["", ""];
}

function nodeState(node, isRunning) {
  if (node.end?.skipped) return ["skipped", ""];
  if (node.end?.error) return ["failed", "bad"];
  if (node.end) return ["done", "good"];
  return stateOf(node.calls, isRunning);
}

function Calls({ calls, isRunning }) {
  return html`<ul class="plain call-list">${calls.map((call) => {
    const [word, kind] = stateOf([call], isRunning);
    return html`<li key=${call.key}>
      <p><span class="mono"><${Text} value=${call.toolId} /></span> <${Badge} kind=${kind}>${word}<//> <span class="muted">${call.duration === undefined ? "" : duration(call.duration)}</span></p>
      <${Block} value=${call.args} label=${`Arguments of call ${call.key}`} />
      ${call.message && html`<p class="bad-text"><${Text} value=${call.message} /></p>`}
      ${call.value !== undefined && html`<${Block} value=${call.value} label=${`Result of call ${call.key}`} />`}
    </li>`;
  })}</ul>`;
}

/** Code with the calls that each line has made. */
function Code({ code, calls, isRunning }) {
  const [chosen, setChosen] = useState(null);
  const byLine = new Map();
  for (const call of calls) for (const line of call.lines) byLine.set(line, [...(byLine.get(line) ?? []), call]);
  const shown = chosen === null ? calls : (byLine.get(chosen) ?? calls);
  return html`<ol class="code" aria-label="Code">${code.replace(/\n$/, "").split("\n").map((text, at) => {
      const made = byLine.get(at + 1) ?? [];
      const [word, kind] = stateOf(made, isRunning);
      return html`<li key=${at} class=${chosen === at + 1 ? "selected" : ""}>
        <span class="code-text"><${Text} value=${text || " "} /></span>
        ${made.length > 0 && html`<button type="button" class=${`badge ${kind}`} aria-pressed=${chosen === at + 1} onClick=${() => setChosen(chosen === at + 1 ? null : at + 1)}>${made.length > 1 ? `${plural(made.length, "call")} · ` : ""}${word}</button>`}
      </li>`;
    })}</ol>
    <h3>${chosen === null ? "All calls" : `Calls of line ${chosen}`}</h3>
    ${shown.length ? html`<${Calls} calls=${shown} isRunning=${isRunning} />` : html`<p class="muted">None yet.</p>`}`;
}

/** The steps of a chain from top to bottom, with an arc from each step to those that use its result. */
function Graph({ nodes, isRunning }) {
  const [chosen, setChosen] = useState(null);
  const y = (slot) => slot * ROW + ROW / 2;
  const node = nodes.find((each) => each.slot === chosen);
  return html`<div class="graph" style=${{ minHeight: `${nodes.length * ROW}px` }}>
      <svg width=${GUTTER} height=${nodes.length * ROW} aria-hidden="true">
        ${nodes.flatMap((each) => each.dependsOn.map((from) => {
          const bend = Math.min(34, 10 + 7 * (each.slot - from));
          return html`<path key=${`${from}-${each.slot}`} class=${chosen === each.slot || chosen === from ? "chosen" : ""} d=${`M36 ${y(from)} C${36 - bend} ${y(from)} ${36 - bend} ${y(each.slot)} 36 ${y(each.slot)}`} />`;
        }))}
        ${nodes.map((each) => html`<circle key=${each.slot} class=${nodeState(each, isRunning)[1]} cx="36" cy=${y(each.slot)} r="5" />`)}
      </svg>
      <ol class="plain" aria-label="Steps">${nodes.map((each) => {
        const [word, kind] = nodeState(each, isRunning);
        const needs = each.dependsOn.map((slot) => nodes[slot].name).join(", ");
        return html`<li key=${each.slot} style=${{ paddingLeft: `${each.depth * 20}px` }} class=${chosen === each.slot ? "selected" : ""}>
          <button type="button" class="plain-link cut" aria-expanded=${chosen === each.slot} onClick=${() => setChosen(chosen === each.slot ? null : each.slot)}>
            <strong><${Text} value=${each.name} /></strong> <span class="mono muted"><${Text} value=${each.toolId ?? "in parallel"} /></span>${needs && html`<span class="unseen"> uses ${plain(needs)}</span>`}
          </button>
          <span class="badges">
            ${each.kind === "for_each" && html`<${Badge}>${each.items === undefined ? "each" : plural(each.items, "item")}<//>`}
            ${each.conditional && html`<${Badge}>if<//>`}
            ${word && html`<${Badge} kind=${kind}>${word}<//>`}
          </span>
        </li>`;
      })}</ol>
    </div>
    ${node && html`<h3>Step <${Text} value=${node.name} /></h3>
      ${node.end && html`<p class="muted">${duration(node.end.duration)}</p>
        ${node.end.args && html`<${Block} value=${node.end.args} label="Arguments of the step" />`}
        ${node.end.error && html`<p class="bad-text"><${Text} value=${node.end.error.message} /></p>`}
        ${node.end.structured !== undefined && html`<${Block} value=${node.end.structured} label="Result of the step" />`}`}
      ${node.calls.length > 0 && html`<${Calls} calls=${node.calls} isRunning=${isRunning} />`}
      ${!node.end && !node.calls.length && html`<p class="muted">It has not begun.</p>`}`}`;
}

function Uncertain({ run, resume, busy }) {
  const [values, setValues] = useState({});
  const keys = Object.entries(run.uncertain ?? {});
  if (!keys.length) return html`<p><${Button} kind="primary" icon="play" disabled=${busy} onClick=${() => resume({})}>Go on<//></p>`;
  const answers = () => Object.fromEntries(keys.filter(([key]) => values[key] !== undefined).map(([key]) => [key, values[key]]));
  return html`<div class="notice quiet wrap">
      <p>${plural(keys.length, "call")} had begun when the run stopped, and may have run. Read-only tools are called again; for the others, find out whether they ran and enter their answers, or have them called again.</p>
    </div>
    ${keys.map(([key, tool]) => html`<${Field} key=${key} id=${`answer-${key}`} label=${html`Answer of <span class="mono"><${Text} value=${tool} /></span>`} hint="JSON; empty: no answer">
      <${Json} id=${`answer-${key}`} value=${undefined} change=${(next) => setValues({ ...values, [key]: next })} rows=${2} /><//>`)}
    <p class="run-go">
      <${Button} kind="primary" icon="play" disabled=${busy} onClick=${() => resume({ answers: answers() })}>Go on<//>
      <${Button} disabled=${busy} onClick=${() => resume({ answers: answers(), repeat: true })}>Make the others again<//>
    </p>`;
}

function Details({ id, changed }) {
  const { data, error, reload } = useLoad((signal) => get(`/runs/${encodeURIComponent(id)}`, {}, { signal }), [id]);
  const [failure, setFailure] = useState(null);
  const [busy, setBusy] = useState(false);
  const state = data?.run.state;
  useEffect(() => {
    if (state !== "running") return undefined;
    const timer = setInterval(reload, 700);
    return () => clearInterval(timer);
  }, [state]);
  useEffect(() => {
    if (state) changed();
  }, [state, data?.run.step]);
  const act = async (what, body) => {
    setBusy(true);
    setFailure(null);
    const timer = setTimeout(reload, 300);
    try {
      await post(`/runs/${encodeURIComponent(id)}/${what}`, body);
    } catch (problem) {
      setFailure(problem);
    }
    clearTimeout(timer);
    setBusy(false);
    reload();
  };
  const close = () => go("runs");
  if (error && !data) return html`<${Panel} title=${id} close=${close}><${Problem} error=${error} retry=${reload} /><//>`;
  if (!data) return html`<${Panel} title=${id} close=${close}><${Busy} /><//>`;
  const { run } = data;
  const isRunning = run.state === "running";
  return html`<${Panel} title=${id} close=${close}>
    <p><${Badge} kind=${KINDS[run.state] ?? ""}>${run.state}<//> <span class="muted">${run.kind}, ${plural(run.step, "call")} answered, begun ${time(run.began)}</span></p>
    ${isRunning && html`<p><${Button} kind="danger" icon="stop" onClick=${() => act("cancel")}>Cancel<//></p>`}
    ${run.state === "suspended" && html`<${Uncertain} run=${run} busy=${busy} resume=${(body) => act("resume", body)} />`}
    ${failure && html`<${Problem} error=${failure} />`}
    ${data.message && html`<div class="problem"><p><${Text} value=${data.message} /></p></div>`}
    ${data.problem && html`<div class="problem"><p><${Text} value=${data.problem} /></p></div>`}
    ${data.code !== undefined && html`<${Code} code=${data.code} calls=${data.calls} isRunning=${isRunning} />`}
    ${data.graph && html`<${Graph} nodes=${data.graph} isRunning=${isRunning} />`}
    ${data.steps && !data.graph && html`<${Block} value=${data.steps} label="Steps" tall />`}
    ${data.result && html`<h3>Result</h3><${Block} value=${run.kind === "code" ? (data.result.value ?? null) : data.result.final} label="Result of the run" tall />
      ${data.result.stdout && html`<h3>Printed</h3><${Block} value=${data.result.stdout} label="What it printed" />`}`}
  <//>`;
}

const EXAMPLES = {
  code: '# Each namespace is an object; __out is the result.\nlength = await math.convert_length(value=26.2, unit="mi", to="km")\n__out = round(length, 2)\n',
  chain: [
    { id: "length", toolId: "math:convert_length", args: { value: 26.2, unit: "mi", to: "km" } },
    { id: "note", toolId: "notes:add", args: { text: "A marathon" } },
  ],
};

/** Begin a run, which goes on in this page: leaving it suspends the run, which can be resumed. */
function Begin({ changed }) {
  const [kind, setKind] = useState("code");
  const [code, setCode] = useState(EXAMPLES.code);
  const [steps, setSteps] = useState(EXAMPLES.chain);
  const [isBad, setBad] = useState(false);
  const [state, setState] = useState({});
  const controller = useRef(null);
  useEffect(() => () => controller.current?.abort(), []);
  const begin = async (event) => {
    event.preventDefault();
    controller.current = new AbortController();
    setState({ busy: true });
    const timer = setInterval(changed, 700);
    try {
      const body = kind === "code" ? { code } : { steps };
      for await (const { kind: end, data } of events("/runs", { method: "POST", body, signal: controller.current.signal })) setState({ [end]: data });
    } catch (error) {
      setState(controller.current.signal.aborted ? {} : { error });
    }
    clearInterval(timer);
    changed();
  };
  return html`<${Panel} title="New run" close=${() => go("runs")}>
    <${Tabs} label="Kind" items=${[["code", "Code"], ["chain", "Chain"]]} chosen=${kind} choose=${setKind} />
    <form role="tabpanel" aria-label=${kind === "code" ? "Code" : "Chain"} onSubmit=${begin}>
      ${kind === "code"
        ? html`<div class="field"><label for="code">Python that calls tools</label><textarea id="code" class="mono" rows="10" spellcheck="false" value=${code} onInput=${(event) => setCode(event.target.value)}></textarea></div>`
        : html`<div class="field"><label for="steps">Steps as JSON</label><${Json} id="steps" value=${steps} change=${(next) => setSteps(Array.isArray(next) ? next : [])} onBad=${setBad} rows=${12} /></div>`}
      <div class="run-go"><button class="button primary" disabled=${state.busy || isBad}>Run</button>
        ${state.busy && html`<span class="muted" role="status">Running; it is in the list. Leaving this panel suspends it.</span>`}</div>
    </form>
    <div aria-live="polite">
      ${state.error && html`<${Problem} error=${state.error} />`}
      ${state.result && html`<p><${Badge} kind="good">done<//></p><${Block} value=${kind === "code" ? (state.result.value ?? null) : state.result.final} label="Result" tall />
        ${state.result.runId && html`<p><${Button} onClick=${() => go("runs", state.result.runId)}>Show its calls<//></p>`}`}
    </div>
  <//>`;
}

export default function Runs() {
  const { data, error, reload } = useLoad((signal) => get("/runs", {}, { signal }));
  const { id } = route.value;
  useEffect(() => listen("back", reload), []);
  return html`<${Head} title="Runs" about="Code and chains whose calls are recorded, so that they can continue after a crash">
      <${Button} onClick=${reload}>Read again<//>
      <${Button} kind="primary" onClick=${() => go("runs", "new")}>New run<//>
    <//>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Busy} />`}
    <div class="with-panel">
      ${data && (data.items.length === 0
        ? html`<${Empty} title="No durable runs"><p>Begin one here with <strong>New run</strong>, or in a terminal, and follow it here:</p><${Command}>toolcrib code --durable FILE<//><//>`
        : html`<ul class="plain runs">${data.items.map((run) => html`<li key=${run.id} class=${`run-line ${run.id === id ? "selected" : ""}`}>
            <button type="button" class="plain-link mono" onClick=${() => go("runs", run.id)}>${run.id}</button> <${Badge} kind=${KINDS[run.state] ?? ""}>${run.state}<//>
            <span class="muted small">${run.kind}, ${count(run.step)} answered, ${time(run.began)}</span>
          </li>`)}</ul>`)}
      ${id === "new" ? html`<${Begin} changed=${reload} />` : id && html`<${Details} key=${id} id=${id} changed=${reload} />`}
    </div>`;
}
