import { useEffect } from "preact/hooks";
import { html, type View } from "../html.ts";
import { Act } from "../parts/controls.ts";
import { SecondFactors } from "../parts/second-factors.ts";

/** The only page of an account that lacks a required second factor. */
export function Enrol({ onDone, onSignOut }: { onDone: () => void; onSignOut: () => Promise<void> }): View {
  useEffect(() => {
    document.title = "Set up a second factor · Stoker";
  }, []);
  return html`<h1>Set up a second factor</h1>
    <${SecondFactors} onKept=${onDone} />
    <p><${Act} label="Sign out" onAct=${onSignOut} /></p>`;
}
