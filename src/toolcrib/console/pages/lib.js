// What every page uses: the library, the API, the live events, the route, and formats.

import { h, render, Fragment } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { batch, computed, effect, signal } from "./vendor/signals.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { Fragment, batch, computed, effect, render, signal, useEffect, useLayoutEffect, useMemo, useRef, useState };

// -- the API ---------------------------------------------------------------------------------------

const ROOT = "/api/v1";
const KEY = "toolcrib-key";

/** Who is logged in: undefined until it is known, null where nobody is. */
export const me = signal(undefined);
/** Whether events arrive: "live", "lost", or "" before the first. */
export const connection = signal("");
export const waiting = signal([]);
export const runningCount = signal(0);

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.details = error.details;
  }
}

/** Whether this browser has logged in before. */
export const hasKey = () => key() !== "";

const key = () => localStorage.getItem(KEY) ?? "";

function address(path, query) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== "") parts.append(name, value);
  }
  const text = parts.toString();
  return ROOT + path + (text ? "?" + text : "");
}

async function send(path, { method = "GET", body, query, signal, headers } = {}) {
  const response = await fetch(address(path, query), {
    method,
    signal,
    credentials: "same-origin",
    headers: { "X-Toolcrib-Key": key(), ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.ok) return response;
  let error = { code: "internal", message: `the gateway answered with status ${response.status}` };
  try {
    const answer = await response.json();
    error = typeof answer.error === "string" ? { ...error, message: answer.error } : answer.error;
  } catch {
    // an answer that is no JSON, such as a proxy's, says no more than its status
  }
  if (response.status === 401 && !headers) me.value = null;
  throw new ApiError(response.status, error);
}

const expected = new Map();

/** Ask for something that a page will get as soon as it is shown. */
export function expect(path, query) {
  const answer = send(path, { query }).then((response) => response.json());
  answer.catch(() => {}); // whoever gets it sees the error
  expected.set(address(path, query), answer);
}

export async function get(path, query, options) {
  const early = expected.get(address(path, query));
  expected.delete(address(path, query));
  return early ?? (await send(path, { query, ...options })).json();
}
export const post = async (path, body = {}, options) => (await send(path, { method: "POST", body, ...options })).json();

/** Yield the events of an answer. */
export async function* events(path, options) {
  const response = await send(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) {
        const [kind, data] = part.split("\n");
        yield { kind: kind.slice(7), data: JSON.parse(data.slice(6)) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export async function download(path, query, name) {
  const response = await send(path, { query });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export async function logIn(credentials) {
  const headers = { "X-Toolcrib-Key": "login", ...(credentials.token ? { Authorization: `Bearer ${credentials.token}` } : {}) };
  const answer = await post("/login", credentials.code ? { code: credentials.code } : {}, { headers });
  localStorage.setItem(KEY, answer.key);
  me.value = await get("/me");
}

export async function logOut() {
  await post("/logout").catch(() => {});
  localStorage.removeItem(KEY);
  me.value = null;
}

// -- live events -----------------------------------------------------------------------------------

const bus = new EventTarget();

/** Call back with each event of a kind; returns what stops that. */
export function listen(kind, callback) {
  const heard = (event) => callback(event.detail);
  bus.addEventListener(kind, heard);
  return () => bus.removeEventListener(kind, heard);
}

export const useEvents = (kind, callback, deps = []) => useEffect(() => listen(kind, callback), deps);

let isFollowing = false;

/** Follow the events for as long as somebody is logged in, and connect again where the connection is lost. */
export async function follow() {
  if (isFollowing) return;
  isFollowing = true;
  let pause = 250;
  while (me.value) {
    try {
      for await (const { kind, data } of events("/events")) {
        pause = 250;
        if (kind === "hello") {
          const isBack = connection.value === "lost";
          connection.value = "live";
          if (isBack) bus.dispatchEvent(new CustomEvent("back"));
          if (me.value?.auditor) get("/approvals").then((found) => (waiting.value = found.items), () => {});
        }
        if (kind === "approvals") waiting.value = data.items;
        if (kind === "running") runningCount.value = data.count;
        bus.dispatchEvent(new CustomEvent(kind, { detail: data }));
      }
    } catch (error) {
      if (error.status === 401) break;
    }
    if (!me.value) break;
    connection.value = "lost";
    await new Promise((go) => setTimeout(go, pause));
    pause = Math.min(pause * 2, 5000);
    await get("/me").then((found) => (me.value = found), () => {});
  }
  isFollowing = false;
}

// -- the route -------------------------------------------------------------------------------------

function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/");
  return {
    page: page || "overview",
    id: rest.map(decodeURIComponent).join("/"),
    query: Object.fromEntries(new URLSearchParams(query ?? "")),
  };
}

export const route = signal(read());
addEventListener("hashchange", () => (route.value = read()));

export function link(page, id = "", query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const text = new URLSearchParams(kept).toString();
  return `#/${page}${id ? "/" + encodeURIComponent(id) : ""}${text ? "?" + text : ""}`;
}

export function go(page, id, query, { replace = false } = {}) {
  const to = link(page, id, query);
  if (replace) {
    history.replaceState(null, "", to);
    route.value = read();
  } else location.hash = to;
}

// -- formats ---------------------------------------------------------------------------------------

/** What steers the direction of text or hides in it, as toolcrib.model.display has it; lines and tabs stay. */
export const HIDDEN =
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\u00ad\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\u{1bca0}-\u{1bca3}\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/gu;

const code = (character) => "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

/** Return text with the numbers of its hidden characters, for attributes. */
export const plain = (text) => String(text ?? "").replace(HIDDEN, (found) => `[${code(found)}]`);

/** Foreign text: only ever text, and what is hidden in it is shown. */
export function Text({ value }) {
  const text = String(value ?? "");
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > end) parts.push(text.slice(end, found.index));
    parts.push(html`<span class="hidden-character" title="a hidden character">${code(found[0])}</span>`);
    end = found.index + found[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

const numbers = new Intl.NumberFormat("en");
export const count = (value) => numbers.format(value ?? 0);
export const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
export const percent = (value) => `${Math.round(value * 100)}%`;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

export function bytes(size) {
  if (size === null || size === undefined) return "–";
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  while (size >= 1000 && unit < 3) {
    size /= 1000;
    unit += 1;
  }
  return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export function time(value) {
  const date = new Date(typeof value === "number" ? value * 1000 : value);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

export const tokensOf = (size) => Math.round((size ?? 0) / 4);
export const pretty = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));

export async function copy(text) {
  await navigator.clipboard.writeText(text);
}

/** Load something, again when a dependency changes or `reload` is called; what was loaded last stays meanwhile. */
export function useLoad(load, deps = []) {
  const [state, setState] = useState({ data: undefined, error: null, busy: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => ({ ...before, busy: true }));
    load(controller.signal).then(
      (data) => controller.signal.aborted || setState({ data, error: null, busy: false }),
      (error) => controller.signal.aborted || setState((before) => ({ ...before, error, busy: false })),
    );
    return () => controller.abort();
  }, [...deps, turn]);
  return { ...state, reload: () => setTurn((last) => last + 1) };
}
