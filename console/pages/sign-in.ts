import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { Field, Form } from "../parts/form.ts";
import { isSignUpOpen } from "../visitor.ts";

export function SignIn({ onEntered }: { onEntered: () => Promise<void> }): View {
  const api = useApi();
  const send = async ({ email, password }: Readonly<Record<string, string>>) => {
    await api.call("POST", "/v1/auth/sign-in", { email, password });
    await onEntered();
  };
  return html`<h1>Sign in to Stoker</h1>
    <${Form} act="Sign in" onSend=${send}>
      <${Field} label="E-mail address" name="email" type="email" autocomplete="username" maxlength="320" required />
      <${Field} label="Password" name="password" type="password" autocomplete="current-password" maxlength="1024" required />
    <//>
    ${
      isSignUpOpen()
        ? html`<p>No account yet? <a href="/console/sign-up">Sign up</a>.</p>`
        : html`<p class="quiet">Accounts are made by the operator of this server.</p>`
    }
    <p class="quiet">No password yet, or forgotten? Whoever has an API key of the account
      sets one with <code>stoker auth set-password</code>.</p>`;
}
