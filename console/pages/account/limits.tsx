import { Alert, Group, NativeSelect, NumberInput, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { IconHourglass, IconX } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useGetAll, useRefresh } from "../../api/hooks.ts";
import { gpusText, ratesText } from "../../domain/approvals.ts";
import { text } from "../../text/limits.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { count } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

type Rate = Responses["GET /v1/me/rate_limit"];
type Pool = Responses["GET /v1/me/gpu_pool"];
type Types = Responses["GET /v1/gpu_pool/gpu_types"];

type OwnRequests = Responses["GET /v1/me/limit_requests"];
type OwnRequest = OwnRequests["requests"][number];

const poolPath = "/v1/me/gpu_pool";
const requestsPath = "/v1/me/limit_requests";

export function Limits(): ReactNode {
  const limits = useGetAll<[Rate, Pool, Types]>(["/v1/me/rate_limit", poolPath, "/v1/gpu_pool/gpu_types"]);
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={limits}>
        {([rate, pool, { gpu_types: types }]) => (
          <Stack gap="lg">
            <Rates rate={rate} />
            <Gpus pool={pool} types={types} />
            <Answers />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

const reasonField = (
  <TextInput label={text.reason} description={text.reasonHint} name="reason" maxLength={1000} required />
);

function Rates({ rate }: { rate: Rate }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const request = async ({ requests, tokens = "", reason }: Fields) => {
    await api.call("POST", "/v1/me/rate_limit/request", {
      rate_limit: Number(requests),
      tpm_rate_limit: tokens === "" ? null : Number(tokens),
      reason,
    });
    await refresh(requestsPath);
  };
  return (
    <Section title={text.rates}>
      <Stack gap="md">
        <Facts
          of={[
            { label: text.concurrent, value: count(rate.rate_limit) },
            { label: text.tokens, value: count(rate.tpm_rate_limit) },
          ]}
        />
        <Form act={text.askRates} done={text.requested} isReset onSend={request}>
          <SimpleGrid cols={{ base: 1, sm: 3 }}>
            <NumberInput label={text.concurrentField} name="requests" min={1} max={1_000_000} required />
            <NumberInput label={text.tokensField} name="tokens" min={1} placeholder={text.unchanged} />
            {reasonField}
          </SimpleGrid>
        </Form>
      </Stack>
    </Section>
  );
}

function Gpus({ pool, types }: { pool: Pool; types: readonly string[] }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { pending_request: pending, last_rejection: rejection } = pool;
  const request = async ({ gpu = "", number, reason }: Fields) => {
    await api.call("POST", `${poolPath}/request`, { reason, requested_max: { [gpu]: Number(number) } });
    await refresh(poolPath, requestsPath);
  };
  const withdraw = async (id: string) => {
    await api.call("DELETE", `${poolPath}/request/${encodeURIComponent(id)}`);
    await refresh(poolPath, requestsPath);
  };
  const allowed = types.map((type) => ({ type, count: pool.max_limits[type] ?? 0 }));
  return (
    <Section title={text.gpus} about={text.gpusAbout}>
      <Stack gap="md">
        {pending && (
          <Alert color="yellow" variant="light" icon={<IconHourglass />} role="status">
            <Group gap="sm">
              <Text size="sm">
                {text.pending(gpusText(pending.requested_max))} <Ago at={pending.created_at} />: {pending.reason}
              </Text>
              <Act
                label={text.withdraw}
                command={`stoker gpu-pool withdraw ${pending.id}`}
                onAct={() => withdraw(pending.id)}
              />
            </Group>
          </Alert>
        )}
        {rejection && (
          <Alert color="red" variant="light" icon={<IconX />} role="status">
            {text.rejected(gpusText(rejection.requested_max), rejection.resolution_reason ?? text.noNote)}
          </Alert>
        )}
        <DataTable
          name="GPU limits"
          id="gpu-"
          rows={allowed}
          columns={[
            { name: text.gpuType, value: (one) => one.type },
            { name: text.allowed, value: (one) => one.count, show: (one) => count(one.count) },
          ]}
          keyOf={({ type }) => type}
          empty={text.noTypes}
        />
        {types.length > 0 && (
          <Form act={text.askGpus} done={text.requested} isReset onSend={request}>
            <SimpleGrid cols={{ base: 1, sm: 3 }}>
              <NativeSelect label={text.gpuType} name="gpu" data={[...types]} />
              <NumberInput label={text.count} name="number" min={0} max={1_000_000} required />
              {reasonField}
            </SimpleGrid>
          </Form>
        )}
      </Stack>
    </Section>
  );
}

/** Requests with the operator's answers; an open one for rate limits may be withdrawn here. */
function Answers(): ReactNode {
  const requests = useGet<OwnRequests>(requestsPath);
  return (
    <Section title={text.answers} about={text.answersAbout}>
      <Loaded query={requests}>
        {({ requests: rows }) => (
          <DataTable
            name="requests"
            id="request-"
            rows={rows}
            columns={answerColumns}
            keyOf={({ id }) => id}
            empty={text.noRequests}
          />
        )}
      </Loaded>
    </Section>
  );
}

const whatOf = ({ kind, rate_limit: requests, tpm_rate_limit: tokens, gpu_max: max, gpu_min: min }: OwnRequest) =>
  kind === "gpu" ? gpusText(max ?? {}, min ?? {}) : ratesText(requests ?? 0, tokens);

const answerColumns: readonly Column<OwnRequest>[] = [
  { name: text.what, value: whatOf },
  { name: text.reason, value: ({ reason }) => reason },
  { name: text.status, value: ({ status }) => status, show: ({ status }) => <Status of={status} /> },
  { name: text.answer, value: ({ resolution_reason: answer }) => answer },
  {
    name: text.asked,
    value: ({ created_at: at }) => new Date(at * 1000).toISOString(),
    show: ({ created_at: at }) => <Ago at={at} />,
  },
  {
    name: text.decided,
    value: ({ resolved_at: at }) => (at === null ? "" : new Date(at * 1000).toISOString()),
    show: ({ resolved_at: at }) => (at === null ? "–" : <Ago at={at} />),
  },
  actionsColumn<OwnRequest>(
    ({ id, kind, status }) => kind === "rate" && status === "open" && <WithdrawRates id={id} />,
  ),
];

function WithdrawRates({ id }: { id: string }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Act
      label={text.withdraw}
      command={`stoker rate-limit withdraw ${id}`}
      onAct={async () => {
        await api.call("DELETE", `/v1/me/rate_limit/request/${encodeURIComponent(id)}`);
        await refresh(requestsPath);
      }}
    />
  );
}
