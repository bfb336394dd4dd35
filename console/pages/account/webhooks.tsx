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
import { Dialog } from "../../ui/dialog.tsx";
import { count, duration } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
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
    {
      name: text.url,
      value: (one) => one.url,
      show: ({ url }) => (
        <Text span size="sm" truncate maw={260} display="block" title={url}>
          {url}
        </Text>
      ),
    },
    { name: text.status, value: (one) => one.state, show: (one) => <Status of={one.state} /> },
    { name: text.response, value: responseText },
    {
      name: text.attempts,
      value: (one) => one.attempts,
      show: (one) => (
        <Dialog label={count(one.attempts)} title={text.attempts} width="xl" variant="subtle" isReading>
          {() => <Attempts id={one.id} />}
        </Dialog>
      ),
    },
    {
      name: text.next,
      value: (one) => one.next_attempt_at,
      show: (one) => <Next at={one.next_attempt_at} />,
    },
    { name: text.request, value: causeOf, show: (one) => <Cause of={one} /> },
    { name: text.id, value: ({ id }) => id, isHidden: true },
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

type History = Responses["GET /v1/webhooks/deliveries/{webhook_id}"];

const attemptColumns: readonly Column<History["history"][number]>[] = [
  { name: text.history.number, value: (one) => one.number },
  { name: text.history.at, value: (one) => one.at, show: (one) => <Ago at={one.at} /> },
  { name: text.history.took, value: (one) => one.duration_ms, show: (one) => duration(one.duration_ms) },
  { name: text.history.outcome, value: (one) => `${one.status ?? ""} ${one.outcome}`.trim() },
  {
    name: text.history.answer,
    value: (one) => one.answer,
    show: ({ answer }) => <code>{answer}</code>,
  },
];

function Attempts({ id }: { readonly id: string }): ReactNode {
  const found = useGet<History>(`${deliveriesPath}/${encodeURIComponent(id)}`);
  return (
    <Loaded query={found}>
      {({ history, url, error_code: code, error_message: message }) => (
        <Stack gap="sm">
          <Code value={url} label={text.url} />
          {code !== null && <Text size="sm">{text.history.failed(code, message ?? "")}</Text>}
          <DataTable
            name="attempts"
            rows={history}
            columns={attemptColumns}
            keyOf={(one) => `${one.number} ${one.at}`}
            empty={text.history.empty}
          />
          <Command value={`stoker webhook get ${id}`} />
        </Stack>
      )}
    </Loaded>
  );
}

/** An attempt whose time has come runs within seconds. */
function Next({ at }: { readonly at: number | null }): ReactNode {
  if (at === null) return "–";
  return at * 1000 <= Date.now() ? text.due : <Ago at={at} />;
}

function Cause({ of: { request_id: request, event } }: { readonly of: Delivery }): ReactNode {
  if (event !== null) return <code>{event}</code>;
  return (
    <Link to={`/request-log/${encodeURIComponent(request)}`} ff="monospace" fz="xs">
      {request}
    </Link>
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
