// Who may call what, by which rule; what other rules would have decided; and the tokens.

import { Text, count, get, go, html, post, pretty, route, useLoad, useState, time } from "../lib.js";
import { Badge, Block, Busy, Button, Command, Empty, Field, Head, Problem, Tabs } from "../ui.js";
import { Json } from "../form.js";

const KINDS = { allow: "good", deny: "bad", ask: "accent", unknown: "" };

function Ask() {
  const [tool, setTool] = useState(route.value.query.tool ?? "");
  const [subject, setSubject] = useState("");
  const [groups, setGroups] = useState("");
  const [client, setClient] = useState("");
  const [args, setArgs] = useState({});
  const [isBad, setBad] = useState(false);
  const [state, setState] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    try {
      const found = await post("/access", { toolId: tool.trim(), subject: subject.trim(), client: client.trim(), groups: groups.split(",").map((each) => each.trim()).filter(Boolean), args });
      setState({ found });
    } catch (error) {
      setState({ error });
    }
  };
  const { found, error } = state;
  return html`<form class="columns" onSubmit=${submit}>
      <${Field} id="subject" label="May" hint="token:ci, user:ann, local:me; empty for an unknown caller"><input id="subject" value=${subject} onInput=${(event) => setSubject(event.target.value)} /><//>
      <${Field} id="tool" label="call" hint="The id of a tool"><input id="tool" class="mono" required value=${tool} onInput=${(event) => setTool(event.target.value)} /><//>
      <${Field} id="groups" label="as a member of the groups" hint="Separated by commas"><input id="groups" value=${groups} onInput=${(event) => setGroups(event.target.value)} /><//>
      <${Field} id="client" label="with the client"><input id="client" value=${client} onInput=${(event) => setClient(event.target.value)} /><//>
      <div class="field wide"><label for="access-args">and these arguments?</label><${Json} id="access-args" value=${args} change=${(next) => setArgs(next ?? {})} onBad=${setBad} rows=${3} /></div>
      <div class="wide"><button class="button primary" disabled=${isBad || !tool.trim()}>Ask</button></div>
    </form>
    ${error && html`<${Problem} error=${error} />`}
    ${found && html`<section class="outcome" aria-live="polite">
      <p class="verdict"><${Badge} kind=${KINDS[found.effect]}>${found.effect}<//> ${found.rule ? html`by the rule <span class="mono"><${Text} value=${found.rule} /></span>` : found.rules.length ? "because no rule matches" : found.effect === "allow" ? "because there are no rules: everybody may run everything" : ""}${found.reason ? html`: <${Text} value=${found.reason} />` : ""}</p>
      ${found.confirmation && html`<p class="muted"><${Text} value=${found.confirmation} /></p>`}
      ${found.limits?.map((each) => html`<p key=${each.name} class="muted">Rate limit <span class="mono"><${Text} value=${each.name} /></span>: <${Text} value=${each.limit} /></p>`)}
      ${found.rules.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Rules"><table><thead><tr><th>Rule</th><th>Effect</th><th>Verdict</th></tr></thead>
        <tbody>${found.rules.map((each) => html`<tr key=${each.rule} class=${each.verdict === "decides" ? "selected" : ""}><td class="mono"><${Text} value=${each.rule} /></td><td><${Badge} kind=${KINDS[each.effect]}>${each.effect}<//></td><td>${each.verdict}</td></tr>`)}</tbody></table></div>`}
    </section>`}`;
}

function Simulate() {
  const rules = useLoad((signal) => get("/access/rules", {}, { signal }));
  const [given, setGiven] = useState(null);
  const [isBad, setBad] = useState(false);
  const [state, setState] = useState({});
  const run = async () => {
    setState({ busy: true });
    try {
      setState({ found: await post("/access/simulate", given === null ? {} : { rules: given }) });
    } catch (error) {
      setState({ error });
    }
  };
  if (!rules.data) return html`<${Busy} />`;
  const changed = state.found?.decisions.filter((each) => (each.effect === "deny") === each.ran);
  return html`<p>Change the rules here, and see what they would have decided about the latest calls. Nothing is saved.</p>
    <div class="field"><label for="rules">Rules; the first that matches decides</label>
      <${Json} id="rules" value=${rules.data.items.length ? rules.data.items : [{ name: "the rest", effect: "allow" }]} change=${(next) => setGiven(Array.isArray(next) ? next : [])} onBad=${setBad} rows=${8} /></div>
    <p><${Button} kind="primary" disabled=${isBad || state.busy} onClick=${run}>Try them on the latest calls<//></p>
    ${state.error && html`<${Problem} error=${state.error} />`}
    ${state.found && html`<section aria-live="polite">
      <p>${count(state.found.calls)} calls. ${changed.length ? html`<strong>${count(changed.reduce((sum, each) => sum + each.calls, 0))} would have ended differently.</strong>` : "None would have been decided differently."}</p>
      ${state.found.decisions.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Decisions"><table><thead><tr><th class="number">Calls</th><th>Decision</th><th>Rule</th><th>Tool</th><th>As it was</th></tr></thead>
        <tbody>${state.found.decisions.map((each, place) => html`<tr key=${place} class=${changed.includes(each) ? "selected" : ""}><td class="number">${count(each.calls)}</td><td><${Badge} kind=${KINDS[each.effect]}>${each.effect}<//></td><td class="mono"><${Text} value=${each.rule ?? "–"} /></td><td class="mono"><${Text} value=${each.toolId} /></td><td>${each.ran ? "ran" : "failed or was refused"}</td></tr>`)}</tbody></table></div>`}
    </section>`}`;
}

