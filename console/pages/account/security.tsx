import { Group, PasswordInput, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { text } from "../../text/security.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { Identities } from "./identities.tsx";
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

type Session = Responses["GET /v1/me/sessions"]["sessions"][number];
const sessionsPath = "/v1/me/sessions";

function Sessions(): ReactNode {
  const sessions = useGet<Responses["GET /v1/me/sessions"]>(sessionsPath);
  return (
    <Section title={text.sessions.title} about={text.sessions.about}>
      <Loaded query={sessions}>
        {({ sessions: all }) => (
          <DataTable
            name="sessions"
            rows={all}
            columns={sessionColumns}
            keyOf={({ id }) => id}
            empty={text.sessions.empty}
          />
        )}
      </Loaded>
    </Section>
  );
}

const sessionColumns: readonly Column<Session>[] = [
  {
    name: text.sessions.browser,
    value: ({ user_agent: agent }) => agent ?? text.sessions.unknown,
    show: ({ user_agent: agent, current }) => (
      <Group gap="xs">
        <Text size="sm" lineClamp={2} maw={420}>
          {agent ?? text.sessions.unknown}
        </Text>
        {current && <Status of={text.sessions.current} />}
      </Group>
    ),
  },
  { name: text.sessions.from, value: ({ ip }) => ip ?? text.sessions.unknown },
  { name: text.sessions.began, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
  { name: text.sessions.lastUsed, value: (one) => one.last_used_at, show: (one) => <Ago at={one.last_used_at} /> },
  actionsColumn((one) => <EndSession of={one} />),
];

function EndSession({ of: { id, current } }: { of: Session }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  // The browser's own session ends by Sign out.
  if (current) return null;
  return (
    <Act
      label={text.sessions.end}
      command={`stoker auth session delete ${id}`}
      confirm={{ title: text.sessions.endTitle, body: text.sessions.endBody }}
      done={text.sessions.ended}
      onAct={async () => {
        await api.call("DELETE", `${sessionsPath}/${encodeURIComponent(id)}`);
        await refresh(sessionsPath);
      }}
    />
  );
}

export function Security(): ReactNode {
  const api = useApi();
  const setPassword = ({ current, password }: Fields) =>
    api.call("POST", "/v1/me/password", { password, current_password: current });
  return (
    <Page title={text.title} about={text.about}>
      <SecondFactors />
      <Identities />
      <Sessions />
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
