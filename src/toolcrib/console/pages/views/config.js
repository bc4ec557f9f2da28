// The settings: what is set, what is wrong, and how to mend it.

import { Text, get, html, useLoad, useState } from "../lib.js";
import { Badge, Busy, Button, Command, Head, Problem, SearchBox } from "../ui.js";

const shown = (value) => (value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));

export default function Configuration() {
  const { data, error, reload } = useLoad((signal) => get("/config", {}, { signal }));
  const [text, setText] = useState("");
  const [isAll, setAll] = useState(false);
  if (error) return html`<${Head} title="Configuration" /><${Problem} error=${error} retry=${reload} />`;
  if (!data) return html`<${Head} title="Configuration" /><${Busy} />`;
  const wanted = text.toLowerCase();
  const sections = data.sections
    .map((section) => ({
      ...section,
      settings: section.settings.filter((each) => (isAll || each.set || wanted) && `${section.name} ${each.name}`.toLowerCase().includes(wanted)),
    }))
    .filter((section) => section.settings.length);
  return html`<${Head} title="Configuration" about=${data.source ? html`<${Text} value=${data.source} />` : "No file: everything has its default"}>
      <${Button} onClick=${reload}>Read again<//>
    <//>
    ${data.problems.length > 0
      ? html`<div class="problem" role="alert"><p><strong>The file cannot be used as it is now;</strong> the settings from before the change still apply.</p>
          <ul>${data.problems.map((each, place) => html`<li key=${place}><span class="mono"><${Text} value=${each.path} /></span> <${Text} value=${each.message} /></li>`)}</ul></div>`
      : data.source && html`<p><${Badge} kind="good">valid<//> <span class="muted">To see what else could be improved, in a terminal:</span> <${Command}>toolcrib doctor<//></p>`}
    <div class="filters">
      <${SearchBox} label="Find a setting" value=${text} change=${setText} />
      <label class="check"><input type="checkbox" checked=${isAll} onChange=${(event) => setAll(event.target.checked)} /> Defaults too</label>
    </div>
    ${sections.length === 0 && html`<p class="muted">${text ? "No setting is called that." : "Nothing is set; everything has its default."}</p>`}
    ${sections.map(
      (section) => html`<section key=${section.name} class="settings" aria-label=${section.name || "general"}>
        <h2 class="mono">${section.name ? html`[<${Text} value=${section.name} />]` : "General"}</h2>
        <dl class="wide-list">${section.settings.map((each) => html`<div key=${each.name}><dt class="mono">${each.name}</dt><dd class=${each.set ? "mono" : "mono muted"}><${Text} value=${shown(each.value)} />${!each.set && html` <span class="small">default</span>`}</dd></div>`)}</dl>
      </section>`,
    )}`;
}
