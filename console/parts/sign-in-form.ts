// Sign-in with a password and an optional second factor, or with a passkey only. Used by the sign-in page and Reauthenticate.
import { useState } from "preact/hooks";
import { ApiError, useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { canUsePasskeys, signWithPasskey } from "../passkey.ts";
import { Act, Field, type Fields, Form } from "./controls.ts";

export interface SessionAnswer {
  readonly uid: string;
  readonly must_enrol: boolean;
}

interface SecondFactor {
  readonly ticket: string;
  readonly methods: readonly string[];
  readonly passkey: Record<string, unknown> | null;
}

interface SignInFormProps {
  /** Known address when the user signs in again. */
  readonly email?: string | undefined;
  readonly onEntered: (session: SessionAnswer) => Promise<void>;
}

export function SignInForm({ email: known, onEntered }: SignInFormProps): View {
  const api = useApi();
  const [second, setSecond] = useState<SecondFactor | undefined>(undefined);

  const finish = async (ticket: string, proof: object) =>
    onEntered(await api.call<SessionAnswer>("POST", "/v1/auth/second-factor", { ticket, ...proof }));
  const byPassword = async ({ email = known ?? "", password }: Fields) => {
    const body = { email, password };
    const answer = await api
      .call<SessionAnswer & { second_factor: SecondFactor | null }>("POST", "/v1/auth/sign-in", body)
      .catch((error: unknown) => {
        const isWrong = error instanceof ApiError && error.code === "wrong_password";
        // Only the password can be wrong here.
        throw isWrong && known !== undefined ? new ApiError("Wrong password.", error.status, error.code) : error;
      });
    if (answer.second_factor) setSecond(answer.second_factor);
    else await onEntered(answer);
  };
  const byPasskey = async () => {
    const started = await api.call<{ ticket: string; passkey: Record<string, unknown> }>("POST", "/v1/auth/passkey");
    await finish(started.ticket, { passkey: await signWithPasskey(started.passkey) });
  };

  if (second) {
    const { ticket, methods, passkey } = second;
    const hasApp = methods.includes("totp");
    return html`<p>Your account has a second factor.</p>
      ${
        passkey &&
        canUsePasskeys() &&
        html`<p><${Act} label="Use a passkey" onAct=${async () => finish(ticket, { passkey: await signWithPasskey(passkey) })} /></p>`
      }
      <${Form} act="Continue" onSend=${({ code }: Fields) => finish(ticket, { code })}>
        <${Field} label=${hasApp ? "Code of your authenticator app, or a recovery code" : "Recovery code"} name="code"
          autocomplete="one-time-code" autocapitalize="none" spellcheck=${false} maxlength="64" required autofocus />
      <//>
      <p><button type="button" class="link" onClick=${() => setSecond(undefined)}>Start again</button></p>`;
  }
  return html`<${Form} act="Sign in" onSend=${byPassword}>
      ${
        known === undefined
          ? html`<${Field} label="E-mail address" name="email" type="email" autocomplete="username webauthn" maxlength="320" required />`
          : html`<input type="hidden" name="email" value=${known} autocomplete="username" />`
      }
      <${Field} label="Password" name="password" type="password" autocomplete="current-password" maxlength="1024" required
        autofocus=${known !== undefined} />
    <//>
    ${canUsePasskeys() && html`<p><${Act} label="Use a passkey" onAct=${byPasskey} /></p>`}`;
}
