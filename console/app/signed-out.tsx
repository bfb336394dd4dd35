// What a visitor without a session sees: sign-in or sign-up.
import { Anchor, Center, Paper, PasswordInput, Stack, Text, TextInput, Title } from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api/context.ts";
import { text as common } from "../text/common.ts";
import { text } from "../text/sign-in.ts";
import { type Fields, Form } from "../ui/form.tsx";
import { base } from "./base.ts";
import { type SessionAnswer, SignInForm } from "./sign-in-form.tsx";

interface SignedOutProps {
  readonly isSignUpOpen: boolean;
  readonly onEntered: (session: SessionAnswer) => Promise<void>;
  /** Takes the account's first key, which is shown only once. */
  readonly onKey: (key: string) => Promise<void>;
}

const signUpPath = `${base}/sign-up`;
const signInPath = `${base}/sign-in`;

export function SignedOut({ isSignUpOpen, onEntered, onKey }: SignedOutProps): ReactNode {
  const [isSignUp, setSignUp] = useState(() => isSignUpOpen && location.pathname.startsWith(signUpPath));
  const title = isSignUp ? text.createAccount : text.signInTo;
  useEffect(() => {
    document.title = `${title} · ${common.product}`;
  }, [title]);
  const move = (path: string) => {
    history.pushState(null, "", path + location.search);
    setSignUp(path === signUpPath);
  };
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="xl" w="100%" maw={420}>
        <Stack gap="md">
          <Title order={1}>{title}</Title>
          {isSignUp ? <SignUp onKey={onKey} /> : <SignInForm onEntered={onEntered} />}
          {isSignUpOpen && (
            <Text size="sm">
              {isSignUp ? text.haveAccount : text.noAccount}{" "}
              <Anchor
                href={isSignUp ? signInPath : signUpPath}
                onClick={(event) => {
                  event.preventDefault();
                  move(isSignUp ? signInPath : signUpPath);
                }}
              >
                {isSignUp ? text.signIn : text.signUp}
              </Anchor>
            </Text>
          )}
          {!isSignUpOpen && (
            <Text size="sm" c="dimmed">
              {text.operatorCreates}
            </Text>
          )}
          {!isSignUp && (
            <Text size="sm">
              <Anchor href="/login/forgot">{text.forgot}</Anchor>
            </Text>
          )}
        </Stack>
      </Paper>
    </Center>
  );
}

type NewCustomer = Responses["POST /v1/auth/sign-up"];

function SignUp({ onKey }: Pick<SignedOutProps, "onKey">): ReactNode {
  const api = useApi();
  const send = async ({ email, password, name }: Fields) => {
    const made = await api.call<NewCustomer>("POST", "/v1/auth/sign-up", { email, password, display_name: name });
    await onKey(made.api_key);
  };
  return (
    <Form act={text.signUp} onSend={send}>
      <TextInput label={text.email} name="email" type="email" autoComplete="username" maxLength={320} required />
      <TextInput
        label={text.accountName}
        description={text.accountNameHint}
        name="name"
        autoComplete="nickname"
        maxLength={39}
        required
      />
      <PasswordInput
        label={text.password}
        description={text.passwordHint}
        name="password"
        autoComplete="new-password"
        minLength={12}
        maxLength={1024}
        required
      />
    </Form>
  );
}
