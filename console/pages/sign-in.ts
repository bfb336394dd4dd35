import { html, type View } from "../html.ts";
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
