// Parts that are loaded when they are first shown.

import { html, useEffect, useErrorBoundary, useState } from "./vendor/htm-preact.js";
import { Failure, Waiting } from "./ui.js";

/** @type {Promise<unknown> | null} */
let styles = null;

/** Loads the style sheet of all parts that the first page does not need. */
function loadStyles() {
  styles ??= new Promise((resolve) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/console/pages.css" });
    link.onload = resolve;
    link.onerror = () => {
      styles = null;
      link.remove();
      resolve(undefined);
    };
    document.head.append(link);
  });
  return styles;
}

/**
 * Shows the component `name` of a module with the other properties. `isStyled` says that it needs the second style sheet.
 * @param {{ load: () => Promise<Record<string, any>>, name: string, isStyled?: boolean, wait?: unknown } & Record<string, unknown>} props
 */
export function Lazy({ load, name, isStyled = true, wait = html`<${Waiting} />`, ...rest }) {
  const [state, setState] = useState(/** @type {{ component: unknown, error: unknown }} */ ({ component: null, error: null }));
  const [broken] = useErrorBoundary();
  useEffect(() => {
    Promise.all([load(), isStyled && loadStyles()]).then(([module]) => setState({ component: module[name], error: null }), (error) => setState({ component: null, error }));
  }, []);
  if (broken || state.error) return html`<${Failure} error=${broken || state.error} onRetry=${() => location.reload()} />`;
  return state.component ? html`<${state.component} ...${rest} />` : wait;
}
