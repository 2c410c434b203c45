// The page of a tab without a credential.

import { html, useState } from "./vendor/htm-preact.js";
import { access, signInWithToken } from "./control.js";
import { Mark } from "./icons.js";
import { useStore } from "./store.js";
import { Button, Code, Failure, Field, onValue } from "./ui.js";

/** Asks for a token, or says how to get a new URL. @param {{ problem: unknown }} props */
export function SignIn({ problem }) {
  const kind = useStore(access)?.access;
  return html`
    <main class="sign-in" id="main" tabindex="-1">
      <div class="card"><div class="body stack">
        <div class="row"><${Mark} /><h1>Sign in to Pegboard</h1></div>
        ${problem && html`<${Failure} error=${problem} />`}
        ${kind === "token" ? html`<${TokenForm} />` : html`<${FreshUrl} />`}
      </div></div>
    </main>`;
}

const FreshUrl = () => html`
  <p>The console opens with a URL that works once. Run this command on the machine of the gateway and open the URL that it prints:</p>
  <${Code} text="pegboard console" label="Command" />
  <p class="muted small">A URL also appears in the output of <code>pegboard serve</code>. This tab stays signed in until it is closed or
    the gateway restarts.</p>`;

function TokenForm() {
  const [token, setToken] = useState("");
  const [state, setState] = useState(/** @type {{ isBusy: boolean, error: unknown }} */ ({ isBusy: false, error: null }));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (token.trim() === "") return;
    setState({ isBusy: true, error: null });
    try {
      await signInWithToken(token);
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return html`
    <p>This gateway requires a token. It decides which servers and tools you see here.</p>
    <form class="stack" onSubmit=${submit}>
      <${Field} label="Token" hint="It is kept in this tab only, until the tab is closed." control=${(/** @type {import("./ui.js").Ids} */ ids) => html`
        <input class="input mono" id=${ids.id} aria-describedby=${ids.describedBy} type="password" autocomplete="off" required value=${token}
          onInput=${onValue(setToken)} />`} />
      ${state.error && html`<${Failure} error=${state.error} />`}
      <div><${Button} kind="primary" type="submit" busy=${state.isBusy}>Sign in<//></div>
    </form>`;
}
