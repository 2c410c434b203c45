// The parts that pages are made of.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { Icon } from "./icons.js";
import { store, useStore } from "./store.js";

/** @typedef {import("./vendor/htm-preact.js").Child} Child */
/** @typedef {{ id: string, describedBy?: string }} Ids The ids of a control and of what describes it. */
/** @typedef {"ok" | "warn" | "bad" | "info" | "accent" | ""} Tone */

let lastId = 0;

/** Returns an id for a label, the same for the life of a component. */
export function useId() {
  return useState(() => `part-${(lastId += 1)}`)[0];
}

/** A word in a coloured pill. @param {{ tone?: Tone, dot?: boolean, live?: boolean, title?: string, children?: Child }} props */
export const Badge = ({ tone = "", dot = false, live = false, title, children }) => html`
  <span class=${`badge ${tone}`} title=${title}>${dot && html`<i class=${live ? "dot live" : "dot"}></i>`}${children}</span>`;

/**
 * A button. `busy` disables it.
 * @param {{ kind?: string, icon?: string, busy?: boolean, disabled?: boolean, pressed?: boolean, title?: string, label?: string,
 *   type?: string, onClick?: (event: MouseEvent) => void, children?: Child }} props
 */
export const Button = ({ kind = "", icon, busy = false, disabled = false, pressed, title, label, type = "button", onClick, children }) => html`
  <button type=${type} class=${`button ${kind}`} disabled=${disabled || busy} aria-busy=${busy ? "true" : undefined}
    aria-pressed=${pressed === undefined ? undefined : String(pressed)} title=${title} aria-label=${label} onClick=${onClick}>
    ${icon && html`<${Icon} name=${icon} />`}${children}
  </button>`;

/** The title of a page with a line about it and its actions. @param {{ title: Child, about?: Child, children?: Child }} props */
export const PageHead = ({ title, about, children }) => html`
  <header class="page-head">
    <div class="grow"><h1>${title}</h1>${about && html`<p>${about}</p>`}</div>
    ${children && html`<div class="row wraps">${children}</div>`}
  </header>`;

/**
 * A surface with an optional head.
 * @param {{ title?: Child, actions?: Child, flush?: boolean, level?: 2 | 3, label?: string, children?: Child }} props
 */
