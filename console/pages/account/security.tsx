import { Group, PasswordInput, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet } from "../../api/hooks.ts";
import { text } from "../../text/security.ts";
import { Act } from "../../ui/act.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { SecondFactors } from "./second-factors.tsx";

/** The account's address, and a mail that verifies it. */
function EmailAddress(): ReactNode {
  const api = useApi();
  const me = useGet<Responses["GET /v1/me"]>("/v1/me");
  return (
    <Section title={text.email} about={text.emailAbout}>
      <Loaded query={me}>
        {({ email, email_verified: isVerified }) => (
          <Group gap="sm">
            <Text>{email}</Text>
            <Status of={isVerified ? text.verified : text.notVerified} />
            {!isVerified && (
              <Act
                label={text.verify}
                done={text.mailSent}
                command="stoker auth verify-email"
                onAct={() => api.call("POST", "/v1/me/verify-email")}
              />
            )}
          </Group>
        )}
      </Loaded>
    </Section>
  );
}

export function Security(): ReactNode {
  const api = useApi();
  const setPassword = ({ current, password }: Fields) =>
    api.call("POST", "/v1/me/password", { password, current_password: current });
  return (
    <Page title={text.title} about={text.about}>
      <SecondFactors />
      <EmailAddress />
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
