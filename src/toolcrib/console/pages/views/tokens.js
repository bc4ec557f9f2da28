// The tokens that definitions of tools take in the context of a model.

import { Text, count, get, html, link, percent, useLoad } from "../lib.js";
import { Busy, Button, Empty, Head, Problem, VirtualList } from "../ui.js";

function save(rows) {
  const text = ["tool,tokens", ...rows.map((row) => `"${row.toolId.replaceAll('"', '""')}",${row.tokens}`)].join("\r\n");
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  anchor.download = "tokens.csv";
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
}

export default function Tokens() {
  const { data, error, reload } = useLoad((signal) => get("/tokens", {}, { signal }));
  if (error) return html`<${Head} title="Tokens" /><${Problem} error=${error} retry=${reload} />`;
  if (!data) return html`<${Head} title="Tokens" /><${Busy} />`;
  const rows = data.items.map((each) => ({ ...each, id: each.toolId }));
  const most = rows[0]?.tokens ?? 1;
  return html`<${Head} title="Tokens" about="How much of a model's context the definitions take">
      <${Button} disabled=${!rows.length} onClick=${() => save(rows)}>Export CSV<//>
    <//>
    ${rows.length === 0
      ? html`<${Empty} title="No tools to count"><p>Add a server on the page <a href=${link("servers")}>Servers</a>.</p><//>`
      : html`<p class="lead">
            A client that lists all ${count(data.tools)} tools reads <strong>${count(data.direct)}</strong> tokens; through the meta-tools it reads <strong>${count(data.surface)}</strong>.
            ${data.saved > 0 ? html` <strong>${percent(data.saved)} saved.</strong>` : " Listing so few tools directly costs less: set gateway.expose to auto."}
          </p>
          <${VirtualList}
            label="Tokens by tool"
            rows=${rows}
            total=${rows.length}
            height=${40}
            row=${(each) =>
              html`<span role="cell" class="cut"><a class="mono" href=${link("tools", each.toolId)}><${Text} value=${each.toolId} /></a></span>
                <span role="cell"><span class="bar wide-bar"><span style=${{ width: `${(each.tokens / most) * 100}%` }}></span></span></span>
                <span role="cell" class="number tabular">${count(each.tokens)}</span>`}
          />`}`;
}
