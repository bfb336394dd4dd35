// Sign-in with a password and an optional second factor, or with a passkey only. Used by the sign-in page and Reauthenticate.
import { Button, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { ApiError } from "../api/client.ts";
import { useApi } from "../api/context.ts";
import { canUsePasskeys, signWithPasskey } from "../api/passkey.ts";
import { text } from "../text/sign-in.ts";
import { Act } from "../ui/act.tsx";
import { type Fields, Form } from "../ui/form.tsx";
import { ProviderButtons } from "./provider-buttons.tsx";

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

export function SignInForm({ email: known, onEntered }: SignInFormProps): ReactNode {
  const api = useApi();
  const [second, setSecond] = useState<SecondFactor | undefined>(undefined);
  // The typed address, whose domain may have a provider.
  const [typed, setTyped] = useState(known);

  const finish = async (ticket: string, proof: object) =>
    onEntered(await api.call<SessionAnswer>("POST", "/v1/auth/second-factor", { ticket, ...proof }));
  const byPassword = async ({ email = known ?? "", password }: Fields) => {
    const body = { email, password };
    const answer = await api
      .call<SessionAnswer & { second_factor: SecondFactor | null }>("POST", "/v1/auth/sign-in", body)
      .catch((error: unknown) => {
        const isWrong = error instanceof ApiError && error.code === "wrong_password";
        // Only the password can be wrong here.
        throw isWrong && known !== undefined ? new ApiError(text.wrongPassword, error.status, error.code) : error;
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
    return (
      <Stack gap="sm">
        <Text>{text.secondFactor}</Text>
        {passkey && canUsePasskeys() && (
          <Act
            label={text.usePasskey}
            size="sm"
            onAct={async () => finish(ticket, { passkey: await signWithPasskey(passkey) })}
          />
        )}
        <Form act={text.continue} onSend={({ code }: Fields) => finish(ticket, { code })}>
          <TextInput
            label={methods.includes("totp") ? text.appCode : text.recoveryCode}
            name="code"
            autoComplete="one-time-code"
            autoCapitalize="none"
            spellCheck={false}
            maxLength={64}
            required
            autoFocus
          />
        </Form>
        <Button variant="subtle" onClick={() => setSecond(undefined)}>
          {text.startAgain}
        </Button>
      </Stack>
    );
  }
  return (
    <Stack gap="sm">
      <Form act={text.signIn} onSend={byPassword}>
        {known === undefined ? (
          <TextInput
            label={text.email}
            name="email"
            type="email"
            autoComplete="username webauthn"
            maxLength={320}
            required
            onBlur={({ currentTarget: { value } }) => setTyped(/.@./.test(value) ? value : undefined)}
          />
        ) : (
          <input type="hidden" name="email" value={known} autoComplete="username" />
        )}
        <PasswordInput
          label={text.password}
          name="password"
          autoComplete="current-password"
          maxLength={1024}
          required
          data-autofocus={known !== undefined || undefined}
        />
      </Form>
      {canUsePasskeys() && <Act label={text.usePasskey} size="sm" onAct={byPasskey} />}
      <ProviderButtons email={typed} isFresh={known !== undefined} />
    </Stack>
  );
}
