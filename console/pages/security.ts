import { useEffect } from "preact/hooks";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { Act, Field, type Fields, Form } from "../parts/controls.ts";
import { SecondFactors } from "../parts/second-factors.ts";

export function Security(): View {
  const api = useApi();
  const setPassword = ({ current, password }: Fields) =>
    api.call("POST", "/v1/me/password", { password, current_password: current });
  return html`<h2>Second factors</h2>
    <${SecondFactors} />
    <h2>Password</h2>
    <p class="quiet">A new password ends your other sessions.</p>
    <${Form} act="Change the password" done="Changed." onSend=${setPassword}>
      <${Field} label="Current password" name="current" type="password" autocomplete="current-password" maxlength="1024"
        hint="Not needed if you signed in with a passkey." />
      <${Field} label="New password" name="password" type="password" autocomplete="new-password" minlength="12" maxlength="1024" required
        hint="At least 12 characters; several words are best." />
    <//>`;
}

/** The only page of an account that lacks a required second factor. */
export function Enrol({ onDone, onSignOut }: { onDone: () => void; onSignOut: () => Promise<void> }): View {
  useEffect(() => {
    document.title = "Set up a second factor · Stoker";
  }, []);
  return html`<h1>Set up a second factor</h1>
    <${SecondFactors} onKept=${onDone} />
    <p><${Act} label="Sign out" onAct=${onSignOut} /></p>`;
}
