// The calls, the newest first.

import { Text, bytes, count, download, duration, get, go, html, link, listen, me, plain, route, time, tokensOf, useEffect, useLoad, useRef, useState } from "../lib.js";
import { Badge, Block, Busy, Button, Command, Empty, Head, Panel, Problem, SearchBox, Tabs, VirtualList, prettyText } from "../ui.js";

const RANGES = [["", "All stored calls"], ["5", "5 minutes"], ["60", "1 hour"], ["1440", "24 hours"]];
const NEVER = "gen_ai.tool.name";
/** The choice of one's own calls, which no caller is called. */
const MINE = "\n";

const who = (call) => [call["user.id"], call["toolcrib.client"]].filter(Boolean).join(" via ") || "unknown";
const outcome = (call) => call["error.type"] ?? "ok";

function filters() {
  const { tool, who: caller, outcome: result, text, minutes, mine } = route.value.query;
  return { tool, who: caller, outcome: result, text, mine, since: minutes ? Date.now() / 1000 - Number(minutes) * 60 : undefined };
}

function useCalls() {
  const { query } = route.value;
  const mark = JSON.stringify(query);
  const [state, setState] = useState({ rows: [], total: 0, error: null, busy: true });
  const next = useRef(null);
  const busy = useRef(false);
  const turn = useRef(0);
  const load = async (cursor) => {
    const mine = cursor ? turn.current : (turn.current += 1);
    busy.current = true;
    try {
      const page = await get("/calls", { ...filters(), limit: 500, cursor });
      if (mine !== turn.current) return;
      next.current = page.nextCursor ?? null;
      setState((before) => ({ rows: cursor ? [...before.rows, ...page.items] : page.items, total: page.total, error: null, busy: false }));
    } catch (error) {
      if (mine === turn.current) setState((before) => ({ ...before, error, busy: false }));
    } finally {
      busy.current = false;
    }
  };
  useEffect(() => {
    load();
  }, [mark]);
  useEffect(
    () =>
      listen("calls", ({ items, cut }) => {
        if (cut) {
          load();
          return;
        }
        const { tool, who: caller, outcome: result, text, mine } = filters();
        const fits = items.filter(
          (call) =>
            (!mine || (call["user.id"] === me.value.subject && call["toolcrib.issuer"] === me.value.issuer)) &&
            (!tool || call[NEVER] === tool || (tool.endsWith("*") && call[NEVER].startsWith(tool.slice(0, -1)))) &&
            (!caller || call["user.id"] === caller || call["toolcrib.client"] === caller) &&
            (!result || (result === "failed" ? outcome(call) !== "ok" : outcome(call) === result)) &&
            (!text || `${call[NEVER]} ${who(call)} ${outcome(call)}`.toLowerCase().includes(text.toLowerCase())),
        );
        if (fits.length) {
          setState((before) => {
            const known = new Set(before.rows.slice(0, 500).map((row) => row.id));
            const fresh = fits.filter((call) => !known.has(call.id)).reverse();
            return { ...before, rows: [...fresh, ...before.rows], total: before.total + fresh.length };
          });
        }
      }),
    [mark],
  );
  useEffect(() => listen("back", () => load()), [mark]);
  return { ...state, more: () => next.current && !busy.current && load(next.current), reload: () => load() };
}

function Details({ id }) {
  const { data, error } = useLoad((signal) => get(`/calls/${id}`, {}, { signal }), [id]);
  const close = () => go("calls", "", route.value.query);
  if (error) return html`<${Panel} title="Call" close=${close}><${Problem} error=${error} /><//>`;
  if (!data) return html`<${Panel} title="Call" close=${close}><${Busy} /><//>`;
  const payload = data.payload;
  const facts = [
    ["Outcome", html`<${Badge} kind=${outcome(data) === "ok" ? "good" : "bad"}>${outcome(data)}<//>`],
    ["Began", new Date(data.time).toLocaleString("en-GB")],
    ["Took", duration(data["toolcrib.duration"])],
    ["Caller", who(data)],
    ["Vouched for by", data["toolcrib.issuer"]],
    ["Groups", data["user.roles"]?.join(", ")],
    ["Ran on", data["toolcrib.backend"]],
    ["Allowed by", data["toolcrib.policy.effect"] === "allow" ? (data["toolcrib.policy.rule"] ?? "no rule needed") : undefined],
    ["Refused by", data["toolcrib.policy.effect"] === "deny" ? (data["toolcrib.policy.rule"] ?? "the policy") : undefined],
    ["Failed at", data["toolcrib.op"]],
    ["From the cache", data["toolcrib.cached"] ? "yes" : undefined],
    ["Size of arguments", bytes(data["toolcrib.arguments.bytes"])],
    ["Size of result", `${bytes(data["toolcrib.result.bytes"])}, about ${count(tokensOf(data["toolcrib.result.bytes"]))} tokens`],
  ].filter(([, value]) => value !== undefined);
  const tool = data[NEVER];
  return html`<${Panel} title=${tool} close=${close}>
    <p class="links">
      <a href=${link("tools", tool)}>Open the tool</a>
      <a href=${link("calls", "", { ...route.value.query, tool })}>Only this tool</a>
      ${data["user.id"] && html`<a href=${link("calls", "", { ...route.value.query, who: data["user.id"] })}>Only this caller</a>`}
    </p>
    ${payload?.message && html`<div class="problem"><p><${Text} value=${payload.message} /></p></div>`}
    <${Waterfall} call=${data} />
    <dl>${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${typeof value === "string" ? html`<${Text} value=${value} />` : value}</dd></div>`)}</dl>
    ${payload
      ? html`<h3>Arguments</h3><${Payload} part=${payload.args} label="Arguments" />
          <h3>Result</h3><${Payload} part=${payload.result} label="Result" />`
      : html`<p class="muted">Its arguments and its result are no longer stored; those of the newest calls are.</p>`}
  <//>`;
}

