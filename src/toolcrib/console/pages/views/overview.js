// How everything is doing.

import { Text, count, duration, get, html, link, listen, me, percent, plural, useEffect, useLoad, useRef, waiting } from "../lib.js";
import { Badge, Busy, Button, Command, Empty, Head, Problem } from "../ui.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

function Chart({ series }) {
  const box = useRef();
  const plot = useRef();
  useEffect(() => {
    let isThere = true;
    const times = series.calls.map((_, place) => series.start + place * 60);
    const data = [times, series.calls, series.failed, series.p95.map((each) => (each === null ? null : each * 1000))];
    import("../vendor/uplot.js").then(({ default: uPlot }) => {
      if (!isThere || !box.current) return;
      if (plot.current) {
        plot.current.setData(data);
        return;
      }
      const axis = { stroke: () => colour("--muted"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
      plot.current = new uPlot(
        {
          width: box.current.clientWidth,
          height: 220,
          padding: [12, 0, 0, 0],
          cursor: { drag: { x: false, y: false }, points: { show: false } },
          legend: { show: false },
          scales: { x: { time: true, range: (_, low, high) => [low - 45, high + 45] }, ms: { range: (_, low, high) => [0, Math.max(1, high || 1) * 1.15] }, y: { range: (_, low, high) => [0, Math.max(4, high * 1.15)] } },
          axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => clock.format(new Date(tick * 1000))) }, { ...axis, size: 44 }, { ...axis, scale: "ms", side: 1, size: 56, grid: { show: false }, values: (_, ticks) => ticks.map((tick) => (tick ? duration(tick / 1000) : "0")) }],
          series: [
            {},
            { label: "Calls", stroke: () => colour("--accent"), fill: () => colour("--accent"), width: 0, paths: uPlot.paths.bars({ size: [0.7, 40], radius: 0.2 }), points: { show: false } },
            { label: "Failed", stroke: () => colour("--bad"), fill: () => colour("--bad"), width: 0, paths: uPlot.paths.bars({ size: [0.7, 40], radius: 0.2 }), points: { show: false } },
            { label: "p95", scale: "ms", stroke: () => colour("--muted"), width: 1.5, dash: [4, 4], spanGaps: true, points: { show: true, size: 4 } },
          ],
        },
        data,
        box.current,
      );
    });
    return () => (isThere = false);
  }, [series]);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => plot.current?.setSize({ width: entry.contentRect.width, height: 220 }));
    observer.observe(box.current);
    const repaint = new MutationObserver(() => plot.current?.redraw());
    repaint.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      observer.disconnect();
      repaint.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  const calls = series.calls.reduce((sum, each) => sum + each, 0);
  return html`<figure class="chart">
    <div ref=${box} role="img" aria-label=${`${plural(calls, "call")} in the last ${series.calls.length} minutes, by minute`}></div>
    <figcaption>
      <span class="key accent">Calls per minute</span><span class="key bad">Failed</span><span class="key dashed">95th percentile of the duration</span>
    </figcaption>
  </figure>`;
}

const Figure = ({ title, value, about, href, bad }) =>
  html`<a class=${`figure ${bad ? "is-bad" : ""}`} href=${href}>
    <span class="figure-title">${title}</span><span class="figure-value">${value}</span><span class="muted">${about}</span>
  </a>`;

