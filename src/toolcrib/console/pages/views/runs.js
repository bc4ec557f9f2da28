// The durable runs.

import { Text, count, get, html, post, time, useLoad, useState } from "../lib.js";
import { Badge, Block, Busy, Button, Command, Empty, Head, Problem } from "../ui.js";

const KINDS = { done: "good", running: "accent", failed: "bad" };

function Run({ run, reload }) {
  const [state, setState] = useState({});
  const resume = async () => {
    setState({ busy: true });
    try {
      setState({ result: await post(`/runs/${encodeURIComponent(run.id)}/resume`) });
      reload();
    } catch (error) {
      setState({ error });
    }
  };
  return html`<li class="run-line">
    <div class="run-head">
      <span class="mono">${run.id}</span> <${Badge} kind=${KINDS[run.state] ?? ""}>${run.state}<//>
      <span class="muted">${run.kind}, ${count(run.step)} calls answered, begun ${time(run.began)}</span>
      ${(run.state === "suspended" || run.state === "done") && html`<${Button} disabled=${state.busy} onClick=${resume}>${run.state === "done" ? "Show the result" : "Go on"}<//>`}
    </div>
    ${Object.keys(run.uncertain ?? {}).length > 0 && html`<p class="muted">May have run: <${Text} value=${Object.values(run.uncertain).join(", ")} /></p>`}
    ${state.error && html`<${Problem} error=${state.error} />`}
    ${state.result && html`<${Block} value=${state.result} label="Result of the run" tall />`}
  </li>`;
}

export default function Runs() {
  const { data, error, reload } = useLoad((signal) => get("/runs", {}, { signal }));
  return html`<${Head} title="Runs" about="Code and chains whose calls are written down, so that they can go on after a crash">
      <${Button} onClick=${reload}>Read again<//>
    <//>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Busy} />`}
    ${data?.items.length === 0 && html`<${Empty} title="No durable runs"><p>Begin one in a terminal, and follow it here:</p><${Command}>toolcrib code --durable FILE<//><//>`}
    ${data?.items.length > 0 && html`<ul class="plain runs">${data.items.map((run) => html`<${Run} key=${run.id} run=${run} reload=${reload} />`)}</ul>`}`;
}