export const Card = ({ title, actions, flush = false, level = 2, label, children }) => {
  const Heading = `h${level}`;
  return html`
    <section class="card" aria-label=${label ?? (typeof title === "string" ? title : undefined)}>
      ${(title || actions) && html`<div class="head"><${Heading} class="grow">${title}<//>${actions}</div>`}
      <div class=${flush ? "body flush" : "body"}>${children}</div>
    </section>`;
};

/** A remark with an icon. @param {{ tone?: Tone, children?: Child, role?: string }} props */
export const Note = ({ tone = "info", role, children }) => html`
  <div class=${`note ${tone}`} role=${role}>
    <${Icon} name=${tone === "ok" ? "check" : tone === "bad" || tone === "warn" ? "warning" : "info"} /><div class="grow">${children}</div>
  </div>`;

/** What a page shows in place of content. @param {{ icon?: string, title: string, children?: Child }} props */
export const Empty = ({ icon = "info", title, children }) => html`
  <div class="empty"><${Icon} name=${icon} /><strong>${title}</strong>${children && html`<p>${children}</p>`}</div>`;

/** What a page shows until the gateway answers. */
export const Waiting = () => html`<div class="waiting" role="status"><span class="hidden-visually">Loading</span><i></i><i></i><i></i></div>`;

/** The reason why a request failed, with its hint. @param {{ error: unknown, onRetry?: () => void }} props */
export const Failure = ({ error, onRetry }) => html`
  <${Note} tone="bad" role="alert"><span>${message(error)}</span>
    ${hintOf(error) && html`<span class="small">${hintOf(error)}</span>`}
    ${onRetry && html`<span><${Button} kind="small" icon="restart" onClick=${onRetry}>Try again<//></span>`}<//>`;

/** Returns the text of an error. @param {unknown} error */
export const message = (error) => (error instanceof Error ? error.message : String(error));

/** @param {unknown} error */
const hintOf = (error) => (error instanceof Error && "hint" in error && typeof error.hint === "string" ? error.hint : null);

/**
 * A labelled control: `control` gets the id for the label and the ids that describe it.
 * @param {{ label: string, hint?: Child, wrong?: Child, grow?: boolean, control: (ids: Ids) => Child }} props
 */
export function Field({ label, hint, wrong, grow = false, control }) {
  const id = useId();
  const describedBy = [hint && `${id}-hint`, wrong && `${id}-wrong`].filter(Boolean).join(" ") || undefined;
  return html`
    <div class=${grow ? "field grow" : "field"}>
      <label class="label" for=${id}>${label}</label>
      ${control({ id, describedBy })}
      ${hint && html`<span class="hint" id=${`${id}-hint`}>${hint}</span>`}
      ${wrong && html`<span class="wrong" id=${`${id}-wrong`}>${wrong}</span>`}
    </div>`;
}

/**
 * A labelled list of choices.
 * @param {{ label: string, value: string, options: readonly (string | readonly [string, string])[], hint?: Child, grow?: boolean,
 *   onChange: (value: string) => void }} props
 */
export const Select = ({ label, value, options, hint, grow, onChange }) => html`
  <${Field} label=${label} hint=${hint} grow=${grow} control=${(/** @type {Ids} */ ids) => html`
    <select class="input" id=${ids.id} aria-describedby=${ids.describedBy} value=${value}
      onChange=${onValue(onChange)}>
      ${options.map((option) => {
        const [key, text] = typeof option === "string" ? [option, option] : option;
        return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`;
      })}
    </select>`} />`;

/**
 * A labelled line of text.
 * @param {{ label: string, value: string, hint?: Child, wrong?: Child, grow?: boolean, type?: string, list?: readonly string[],
 *   placeholder?: string, mono?: boolean, onInput: (value: string) => void, onEnter?: () => void }} props
 */
export const TextInput = ({ label, value, hint, wrong, grow, type = "text", list, placeholder, mono, onInput, onEnter }) => html`
  <${Field} label=${label} hint=${hint} wrong=${wrong} grow=${grow} control=${(/** @type {Ids} */ ids) => html`
    <input class=${mono ? "input mono" : "input"} id=${ids.id} type=${type} value=${value} placeholder=${placeholder} autocomplete="off"
      spellcheck="false" list=${list ? `${ids.id}-list` : undefined} aria-describedby=${ids.describedBy}
      aria-invalid=${wrong ? "true" : undefined} onInput=${onValue(onInput)}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && onEnter?.()} />
    ${list && html`<datalist id=${`${ids.id}-list`}>${list.map((entry) => html`<option key=${entry} value=${entry} />`)}</datalist>`}`} />`;

/** Returns a listener that passes the value of its control on. @param {(value: string) => void} use */
export const onValue = (use) => (/** @type {Event} */ event) => use(valueOf(event));

/** Returns the value of the control that an event comes from. @param {Event} event */
export const valueOf = (event) => /** @type {HTMLInputElement} */ (event.currentTarget).value;

/** A box to tick. @param {{ label: Child, checked: boolean, disabled?: boolean, onChange: (checked: boolean) => void }} props */
export const Check = ({ label, checked, disabled = false, onChange }) => html`
  <label class="check"><input type="checkbox" checked=${checked} disabled=${disabled}
    onChange=${(/** @type {Event} */ event) => onChange(/** @type {HTMLInputElement} */ (event.currentTarget).checked)} /><span class="wrap">${label}</span></label>`;

/**
 * A choice between a few views, one of which is shown.
 * @param {{ label: string, value: string, options: readonly (readonly [string, string])[], onChange: (value: string) => void }} props
 */
export const Segments = ({ label, value, options, onChange }) => html`
  <div class="segments" role="group" aria-label=${label}>
    ${options.map(([key, text]) => html`<button key=${key} type="button" aria-pressed=${String(key === value)} onClick=${() => onChange(key)}>${text}</button>`)}
  </div>`;

/** A bar of a share of 1. @param {{ share: number, label: string, tone?: Tone }} props */
export const Meter = ({ share, label, tone = "" }) => html`
  <span class=${`meter ${tone}`} role="img" aria-label=${label} style=${{ "--share": `${Math.max(0, Math.min(1, share)) * 100}%` }}><i></i></span>`;

/** Text as it is. @param {{ text: string, label: string }} props */
export const Code = ({ text, label }) => html`<pre class="code" tabindex="0" role="region" aria-label=${label}>${text}</pre>`;

/** A button that copies a text. @param {{ text: string, what: string }} props */
export const Copy = ({ text, what }) => html`
  <${Button} kind="quiet small" icon="copy" label=${`Copy ${what}`} title=${`Copy ${what}`} onClick=${async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast(`Copied ${what}`);
    } catch {
      toast("The browser does not permit copying", "bad");
    }
  }} />`;

// Toasts

/** @typedef {{ id: number, text: string, tone: Tone }} Toast */

const toasts = store(/** @type {Toast[]} */ ([]));

/** Shows a short message for a while. @param {string} text @param {Tone} [tone] */
export function toast(text, tone = "") {
  const id = (lastId += 1);
  toasts.set((before) => [...before.slice(-3), { id, text, tone }]);
  setTimeout(() => dropToast(id), tone === "bad" ? 12_000 : 5_000);
}

/** @param {number} id */
const dropToast = (id) => toasts.set((before) => before.filter((one) => one.id !== id));

/** The messages that are shown now, above an open dialog too. */
export function Toasts() {
  const shown = useStore(toasts);
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    element.current?.hidePopover();
    if (shown.length > 0) element.current?.showPopover();
  }, [shown]);
  return html`
    <p class="hidden-visually" role="status" aria-live="polite">${shown.at(-1)?.text}</p>
    <div class="toasts" ref=${element} popover="manual">
      ${shown.map(({ id, text, tone }) => html`
        <div class=${`toast ${tone}`} key=${id}><span class="grow">${text}</span>
          <${Button} kind="quiet small" icon="close" label="Dismiss" onClick=${() => dropToast(id)} /></div>`)}
    </div>`;
}

/**
 * Runs an action of a button and reports its result as a toast. Returns whether it succeeded.
 * @param {() => Promise<unknown>} action
 * @param {string} done
 */
export async function attempt(action, done) {
  try {
    await action();
    toast(done);
    return true;
  } catch (error) {
    toast(message(error), "bad");
    return false;
  }
}

// Requests

/**
 * Loads something when its inputs change and aborts the request that they replace. The value before stays while the next is
 * loaded.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {readonly unknown[]} inputs
 * @param {number} [delay] Milliseconds to wait for further changes.
 * @returns {{ value: T | undefined, error: unknown, isLoading: boolean, reload: () => void }}
 */
export function useLoaded(load, inputs, delay = 0) {
  const [state, setState] = useState(/** @type {{ value: T | undefined, error: unknown, isLoading: boolean }} */ ({ value: undefined, error: null, isLoading: true }));
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((before) => (before.isLoading ? before : { ...before, isLoading: true }));
    const timer = setTimeout(async () => {
      try {
        const value = await load(abort.signal);
        if (!abort.signal.aborted) setState({ value, error: null, isLoading: false });
      } catch (error) {
        if (!abort.signal.aborted) setState((before) => ({ value: before.value, error, isLoading: false }));
      }
    }, delay);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [...inputs, turn]);
  return { ...state, reload: () => setTurn((before) => before + 1) };
}
