// Deliveries of the last days, the signing secret, and code that verifies signatures.
import { Group, Stack, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { verifySnippets } from "../../domain/verify-snippets.ts";
import { text } from "../../text/webhooks.ts";
import { Act } from "../../ui/act.tsx";
import { Choice } from "../../ui/choice.tsx";
import { Code, CodeTabs, Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

type Deliveries = Responses["GET /v1/webhooks/deliveries"];
type Delivery = Deliveries["deliveries"][number];

const deliveriesPath = "/v1/webhooks/deliveries";

export function Webhooks(): ReactNode {
  return (
    <Page title={text.title} about={text.about}>
      <DeliveryLog />
      <Secret />
      <Section title={text.test} about={text.testAbout}>
        <Command value="stoker webhook test https://example.com/hook" />
      </Section>
      <Section title={text.verify} about={text.verifyAbout}>
        <CodeTabs examples={verifySnippets} />
      </Section>
    </Page>
  );
}

function DeliveryLog(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [state, setState] = useFilter("state");
  const log = useGet<Deliveries>(`${deliveriesPath}?limit=100`, { everyMs: 10_000 });
  const replay = async ({ id }: Delivery) => {
    await api.call("POST", `${deliveriesPath}/${encodeURIComponent(id)}/replay`);
    await refresh(deliveriesPath);
  };
  const columns: readonly Column<Delivery>[] = [
    { name: text.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
    { name: text.url, value: (one) => one.url },
    { name: text.status, value: (one) => one.state, show: (one) => <Status of={one.state} /> },
    { name: text.response, value: responseText },
    { name: text.attempts, value: (one) => one.attempts },
    {
      name: text.next,
      value: (one) => one.next_attempt_at,
      show: (one) => (one.next_attempt_at === null ? "–" : <Ago at={one.next_attempt_at} />),
    },
    { name: text.request, value: causeOf, show: (one) => <code>{causeOf(one)}</code> },
    { name: text.id, value: ({ id }) => id, show: ({ id }) => <code>{id}</code>, isMinor: true },
    actionsColumn(
      (one) =>
        one.state !== "pending" && (
          <Act
            label={text.replay}
            command={`stoker webhook replay ${one.id}`}
            done={text.replayed}
            onAct={() => replay(one)}
          />
        ),
    ),
  ];
  return (
    <Section title={text.deliveries}>
      <Loaded query={log}>
        {({ deliveries }) => (
          <DataTable
            name="deliveries"
            rows={deliveries.filter((one) => state === "" || one.state === state)}
            columns={columns}
            keyOf={({ id }) => id}
            filters={<Choice label={text.state} options={text.states} value={state} onChange={setState} />}
            empty={text.deliveriesEmpty}
          />
        )}
      </Loaded>
    </Section>
  );
}

/** Request whose result it is, or the event. */
const causeOf = ({ request_id: request, event }: Delivery): string => event ?? request;

function responseText({ last_status: status, last_outcome: outcome }: Delivery): string {
  if (status === null) return outcome ?? "–";
  return status >= 300 && status < 400 ? text.noRedirect(status) : `${status} ${outcome ?? ""}`;
}

function Secret(): ReactNode {
  const api = useApi();
  const [secret, setSecret] = useState<Responses["GET /v1/webhooks/secret"] | undefined>(undefined);
  return (
    <Section title={text.secret} about={text.secretAbout}>
      <Stack gap="sm">
        <Group gap="sm">
          <Act
            label={text.show}
            needs="manageKeys"
            onAct={async () => setSecret(await api.call("GET", "/v1/webhooks/secret"))}
          />
          <Act
            label={text.rotate}
            needs="manageKeys"
            command="stoker webhook secret rotate"
            confirm={{ title: text.rotate, body: text.rotateBody }}
            done={text.rotated}
            onAct={async () => setSecret(await api.call("POST", "/v1/webhooks/secret/rotate"))}
          />
        </Group>
        {secret && <Code value={secret.secret} label={text.secret} />}
        {secret?.previous_secret_expires_at && (
          <Text size="sm" c="dimmed">
            {text.previous} <Ago at={secret.previous_secret_expires_at} />.
          </Text>
        )}
      </Stack>
    </Section>
  );
}