function Rules() {
  const { data, error } = useLoad((signal) => get("/access/rules", {}, { signal }));
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Busy} />`;
  if (!data.items.length) {
    return html`<${Empty} title="No rules: everybody may run everything">
      <p>Rules are tables of the configuration; the first that matches decides, and what none allows is refused.</p>
      <${Block} label="A first rule" value=${'[[policy]]\nname = "staff may do all"\nwho = ["group:staff"]\neffect = "allow"'} />
    <//>`;
  }
  return html`<ol class="rules">${data.items.map((rule) => html`<li key=${rule.name}>
    <p><${Badge} kind=${KINDS[rule.effect]}>${rule.effect}<//> <strong><${Text} value=${rule.name} /></strong> <span class="muted"><${Text} value=${rule.reason ?? ""} /></span></p>
    <p class="muted small">who <span class="mono"><${Text} value=${(rule.who ?? ["*"]).join(", ")} /></span> · tools <span class="mono"><${Text} value=${(rule.tools ?? ["*"]).join(", ")} /></span>${rule.args ? " · only some arguments" : ""}${Object.keys(rule.annotations ?? {}).length ? html` · hints <span class="mono">${pretty(rule.annotations)}</span>` : ""}</p>
  </li>`)}</ol>`;
}

function Keys() {
  const { data, error } = useLoad((signal) => get("/access/tokens", {}, { signal }));
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Busy} />`;
  return html`${data.closed && html`<p class="notice bad">Nobody can call over HTTP: ${data.closed}</p>`}
    ${data.items.length
      ? html`<div class="scroll" tabindex="0" role="region" aria-label="Tokens"><table><thead><tr><th>Name</th><th>Groups</th><th>Toolsets</th><th>Expires</th></tr></thead>
          <tbody>${data.items.map((each) => html`<tr key=${each.name}><td class="mono"><${Text} value=${each.name} /></td><td><${Text} value=${each.groups.join(", ") || "–"} /></td><td><${Text} value=${each.toolsets?.join(", ") ?? "all"} /></td><td>${each.expires ? time(each.expires) : "never"}</td></tr>`)}</tbody></table></div>
          <p class="muted">Revoke one in a terminal: <code>toolcrib token revoke NAME</code></p>`
      : html`<${Empty} title="No tokens"><p>A token is one person's or program's key to this gateway, with groups that rules can name.</p><${Command}>toolcrib token add ann --group staff --days 90<//><//>`}`;
}

const TABS = [["ask", "May X call Y?"], ["rules", "Rules"], ["simulate", "Simulate"], ["keys", "Access tokens"]];

export default function Access() {
  const tab = route.value.query.tab ?? "ask";
  const views = { ask: Ask, rules: Rules, simulate: Simulate, keys: Keys };
  return html`<${Head} title="Access" about="Who may call what, and by which rule" />
    <${Tabs} label="Access" items=${TABS} chosen=${tab} choose=${(next) => go("access", "", { ...route.value.query, tab: next }, { replace: true })} />
    <div role="tabpanel" class="narrow" aria-label=${TABS.find(([id]) => id === tab)?.[1]}><${views[tab] ?? Ask} key=${tab} /></div>`;
}
