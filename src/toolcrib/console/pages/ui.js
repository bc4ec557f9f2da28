// The parts that pages are made of.

import { Text, copy, html, plain, pretty, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";

const PATHS = {
  overview: "M3 12l4-5 4 3 6-7M3 17h14",
  servers: "M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01",
  tools: "M12.5 3.5a4 4 0 0 0-4.6 5.4L3 13.8 6.2 17l4.9-4.9a4 4 0 0 0 5.4-4.6l-2.6 2.6-2.4-.6-.6-2.4z",
  changes: "M6 16V4M3 7l3-3 3 3M14 4v12M11 13l3 3 3-3",
  calls: "M4 5h12M4 10h12M4 15h8",
  approvals: "M10 3l6 2.5V10c0 3.5-2.6 6-6 7-3.4-1-6-3.5-6-7V5.5zM7.5 10l2 2 3.5-4",
  access: "M6 9V6.5a4 4 0 0 1 8 0V9M4.5 9h11v8h-11zM10 12.5v1.5",
  runs: "M4 5h4v4H4zM12 11h4v4h-4zM8 7h3a1.5 1.5 0 0 1 1.5 1.5V11",
  tokens: "M10 3c3.9 0 6 1.3 6 2.8s-2.1 2.8-6 2.8-6-1.3-6-2.8S6.1 3 10 3zM4 6v4c0 1.5 2.1 2.8 6 2.8s6-1.3 6-2.8V6M4 10v4c0 1.5 2.1 2.8 6 2.8s6-1.3 6-2.8v-4",
  config: "M4 6h7M15 6h1M4 14h1M9 14h7M13 4v4M7 12v4",
  search: "M9 3.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11M13 13l4 4",
  close: "M5 5l10 10M15 5L5 15",
  menu: "M3 5h14M3 10h14M3 15h14",
  play: "M6 4l10 6-10 6z",
  stop: "M5 5h10v10H5z",
  copy: "M7 7h9v9H7zM4 13V4h9",
  check: "M4 10.5l4 4 8-9",
  back: "M12 4l-6 6 6 6",
  out: "M8 4H4v12h4M12 6l4 4-4 4M16 10H8",
  sun: "M10 6.5a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7M10 1.5v2M10 16.5v2M1.5 10h2M16.5 10h2M4 4l1.4 1.4M14.6 14.6L16 16M4 16l1.4-1.4M14.6 5.4L16 4",
};

export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

export const Button = ({ kind = "", icon, children, label, ...more }) =>
  html`<button type="button" class=${`button ${kind}`} aria-label=${label} title=${label} ...${more}>
    ${icon && html`<${Icon} name=${icon} />`}${children}
  </button>`;

export function CopyButton({ text, children = "Copy" }) {
  const [isDone, setDone] = useState(false);
  const act = async () => {
    await copy(typeof text === "function" ? await text() : text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<${Button} kind="quiet" icon=${isDone ? "check" : "copy"} onClick=${act}>${isDone ? "Copied" : children}<//>`;
}

export const Badge = ({ kind = "", children }) => html`<span class=${`badge ${kind}`}>${children}</span>`;

export const Head = ({ title, about, children }) =>
  html`<header class="head">
    <div>
      <h1 tabindex="-1">${title}</h1>
      ${about && html`<p class="muted">${about}</p>`}
    </div>
    <div class="actions">${children}</div>
  </header>`;

export const Empty = ({ title, children }) =>
  html`<div class="empty"><h2>${title}</h2><div>${children}</div></div>`;

export const Problem = ({ error, retry }) =>
  html`<div class="problem" role="alert">
    <p><${Text} value=${error.message} /></p>
    ${retry && html`<${Button} onClick=${retry}>Try again<//>`}
  </div>`;

export const Command = ({ children }) =>
  html`<span class="command"><code>${children}</code><${CopyButton} text=${children} /></span>`;

export const Busy = () => html`<p class="muted busy" role="status">Loading …</p>`;

/** JSON or text of others, with what is hidden in it shown. */
export const Block = ({ value, label, tall }) =>
  html`<pre class=${`block ${tall ? "tall" : ""}`} tabindex="0" role="region" aria-label=${label}><${Text}
    value=${typeof value === "string" ? value : pretty(value)}
  /></pre>`;

export function prettyText(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The arguments of a call that waits: all that is sent, and as its caller gave them where a toolset shapes the tool. */
export const Arguments = ({ call }) =>
  call.seenAs
    ? html`<${Block} value=${prettyText(call.seenAs.args)} label="Arguments of the caller" tall />
        <p>What is sent to <span class="mono"><${Text} value=${call.toolId} /></span>:</p>
        <${Block} value=${prettyText(call.args)} label=${`What is sent to ${call.toolId}`} tall />`
    : html`<${Block} value=${prettyText(call.args)} label="All arguments" tall />`;

/** Tabs of one page. */
export function Tabs({ items, chosen, choose, label }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const place = (items.findIndex(([id]) => id === chosen) + step + items.length) % items.length;
    choose(items[place][0]);
    event.currentTarget.children[place].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${items.map(
      ([id, title]) =>
        html`<button
          type="button"
          role="tab"
          key=${id}
          aria-selected=${id === chosen}
          tabindex=${id === chosen ? 0 : -1}
          onClick=${() => choose(id)}
        >
          ${title}
        </button>`,
    )}
  </div>`;
}

/** A panel at the side, beside a list; at the bottom of small screens. Escape closes it. */
export function Panel({ title, close, children }) {
  const panel = useRef();
  useEffect(() => {
    const before = document.activeElement;
    panel.current?.focus();
    return () => before?.isConnected && before.focus();
  }, []);
  return html`<aside
    class="panel"
    ref=${panel}
    tabindex="-1"
    aria-label=${plain(title)}
    onKeyDown=${(event) => event.key === "Escape" && !event.target.closest("dialog") && (event.stopPropagation(), close())}
  >
    <header>
      <h2><${Text} value=${title} /></h2>
      <${Button} kind="quiet" icon="close" label="Close" onClick=${close} />
    </header>
    <div class="panel-body">${children}</div>
  </aside>`;
}

export function Dialog({ title, close, children }) {
  const dialog = useRef();
  useLayoutEffect(() => {
    dialog.current.showModal();
  }, []);
  return html`<dialog ref=${dialog} onClose=${close} aria-labelledby="dialog-title">
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

/** A list of which only the rows in sight are in the page; `need` is called where more have to be loaded. */
export function VirtualList({ rows, total, height, need, row, head, label, selected, open }) {
  const box = useRef();
  const [view, setView] = useState({ top: 0, size: 600 });
  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => setView({ top: element.scrollTop, size: element.clientHeight });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);
  const first = Math.max(0, Math.floor(view.top / height) - 8);
  const last = Math.min(rows.length, Math.ceil((view.top + view.size) / height) + 8);
  useEffect(() => {
    if (need && rows.length < total && Math.ceil((view.top + view.size) / height) + 40 > rows.length) need();
  }, [view, rows.length, total]);
  const move = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const at = Number(event.target.closest?.("[data-at]")?.dataset.at);
    if (!step || Number.isNaN(at)) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(rows.length - 1, at + step));
    const element = box.current;
    if (to * height < element.scrollTop) element.scrollTop = to * height;
    if ((to + 1) * height > element.scrollTop + element.clientHeight) element.scrollTop = (to + 1) * height - element.clientHeight;
    requestAnimationFrame(() => requestAnimationFrame(() => element.querySelector(`[data-at="${to}"] button, [data-at="${to}"] a`)?.focus()));
  };
  return html`<div class="list" role="table" aria-label=${label} aria-rowcount=${total + 1}>
    ${head && html`<div role="rowgroup" class="list-head"><div role="row" class="row" aria-rowindex="1">${head}</div></div>`}
    <div role="rowgroup" class="list-body" ref=${box} tabindex="-1" onKeyDown=${move}>
      <div role="presentation" style=${{ height: `${Math.max(rows.length, 0) * height}px` }}>
        <div role="presentation" style=${{ transform: `translateY(${first * height}px)` }}>
          ${rows.slice(first, last).map(
            (each, place) =>
              html`<div
                role="row"
                key=${each.id}
                class=${`row ${each.id === selected ? "selected" : ""}`}
                aria-rowindex=${first + place + 2}
                data-at=${first + place}
                style=${{ height: `${height}px` }}
                onClick=${(event) => event.target.closest("a, button") || open?.(each)}
              >
                ${row(each)}
              </div>`,
          )}
        </div>
      </div>
    </div>
  </div>`;
}

export const Field = ({ label, hint, children, id }) =>
  html`<div class="field">
    <label for=${id}>${label}</label>
    ${children}${hint && html`<p class="hint">${hint}</p>`}
  </div>`;

export function SearchBox({ value, change, label, focusKey = true }) {
  const box = useRef();
  useEffect(() => {
    if (!focusKey) return undefined;
    const focus = (event) => {
      if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
      event.preventDefault();
      box.current.focus();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);
  return html`<div class="search">
    <${Icon} name="search" />
    <input
      type="search"
      ref=${box}
      aria-label=${label}
      placeholder=${label}
      value=${value}
      onInput=${(event) => change(event.target.value)}
    />
    ${focusKey && html`<kbd aria-hidden="true">/</kbd>`}
  </div>`;
}