const STAGES = { resolve: "Find the tool", check: "Rules and arguments", consent: "A person is asked" };

/** The calls of the same request at their time, and the stages of the one that is shown. */
function Waterfall({ call }) {
  const began = call.request.find((each) => each.id === call.id)?.began;
  const stages = call.payload?.stages ?? [];
  if (began === undefined || (call.request.length < 2 && !stages.length)) return null;
  const first = Math.min(...call.request.map((each) => each.began));
  const last = Math.max(...call.request.map((each) => each.began + each["toolcrib.duration"]));
  const span = Math.max(last - first, 1e-6);
  const bar = (from, to, kind) =>
    html`<span class="fall-track"><span class=${kind} style=${{ left: `${((from - first) / span) * 100}%`, width: `max(2px, ${((to - from) / span) * 100}%)` }}></span></span>`;
  return html`<section class="fall" aria-label="Where the time went">
    ${call.request.map((each) => {
      const isThis = each.id === call.id;
      return html`<div key=${each.id} class="fall-row">
        <span class="cut">${isThis ? html`<strong class="mono"><${Text} value=${each[NEVER]} /></strong>` : html`<a class="mono" href=${link("calls", String(each.id), route.value.query)}><${Text} value=${each[NEVER]} /></a>`}</span>
        ${bar(each.began, each.began + each["toolcrib.duration"], outcome(each) === "ok" ? "" : "bad")}
        <span class="number tabular muted">${duration(each["toolcrib.duration"])}</span>
      </div>
      ${isThis && stages.map((stage, at) => html`<div key=${`${each.id}-${at}`} class="fall-row stage">
        <span class="cut muted">${STAGES[stage.name] ?? html`On <span class="mono"><${Text} value=${stage.name} /></span>`}</span>
        ${bar(began + stage.began, began + stage.ended, "soft")}
        <span class="number tabular muted">${duration(stage.ended - stage.began)}</span>
      </div>`)}`;
    })}
  </section>`;
}

const Payload = ({ part, label }) =>
  part
    ? html`<${Block} value=${part.cut ? part.text : prettyText(part.text)} label=${label} tall />
        ${part.cut && html`<p class="muted">The first ${bytes(part.text.length)} of ${bytes(part.bytes)}.</p>`}`
    : html`<p class="muted">None.</p>`;

/** Calls side by side, one lane for each caller, at their time. */
function Lanes({ rows, open }) {
  const shown = rows.slice(0, 400);
  if (!shown.length) return null;
  const ends = shown.map((call) => Date.parse(call.time) / 1000 + call["toolcrib.duration"]);
  const last = Math.max(...ends);
  const first = Math.min(...shown.map((call) => Date.parse(call.time) / 1000));
  const span = Math.max(last - first, 0.001);
  const lanes = Map.groupBy ? Map.groupBy(shown, who) : shown.reduce((found, call) => found.set(who(call), [...(found.get(who(call)) ?? []), call]), new Map());
  return html`<div class="lanes" role="group" aria-label="One lane for each caller">
    ${[...lanes].map(
      ([name, calls]) =>
        html`<div class="lane" key=${name}>
          <span class="lane-name"><${Text} value=${name} /></span>
          <div class="lane-track">
            ${calls.map((call) => {
              const start = (Date.parse(call.time) / 1000 - first) / span;
              return html`<button
                type="button"
                key=${call.id}
                class=${outcome(call) === "ok" ? "" : "bad"}
                style=${{ left: `${start * 100}%`, width: `max(6px, ${(call["toolcrib.duration"] / span) * 100}%)` }}
                title=${plain(`${call[NEVER]} · ${outcome(call)} · ${duration(call["toolcrib.duration"])}`)}
                aria-label=${plain(`${call[NEVER]}, ${outcome(call)}, ${duration(call["toolcrib.duration"])}`)}
                onClick=${() => open(call)}
              ></button>`;
            })}
          </div>
        </div>`,
    )}
    <p class="lane-scale muted"><span>${time(first)}</span><span>${duration(span)}</span><span>${time(last)}</span></p>
  </div>`;
}