export default function Overview() {
  const { data, error, reload } = useLoad((signal) => get("/overview", { minutes: 60 }, { signal }));
  const tokens = useLoad((signal) => get("/tokens", {}, { signal }));
  useEffect(() => {
    let timer = null;
    const soon = () => (timer ??= setTimeout(() => ((timer = null), reload()), 1000));
    const stops = ["calls", "servers", "catalogue", "back", "approvals"].map((kind) => listen(kind, soon));
    const minute = setInterval(reload, 60000);
    return () => {
      stops.forEach((stop) => stop());
      clearTimeout(timer);
      clearInterval(minute);
    };
  }, []);
  if (error && !data) return html`<${Head} title="Overview" /><${Problem} error=${error} retry=${reload} />`;
  if (!data) return html`<${Head} title="Overview" /><${Busy} />`;
  const servers = Object.values(data.servers).reduce((sum, each) => sum + each, 0);
  const failing = data.calls ? data.failed / data.calls : 0;
  const saved = tokens.data;
  return html`<${Head} title="Overview" about="The last 60 minutes" />
    ${(waiting.value.length > 0 || data.unhealthy.length > 0) && html`<div class="notices">
    ${waiting.value.length > 0 &&
    html`<a class="notice accent" href=${link("approvals")}>
      <strong>${waiting.value.length === 1 ? "A call is waiting" : `${waiting.value.length} calls are waiting`} for you</strong>
      <span><${Text} value=${waiting.value.map((each) => each.toolId).slice(0, 3).join(", ")} /></span><span class="go">Decide</span>
    </a>`}
    ${data.unhealthy.length > 0 &&
    html`<a class="notice bad" href=${link("servers")}>
      <strong>${plural(data.unhealthy.length, "server")} ${data.unhealthy.length === 1 ? "needs" : "need"} attention</strong>
      <span><${Text} value=${data.unhealthy.slice(0, 3).join(", ")} /></span><span class="go">Repair</span>
    </a>`}
    </div>`}
    <section class="figures" aria-label="Figures">
      <${Figure} title="Calls" value=${count(data.calls)} about=${`${count(data.running)} running now`} href=${link("calls")} />
      <${Figure} title="Failed" value=${percent(failing)} about=${plural(data.failed, "call")} bad=${failing > 0.1} href=${link("calls", "", { outcome: "failed" })} />
      <${Figure} title="Median time" value=${duration(data.p50)} about=${`95% within ${duration(data.p95)}`} href=${link("calls")} />
      <${Figure} title="Tools" value=${count(data.tools)} about=${servers ? `of ${plural(servers, "server")}` : "of this process"} href=${link("tools")} />
      <${Figure}
        title="Tokens saved"
        value=${saved ? (saved.saved > 0 ? percent(saved.saved) : "0%") : "…"}
        about=${saved ? `${count(saved.direct)} for all definitions` : "counting"}
        href=${link("tokens")}
      />
    </section>
    ${data.calls === 0
      ? html`<${Empty} title="No calls yet">
          <p>Try a tool on the page <a href=${link("tools")}>Tools</a>, or connect a client:</p>
          <${Command}>${`claude mcp add --transport http toolcrib ${location.origin}/mcp`}<//>
        <//>`
      : html`<${Chart} series=${data.series} />
          <section aria-labelledby="top">
            <h2 id="top">Most used</h2>
            <div class="scroll" tabindex="0" role="region" aria-label="Most used tools">
              <table>
                <thead>
                  <tr><th>Tool</th><th class="number">Calls</th><th class="number">Failed</th><th class="number">Total time</th><th class="number">Result tokens</th></tr>
                </thead>
                <tbody>
                  ${data.top.map(
                    (each) =>
                      html`<tr key=${each.toolId}>
                        <td><a class="mono" href=${link("calls", "", { tool: each.toolId })}><${Text} value=${each.toolId} /></a></td>
                        <td class="number">${count(each.calls)}</td>
                        <td class="number">${each.failed ? html`<${Badge} kind="bad">${count(each.failed)}<//>` : "0"}</td>
                        <td class="number">${duration(each.seconds)}</td>
                        <td class="number">${count(each.tokens)}</td>
                      </tr>`,
                  )}
                </tbody>
              </table>
            </div>
          </section>`}
    ${servers === 0 &&
    me.value.operator &&
    html`<${Empty} title="No servers yet">
      <p>The tools here are those of this process. Add an MCP server or an HTTP API:</p>
      <${Command}>toolcrib add time -- uvx mcp-server-time<//>
    <//>`}`;
}
