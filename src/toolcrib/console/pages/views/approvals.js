// The calls waiting for approval.

import { Text, duration, get, html, me, post, time, useEffect, useState, waiting, link } from "../lib.js";
import { Arguments, Badge, Block, Button, Command, Empty, Head, Problem } from "../ui.js";

function Left({ ends }) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, []);
  return html`<span class="muted tabular">${ends > now ? `refused in ${duration(Math.round(ends - now))} if there is no answer` : "timed out"}</span>`;
}

function Waiting({ call, onAnswer }) {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const answer = async (approve) => {
    setBusy(true);
    try {
      await post(`/approvals/${call.id}`, { approve });
      onAnswer(call, approve);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const who = [call.subject, call.client].filter(Boolean).join(" via ") || "somebody unknown";
  return html`<li class="waiting">
    <div class="waiting-head">
      <h2><a class="mono" href=${link("tools", call.toolId)}><${Text} value=${(call.seenAs ?? call).toolId} /></a></h2>
      ${call.destructive && html`<${Badge} kind="bad">may destroy something<//>`}
    </div>
    <p><strong><${Text} value=${who} /></strong> <span class="muted">asked at ${time(call.asked)}${call.rule ? html`; the rule <span class="mono"><${Text} value=${call.rule} /></span> asks you first` : ""}</span></p>
    ${call.reason && html`<p><${Text} value=${call.reason} /></p>`}
    <${Arguments} call=${call} />
    ${error && html`<${Problem} error=${error} />`}
    ${me.value.operator ? html`<div class="waiting-actions">
      <${Button} kind="primary" icon="check" disabled=${busy} onClick=${() => answer(true)}>Approve<//>
      <${Button} kind="danger" disabled=${busy} onClick=${() => answer(false)}>Deny<//>
      <${Left} ends=${call.ends} />
    </div>` : html`<p><${Left} ends=${call.ends} /></p>`}
  </li>`;
}

export default function Approvals() {
  const [last, setLast] = useState(null);
  const heading = () => document.querySelector("h1")?.focus();
  useEffect(() => {
    if (me.value.auditor) get("/approvals").then((found) => (waiting.value = found.items), () => {});
  }, []);
  const answered = (call, approve) => {
    setLast({ call, approve });
    waiting.value = waiting.value.filter((each) => each.id !== call.id);
    heading();
  };
  return html`<${Head} title="Approvals" about="Calls waiting for approval; the oldest comes first" />
    <div><p role="status" class="muted">${last && html`${last.approve ? "Approved" : "Denied"}: <span class="mono"><${Text} value=${(last.call.seenAs ?? last.call).toolId} /></span>`}</p>
    ${waiting.value.length
      ? html`<ul class="waitings">${waiting.value.map((call) => html`<${Waiting} key=${call.id} call=${call} onAnswer=${answered} />`)}</ul>`
      : html`<${Empty} title="Nothing is waiting">
          <p>A call waits here while a rule asks a person first and its client cannot ask its own user. To have deletions wait, write in the configuration:</p>
          <${Block} label="A rule that asks" value=${'[[policy]]\nname = "ask before deleting"\ntools = ["*:delete_*"]\neffect = "ask"\nreason = "Deleting cannot be undone."\n\n[[policy]]\nname = "the rest"\neffect = "allow"'} />
          <p>Then see with <${Command}>toolcrib policy check<//> that it takes effect.</p>
        <//>`}</div>`;
}