export default function Calls() {
  const { rows, total, error, busy, more, reload } = useCalls();
  const { query, id } = route.value;
  const known = useLoad((signal) => get("/calls/callers", {}, { signal }), [total === 0]);
  const [view, setView] = useState("list");
  const set = (name, value) => go("calls", "", { ...query, [name]: value }, { replace: true });
  const open = (call) => go("calls", String(call.id), query);
  const isFiltered = Object.values(query).some(Boolean);
  const pick = (name, label, options) =>
    html`<select aria-label=${label} value=${query[name] ?? ""} onChange=${(event) => set(name, event.target.value)}>
      <option value="">${label}</option>
      ${[...new Set([...options, ...(query[name] ? [query[name]] : [])])].map((each) => html`<option key=${each} value=${each}>${plain(each)}</option>`)}
    </select>`;
  return html`<${Head} title="Calls" about=${total ? `${count(total)} ${isFiltered ? "that match" : "kept, the newest first"}${me.value.auditor ? "" : "; your own"}` : null}>
      <${Button} onClick=${() => download("/calls/export", { ...filters(), format: "csv" }, "calls.csv")} disabled=${!total}>Export CSV<//>
      <${Button} onClick=${() => download("/calls/export", { ...filters(), format: "json" }, "calls.json")} disabled=${!total}>Export JSON<//>
    <//>
    <div class="filters">
      <${SearchBox} label="Tool, caller or outcome" value=${query.text ?? ""} change=${(value) => set("text", value)} />
      ${pick("tool", "Any tool", known.data?.tools ?? [])}
      <select aria-label="Anybody" value=${query.mine ? MINE : (query.who ?? "")} onChange=${(event) => go("calls", "", { ...query, mine: event.target.value === MINE ? "true" : "", who: event.target.value === MINE ? "" : event.target.value }, { replace: true })}>
        <option value="">Anybody</option>
        ${me.value.auditor && html`<option value=${MINE}>Only me</option>`}
        ${[...new Set([...(known.data?.who ?? []), ...(query.who ? [query.who] : [])])].map((each) => html`<option key=${each} value=${each}>${plain(each)}</option>`)}
      </select>
      <select aria-label="Any outcome" value=${query.outcome ?? ""} onChange=${(event) => set("outcome", event.target.value)}>
        <option value="">Any outcome</option><option value="failed">all that failed</option>
        ${(known.data?.outcomes ?? []).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
      </select>
      <select aria-label="Time" value=${query.minutes ?? ""} onChange=${(event) => set("minutes", event.target.value)}>
        ${RANGES.map(([value, title]) => html`<option key=${value} value=${value}>${title}</option>`)}
      </select>
      <${Tabs} label="View" items=${[["list", "List"], ["lanes", "Lanes"]]} chosen=${view} choose=${setView} />
    </div>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!rows.length && busy && html`<${Busy} />`}
    ${!rows.length && !busy && !error &&
    (isFiltered
      ? html`<${Empty} title="No call matches"><p><${Button} onClick=${() => go("calls")}>Show all calls<//></p><//>`
      : html`<${Empty} title="No calls yet">
          <p>Calls of every client appear here as they happen. Run one on the page <a href=${link("tools")}>Tools</a>, or connect a client:</p>
          <${Command}>${`claude mcp add --transport http toolcrib ${location.origin}/mcp`}<//>
        <//>`)}
    ${rows.length > 0 &&
    html`<div class="with-panel">
      ${view === "lanes"
        ? html`<${Lanes} rows=${rows} open=${open} />`
        : html`<${VirtualList}
            label="Calls"
            rows=${rows}
            total=${total}
            height=${40}
            need=${more}
            selected=${Number(id)}
            open=${open}
            head=${html`<span role="columnheader">Time</span><span role="columnheader">Tool</span><span role="columnheader">Caller</span><span role="columnheader">Outcome</span><span role="columnheader" class="number">Took</span>`}
            row=${(call) =>
              html`<span role="cell" class="muted tabular">${time(call.time)}</span>
                <span role="cell" class="cut"><button type="button" class="plain-link mono cut" onClick=${() => open(call)}><${Text} value=${call[NEVER]} /></button></span>
                <span role="cell" class="cut"><${Text} value=${who(call)} /></span>
                <span role="cell">${outcome(call) === "ok" ? html`<span class="good-text">ok</span>` : html`<${Badge} kind="bad">${outcome(call)}<//>`}</span>
                <span role="cell" class="number tabular">${duration(call["toolcrib.duration"])}</span>`}
          />`}
      ${id && html`<${Details} key=${id} id=${id} />`}
    </div>`}`;
}
