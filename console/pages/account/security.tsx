import { PasswordInput, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import { useApi } from "../../api/context.ts";
import { text } from "../../text/security.ts";
import { type Fields, Form } from "../../ui/form.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { SecondFactors } from "./second-factors.tsx";

export function Security(): ReactNode {
  const api = useApi();
  const setPassword = ({ current, password }: Fields) =>
    api.call("POST", "/v1/me/password", { password, current_password: current });
  return (
    <Page title={text.title} about={text.about}>
      <SecondFactors />
      <Section title={text.password} about={text.passwordAbout}>
        <Form act={text.change} done={text.changed} isReset onSend={setPassword}>
          <Stack gap="sm" maw={360}>
            <PasswordInput
              label={text.current}
              description={text.currentHint}
              name="current"
              autoComplete="current-password"
              maxLength={1024}
            />
            <PasswordInput
              label={text.newPassword}
              description={text.newPasswordHint}
              name="password"
              autoComplete="new-password"
              minLength={12}
              maxLength={1024}
              required
            />
          </Stack>
        </Form>
      </Section>
    </Page>
  );
}
