import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { Field, type Fields, Form } from "../parts/controls.ts";
import { type SessionAnswer, SignInForm } from "../parts/sign-in-form.ts";
import { isSignUpOpen } from "../visitor.ts";

export function SignIn({ onEntered }: { onEntered: (session: SessionAnswer) => Promise<void> }): View {
  return html`<h1>Sign in to Stoker</h1>
    <${SignInForm} onEntered=${onEntered} />
    ${
      isSignUpOpen()
        ? html`<p>No account yet? <a href="/console/sign-up">Sign up</a>.</p>`
        : html`<p class="quiet">The operator of this server creates accounts.</p>`
    }
    <p class="quiet">No password, or forgot it? Set one with <code>stoker auth set-password</code> and an API key of the
      account. This works only for an account without a second factor.</p>`;
}

type NewCustomer = Responses["POST /v1/auth/sign-up"];

/** `onKey` takes the account's first key, which is shown only once. */
export function SignUp({ onKey }: { onKey: (key: string) => Promise<void> }): View {
  const api = useApi();
  const send = async ({ email, password, name }: Fields) => {
    const made = await api.call<NewCustomer>("POST", "/v1/auth/sign-up", { email, password, display_name: name });
    await onKey(made.api_key);
  };
  return html`<h1>Create an account</h1>
    <${Form} act="Sign up" onSend=${send}>
      <${Field} label="E-mail address" name="email" type="email" autocomplete="username" maxlength="320" required />
      <${Field} label="Name of the account" name="name" autocomplete="nickname" maxlength="39" required
        hint="Names of your own models begin with it: letters, digits and single dashes." />
      <${Field} label="Password" name="password" type="password" autocomplete="new-password" minlength="12" maxlength="1024"
        required />
    <//>
    <p>Already have an account? <a href="/console/sign-in">Sign in</a>.</p>`;
}
