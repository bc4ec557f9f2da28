// The page of a link that was sent to a person: one call that waits, and nothing else.

import { Text, html, post, route, time, useLoad, useState } from "../lib.js";
import { Arguments, Badge, Busy, Button, Problem } from "../ui.js";

export default function Answer() {
  const [id, token] = route.value.id.split("/");
  const path = `/approvals/${encodeURIComponent(id ?? "")}/link`;
  const options = { headers: { "X-Toolcrib-Key": "login" } };
  const { data, error } = useLoad(() => post(path, { token: token ?? "" }, options), [id, token]);
  const [state, setState] = useState({});
  const answer = async (approve) => {
    setState({ busy: true });
    try {
      await post(path, { token, approve }, options);
      setState({ approve });
    } catch (failure) {
      setState({ error: failure });
    }
  };
  return html`<main class="log-in answer">
    <h1>A call is waiting for you</h1>
    ${error && html`<p class="muted">It is no longer waiting: it was answered, it timed out, or this is not its link.</p>`}
    ${!data && !error && html`<${Busy} />`}
    ${state.approve !== undefined && html`<p role="status"><${Badge} kind=${state.approve ? "good" : "bad"}>${state.approve ? "approved" : "denied"}<//> You can close this page.</p>`}
    ${data && state.approve === undefined && html`
      <p><strong><${Text} value=${[data.subject, data.client].filter(Boolean).join(" via ") || "Somebody unknown"} /></strong> wants to call <span class="mono"><${Text} value=${(data.seenAs ?? data).toolId} /></span> ${data.destructive && html`<${Badge} kind="bad">may destroy something<//>`}</p>
      ${data.reason && html`<p><${Text} value=${data.reason} /></p>`}
      <${Arguments} call=${data} />
      <p class="muted">Asked at ${time(data.asked)}; refused at ${time(data.ends)} if there is no answer.</p>
      ${state.error && html`<${Problem} error=${state.error} />`}
      <div class="waiting-actions">
        <${Button} kind="primary" icon="check" disabled=${state.busy} onClick=${() => answer(true)}>Approve<//>
        <${Button} kind="danger" disabled=${state.busy} onClick=${() => answer(false)}>Deny<//>
      </div>`}
  </main>`;
}
