// The servers and APIs: their states, why one is down, and what repairs it.

import { Text, count, get, html, link, me, plain, plural, post, route, go, useEvents, useLoad, useState, duration } from "../lib.js";
import { Badge, Block, Busy, Button, Command, Empty, Head, Panel, Problem } from "../ui.js";

const WORDS = { ready: "Ready", starting: "Starting", stopped: "Asleep", failed: "Failed", disabled: "Off", closed: "Closed" };
const KINDS = { ready: "good", starting: "accent", failed: "bad" };

const State = ({ server }) =>
  server.paused
    ? html`<${Badge}>Stopped<//>`
    : html`<${Badge} kind=${server.healthy ? (KINDS[server.state] ?? "") : "bad"}>${server.healthy ? WORDS[server.state] : server.repair === "login" ? "Login needed" : (WORDS[server.state] ?? server.state)}<//>`;

function Actions({ server, act, busy }) {
  if (!me.value.operator) return null;
  const isMcp = server.transport !== "openapi" && server.state !== "disabled";
  return html`<div class="row-actions">
    ${server.repair === "login" && html`<${Button} kind="primary" disabled=${busy} onClick=${() => act("login")}>Log in<//>`}
    ${isMcp &&
    (server.paused || server.state !== "ready"
      ? html`<${Button} key="start" kind=${server.repair === "start" ? "primary" : ""} icon="play" disabled=${busy} onClick=${() => act("start")}>${server.paused || server.state === "stopped" ? "Start" : "Start again"}<//>`
      : html`<${Button} key="stop" icon="stop" disabled=${busy} onClick=${() => act("stop")}>Stop<//>`)}
  </div>`;
}

function Row({ server, changed }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const act = async (what) => {
    setBusy(true);
    setError(null);
    try {
      if (what === "login") window.open((await post(`/servers/${encodeURIComponent(server.name)}/login`)).url, "_blank", "noopener");
      else changed(await post(`/servers/${encodeURIComponent(server.name)}/${what}`));
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  const facts = [
    server.transport,
    server.tools !== undefined && plural(server.tools, "tool"),
    server.kept && "as last seen",
    server.inFlight > 0 && `${count(server.inFlight)} in flight`,
    server.pid && `process ${server.pid}`,
  ].filter(Boolean);
  const refused = Object.keys(server.refused ?? {}).length;
  return html`<li class="server" aria-busy=${busy}>
    <div class="server-name">
      <a href=${link("servers", server.name)}><${Text} value=${server.name} /></a>
      <span class="muted">${facts.join(" · ")}</span>
    </div>
    <div class="server-state">
      <${State} server=${server} />
      ${refused > 0 && html`<a class="muted" href=${link("servers", server.name)}>${plural(refused, "tool")} left out</a>`}
    </div>
    <div class="server-why">
      ${server.why && html`<p class=${server.healthy ? "muted" : "bad-text"}><${Text} value=${server.why} /></p>`}
      ${server.paused && html`<p class="muted">Stopped from the console: calls of its tools are refused until it is started.</p>`}
      ${server.hint && !server.healthy && html`<p class="muted">or in a terminal: <code>${server.hint}</code></p>`}
      ${server.state === "disabled" && html`<p class="muted">${server.hint}</p>`}
      ${error && html`<p class="bad-text" role="alert"><${Text} value=${error.message} /></p>`}
    </div>
    <${Actions} server=${server} act=${act} busy=${busy} />
  </li>`;
}

/** A login to a server, and the button that revokes it. */
function Holder({ server, holder }) {
  const [state, setState] = useState({});
  const revoke = async () => {
    setState({ busy: true });
    try {
      setState({ done: (await post(`/servers/${encodeURIComponent(server.name)}/revoke`, { issuer: holder.issuer ?? "", subject: holder.subject ?? "" })).revoked ? "revoked" : "deleted; its tokens stay valid until they expire" });
    } catch (error) {
      setState({ error });
    }
  };
  return html`<li><span>${holder.subject ? html`<${Text} value=${holder.subject} /> <span class="muted"><${Text} value=${holder.issuer} /></span>` : "the user of this machine"}</span>
    ${state.done ? html`<span class="muted" role="status">${state.done}</span>` : html`<${Button} kind="danger" disabled=${state.busy} label=${`Revoke the login of ${plain(holder.subject || "the user of this machine")}`} onClick=${revoke}>Revoke<//>`}
    ${state.error && html`<p class="bad-text" role="alert"><${Text} value=${state.error.message} /></p>`}</li>`;
}

function Details({ server }) {
  const log = useLoad((signal) => (me.value.operator ? get(`/servers/${encodeURIComponent(server.name)}/log`, {}, { signal }) : Promise.resolve(null)), [server.name, server.state]);
  const facts = [
    ["State", html`<${State} server=${server} />`],
    ["Transport", server.transport],
    ["Protocol", server.protocolVersion],
    ["Identifies as", server.serverInfo && `${server.serverInfo.name ?? ""} ${server.serverInfo.version ?? ""}`],
    ["Tools", server.tools !== undefined && html`<a href=${link("tools", "", { namespace: server.name })}>${count(server.tools)}</a>`],
    ["Listed", server.listedAgo !== undefined && `${duration(server.listedAgo)} ago`],
    ["Starts", server.starts],
    ["Next try in", server.nextTryIn !== undefined && duration(server.nextTryIn)],
  ].filter(([, value]) => value !== undefined && value !== false && value !== null);
  return html`<${Panel} title=${server.name} close=${() => go("servers")}>
    <dl>${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${typeof value === "string" ? html`<${Text} value=${value} />` : value}</dd></div>`)}</dl>
    ${server.why && html`<h3>Why it is down</h3><p class="bad-text"><${Text} value=${server.why} /></p>`}
    ${Object.keys(server.refused ?? {}).length > 0 &&
    html`<h3>Left out</h3><ul class="plain">${Object.entries(server.refused).map(([name, why]) => html`<li key=${name}><span class="mono"><${Text} value=${name} /></span> <span class="muted"><${Text} value=${why} /></span></li>`)}</ul>`}
    ${server.logins?.length > 0 && html`<h3>Who has logged in</h3><ul class="plain logins">${server.logins.map((each) => html`<${Holder} key=${`${each.issuer ?? ""} ${each.subject ?? ""}`} server=${server} holder=${each} />`)}</ul>`}
    ${me.value.operator && html`<h3>Standard error</h3>
      ${log.data?.text ? html`<${Block} value=${log.data.text} label="Last lines of its standard error" tall />` : html`<p class="muted">It has written nothing.</p>`}
      <${Button} kind="quiet" onClick=${log.reload}>Read again<//>`}
  <//>`;
}

export default function Servers() {
  const { data, error, reload } = useLoad((signal) => get("/servers", {}, { signal }));
  const [live, setLive] = useState(null);
  useEvents("servers", (news) => setLive(news.items));
  useEvents("back", () => (setLive(null), reload()));
  const base = data?.items;
  const items = live && base ? live.map((each) => ({ logins: base.find((known) => known.name === each.name)?.logins, ...each })) : base;
  const changed = (line) => setLive((items ?? []).map((each) => (each.name === line.name ? line : each)));
  const chosen = items?.find((each) => each.name === route.value.id);
  const sorted = items && [...items].sort((a, b) => Number(a.healthy) - Number(b.healthy) || a.name.localeCompare(b.name));
  const ill = items?.filter((each) => !each.healthy).length;
  return html`<${Head} title="Servers" about=${items && items.length > 0 ? (ill ? `${count(ill)} of ${count(items.length)} need attention` : "All of them are up") : null} />
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!items && !error && html`<${Busy} />`}
    ${items?.length === 0 &&
    html`<${Empty} title="No servers yet">
      <p>Servers give this gateway their tools. Add one in a terminal, and it appears here at once:</p>
      <${Command}>toolcrib add time -- uvx mcp-server-time<//>
      <p>Import those of another client with</p>
      <${Command}>toolcrib import<//>
    <//>`}
    ${sorted?.length > 0 && html`<div class="with-panel">
      <ul class="servers">${sorted.map((each) => html`<${Row} key=${each.name} server=${each} changed=${changed} />`)}</ul>
      ${chosen && html`<${Details} key=${chosen.name} server=${chosen} />`}
    </div>`}`;
}
