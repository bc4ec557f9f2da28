// What servers and APIs changed since it was approved, what the scan finds in it, and the decisions about it.

import { Text, count, get, html, link, listen, me, plain, plural, post, useEffect, useLoad, useState } from "../lib.js";
import { Badge, Block, Busy, Button, Command, Dialog, Empty, Field, Head, Problem } from "../ui.js";

const KINDS = { none: "", patch: "", minor: "accent", major: "bad" };
const WORDS = { none: "the same", patch: "small change", minor: "compatible change", major: "breaking change" };

/** What a report leaves out where there is none of it. */
const NONE = { drifts: [], withheld: [], findings: [], unanswered: [], blocked: {} };

/** Lines of a unified diff, each marked as added or taken away by more than its colour. */
const Diff = ({ lines, label }) =>
  html`<pre class="block tall diff" tabindex="0" role="region" aria-label=${label}>${lines.map(
    (line, at) => html`<span key=${at} class=${line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}><${Text} value=${line} />${"\n"}</span>`,
  )}</pre>`;

function Finding({ finding, act, busy }) {
  return html`<li>
    <p><${Badge} kind=${finding.severity === "hard" ? "bad" : "accent"}>${finding.rule}<//> <${Text} value=${finding.message} /> <span class="muted mono"><${Text} value=${finding.path} /></span></p>
    <${Block} value=${finding.excerpt} label=${`What ${finding.rule} found in ${plain(finding.id)} at ${plain(finding.path)}`} />
    ${me.value.operator && html`<p><${Button} kind="quiet" disabled=${busy} onClick=${() => act("suppress", finding)}>It is harmless<//></p>`}
  </li>`;
}

function Subject({ id, drift, findings, withheld, act, busy }) {
  return html`<li class="waiting">
    <div class="waiting-head">
      <h2 class="mono"><${Text} value=${id} /></h2>
      ${drift && html`<${Badge} kind=${KINDS[drift.level]}>${WORDS[drift.level]}<//>`}
      ${findings.some((each) => each.verdict === "poisoned") && html`<${Badge} kind="bad">designed to mislead<//>`}
    </div>
    ${withheld && html`<p class="bad-text"><${Text} value=${withheld.reason} /></p>`}
    ${drift?.changes.length > 0 && html`<ul class="plain">${drift.changes.map((each, at) => html`<li key=${at}><${Badge} kind=${KINDS[each.level]}>${each.level}<//> <${Text} value=${each.message} /></li>`)}</ul>`}
    ${drift?.lines?.length > 0 && html`<${Diff} lines=${drift.lines} label=${`What an approval of ${plain(id)} changes in the lock`} />`}
    ${findings.length > 0 && html`<ul class="plain call-list">${findings.map((each, at) => html`<${Finding} key=${at} finding=${each} act=${act} busy=${busy} />`)}</ul>`}
    ${me.value.operator && html`<div class="waiting-actions">
      ${(drift || withheld) && html`<${Button} kind="primary" icon="check" disabled=${busy} onClick=${() => act("approve", { id })}>Approve<//>`}
      ${!/^(server|prompt|template)\//.test(id) && html`<${Button} kind="danger" disabled=${busy} onClick=${() => act("block", { id })}>Block<//>`}
    </div>`}
  </li>`;
}

/** Asks for the reason of a decision, which the lock keeps. */
function Reason({ title, ask, close, decide }) {
  const [reason, setReason] = useState("");
  const submit = (event) => {
    event.preventDefault();
    decide(reason.trim());
  };
  return html`<${Dialog} title=${title} close=${close}>
    <form onSubmit=${submit}>
      <${Field} id="reason" label=${ask} hint="The lock keeps it, for those who read it later"><input id="reason" required value=${reason} onInput=${(event) => setReason(event.target.value)} /><//>
      <div class="dialog-actions"><${Button} onClick=${close}>Do nothing<//><button class="button danger" disabled=${!reason.trim()}>${title}</button></div>
    </form>
  <//>`;
}

export default function Changes() {
  const { data, error, reload } = useLoad(async (signal) => ({ ...NONE, ...(await get("/changes", {}, { signal })) }));
  const [state, setState] = useState({});
  const [asking, setAsking] = useState(null);
  useEffect(() => {
    const stops = ["catalogue", "back", "servers"].map((kind) => listen(kind, reload));
    return () => stops.forEach((stop) => stop());
  }, []);
  // `settles` are the subjects of which nothing is left to decide afterwards: "all" of them, or their ids.
  const send = async (what, body, said, settles) => {
    setState({ busy: true });
    setAsking(null);
    try {
      await post(`/changes/${what}`, body);
      setState({ said, settles });
    } catch (failure) {
      setState({ error: failure });
    }
    reload();
    document.querySelector("h1")?.focus();
  };
  const act = (what, { id, rule }) => {
    if (what === "approve") send("approve", { subjects: [id] }, `Approved: ${plain(id)}`, [id]);
    else setAsking({ what, id, rule });
  };
  const head = html`<${Head} title="Changes" about=${data?.lock ? html`Against <span class="mono"><${Text} value=${data.lock} /></span>` : "Against what was approved"}>
    ${me.value.operator && data?.isLocked && data.drifts.length > 0 && html`<${Button} disabled=${state.busy} onClick=${() => send("approve", { everything: true }, "Approved: everything that had changed", "all")}>Approve all<//>`}
    ${me.value.operator && data?.lock && !data.isLocked && html`<${Button} kind="primary" disabled=${state.busy} onClick=${() => send("lock", {}, "Locked: what servers offer now is what is approved", "all")}>Approve all and lock<//>`}
  <//>`;
  if (error && !data) return html`${head}<${Problem} error=${error} retry=${reload} />`;
  if (!data) return html`${head}<${Busy} />`;
  const drifts = new Map(data.drifts.map((each) => [each.id, each]));
  const withheld = new Map(data.withheld.map((each) => [each.id, each]));
  const findings = Map.groupBy ? Map.groupBy(data.findings, (each) => each.id) : data.findings.reduce((found, each) => found.set(each.id, [...(found.get(each.id) ?? []), each]), new Map());
  const blocked = Object.entries(data.blocked);
  const ids = [...new Set([...withheld.keys(), ...drifts.keys(), ...findings.keys()])].filter((id) => !(id in data.blocked));
  // It has changed once more since: what was said is no longer true.
  const isStale = state.settles === "all" ? ids.length > 0 : state.settles?.some((id) => ids.includes(id));
  return html`${head}
    <p role="status" class="muted">${isStale ? "" : (state.said ?? "")}</p>
    ${state.error && html`<${Problem} error=${state.error} />`}
    ${!data.lock && html`<p class="notice quiet wrap">Without a configuration file there is no lock beside it: what changes while the gateway runs is shown here, and nothing can be approved permanently.</p>`}
    ${data.unanswered.length > 0 && html`<p class="notice quiet wrap">Nothing is known about <${Text} value=${data.unanswered.join(", ")} />, which ${data.unanswered.length === 1 ? "has" : "have"} not answered. <a href=${link("servers")}>Servers</a></p>`}
    ${ids.length > 0
      ? html`<ul class="waitings">${ids.map((id) => html`<${Subject} key=${id} id=${id} drift=${drifts.get(id)} withheld=${withheld.get(id)} findings=${findings.get(id) ?? []} act=${act} busy=${state.busy} />`)}</ul>`
      : data.isLocked || !data.lock
        ? html`<${Empty} title="Nothing has changed"><p>All ${count(data.tools)} tools still match what was approved. When a server changes one, it appears here with the difference.</p><//>`
        : html`<${Empty} title="Nothing is locked yet"><p>A lock keeps what was approved of ${plural(data.tools, "tool")}, so that a changed one is noticed, and withheld until somebody has looked. Write it here, or in a terminal, and commit the file:</p><${Command}>toolcrib lock<//><//>`}
    ${blocked.length > 0 && html`<section class="narrow" aria-labelledby="blocked"><h2 id="blocked">Blocked</h2>
      <ul class="plain logins">${blocked.map(([id, why]) => html`<li key=${id}><span><span class="mono"><${Text} value=${id} /></span> <span class="muted"><${Text} value=${why} /></span></span>
        ${me.value.operator && html`<${Button} disabled=${state.busy} label=${`Approve ${plain(id)} again`} onClick=${() => act("approve", { id })}>Approve again<//>`}</li>`)}</ul></section>`}
    ${asking && html`<${Reason} title=${asking.what === "block" ? "Block" : "Accept"} ask=${asking.what === "block" ? "Why may nobody use it?" : "Why is it harmless?"} close=${() => setAsking(null)}
      decide=${(reason) => send(asking.what, asking.what === "block" ? { id: asking.id, reason } : { id: asking.id, rule: asking.rule, reason }, `${asking.what === "block" ? "Blocked" : "Accepted"}: ${plain(asking.id)}`, asking.what === "block" ? [asking.id] : [])} />`}`;
}
