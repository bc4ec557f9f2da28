// The shell: logging in, the navigation, and the page of the route.

import {
  connection, effect, expect, follow, get, hasKey, html, link, logIn, logOut, me, render, route, runningCount, signal, useEffect, useState, waiting,
} from "./lib.js";
import { Badge, Button, Command, Icon, Problem } from "./ui.js";

const PAGES = [
  ["overview", "Overview"],
  ["servers", "Servers"],
  ["tools", "Tools"],
  ["changes", "Changes", "auditor"],
  ["calls", "Calls"],
  ["approvals", "Approvals", "auditor"],
  ["access", "Access", "auditor"],
  ["runs", "Runs"],
  ["tokens", "Tokens"],
  ["config", "Configuration", "operator"],
];

/** The page of a link that was sent to a person, which needs no login. */
const ANSWER = "answer";
const ICON = new URL("icon.svg", import.meta.url).pathname;
const loginError = signal("");

function takeCode() {
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", location.pathname);
  return code;
}

async function begin() {
  const code = takeCode();
  loadView(route.value.page);
  if (!code && hasKey() && route.value.page === "overview") expect("/overview", { minutes: 60 });
  try {
    if (code) await logIn({ code });
    else me.value = hasKey() ? await get("/me") : null;
  } catch (error) {
    if (code) loginError.value = error.message;
    // a link that was used already, such as after a reload, does not end a login
    me.value = await get("/me").catch(() => null);
    if (me.value) loginError.value = "";
  }
  if (code) route.value = { page: "overview", id: "", query: {} };
}

addEventListener("hashchange", () => /^#login=/.test(location.hash) && begin());

function LogIn() {
  const [token, setToken] = useState("");
  const submit = (event) => {
    event.preventDefault();
    loginError.value = "";
    logIn({ token }).catch((error) => (loginError.value = error.message));
  };
  return html`<main class="log-in">
    <p class="brand"><img src=${ICON} alt="" width="32" height="32" /> toolcrib</p>
    <h1>Open the console</h1>
    <p>In a terminal on the machine that runs the gateway:</p>
    <${Command}>toolcrib console<//>
    <p class="muted">It prints a link that logs this browser in once, and so does <code>toolcrib serve</code> when it starts.</p>
    ${loginError.value && html`<${Problem} error=${{ message: loginError.value }} />`}
    <details>
      <summary>Log in with a token of the gateway</summary>
      <form onSubmit=${submit}>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" value=${token} onInput=${(event) => setToken(event.target.value)} />
        <button class="button primary" disabled=${!token}>Log in</button>
      </form>
    </details>
  </main>`;
}

const views = signal({});

/** Load the module of a page; the browser keeps it, so that asking twice costs nothing. */
async function loadView(name) {
  if (views.value[name] || !(name === ANSWER || PAGES.some(([id]) => id === name))) return;
  let Page;
  try {
    Page = (await import(`./views/${name}.js`)).default;
  } catch {
    Page = () => html`<${Problem} error=${{ message: "This page could not be loaded; the gateway may have been updated." }} retry=${() => location.reload()} />`;
  }
  views.value = { ...views.value, [name]: Page };
}

function View({ name }) {
  useEffect(() => void loadView(name), [name]);
  const Page = views.value[name];
  return Page ? html`<${Page} />` : null;
}

const THEMES = ["", "light", "dark"];
const theme = signal(localStorage.getItem("toolcrib-theme") ?? "");
effect(() => {
  document.documentElement.dataset.theme = theme.value;
  if (theme.value) localStorage.setItem("toolcrib-theme", theme.value);
  else localStorage.removeItem("toolcrib-theme");
});

function Shell() {
  const page = PAGES.some(([id]) => id === route.value.page) ? route.value.page : "overview";
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    setOpen(false);
    document.title = `${PAGES.find(([id]) => id === page)[1]} · toolcrib`;
  }, [page]);
  const shown = PAGES.filter(([, , right]) => !right || me.value[right]);
  const counts = { approvals: waiting.value.length };
  return html`<div class=${`shell ${isOpen ? "open" : ""}`}>
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.querySelector("h1")?.focus())}>Skip to the page</a>
    <header class="side">
      <div class="side-head">
        <a class="brand" href=${link("overview")}><img src=${ICON} alt="" width="24" height="24" /> toolcrib</a>
        <${Button} kind="quiet menu" icon=${isOpen ? "close" : "menu"} label="Menu" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)} />
      </div>
      <nav aria-label="Pages">
        ${shown.map(
          ([id, title]) =>
            html`<a key=${id} href=${link(id)} aria-current=${id === page ? "page" : null}>
              <${Icon} name=${id} />${title}${counts[id] ? html`<${Badge} kind="accent">${counts[id]}<//>` : null}
            </a>`,
        )}
      </nav>
      <div class="side-foot">
        <p class=${`connection ${connection.value}`} role="status">
          ${connection.value === "lost" ? "Connection lost, trying again" : connection.value === "live" ? "Live" : "Connecting"}
          ${connection.value === "live" && runningCount.value > 0 ? ` · ${runningCount.value} running` : ""}
        </p>
        <p class="who">
          <span>${me.value.subject || me.value.client || "Somebody with the token"}</span>
          <span class="muted">${me.value.operator ? "operator" : me.value.auditor ? "auditor: sees all" : "own calls only"}</span>
        </p>
        <p class="foot-actions">
          <${Button} kind="quiet" icon="sun" label=${`Colours: ${theme.value || "same as the system"}`} onClick=${() => (theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % 3])} />
          <${Button} kind="quiet" icon="out" onClick=${logOut}>Log out<//>
        </p>
      </div>
    </header>
    <main id="main" class=${`page page-${page}`}><${View} name=${page} key=${page} /></main>
  </div>`;
}

function App() {
  useEffect(() => {
    if (me.value) follow();
  }, [me.value]);
  if (route.value.page === ANSWER) return html`<${View} name=${ANSWER} key=${route.value.id} />`;
  if (me.value === undefined) return null;
  return me.value ? html`<${Shell} />` : html`<${LogIn} />`;
}

render(html`<${App} />`, document.getElementById("app"));
begin();
