// Requests of customers that wait for an operator, and the decided ones.
import { Badge, Blockquote, Card, Group, NumberInput, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useGetAll, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import {
  type Approval,
  gpusText,
  inOrderOfWork,
  ofApplication,
  ofGpu,
  ofRate,
  ofTopup,
  ratesText,
} from "../../domain/approvals.ts";
import { text as common } from "../../text/operator.ts";
import { text } from "../../text/operator-approvals.ts";
import { Choice } from "../../ui/choice.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { NoteAct } from "../../ui/note-act.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Empty, Page } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { pathOfAccount } from "./account-path.ts";
import { AccountLink } from "./account-status.tsx";

type Lists = [
  Responses["GET /v1/admin/gpu-pool-requests"],
  Responses["GET /v1/admin/rate-limit-requests"],
  Responses["GET /v1/admin/topup-requests"],
  Responses["GET /v1/admin/program-applications"],
];

const paths = {
  gpu: "/v1/admin/gpu-pool-requests",
  rate: "/v1/admin/rate-limit-requests",
  topup: "/v1/admin/topup-requests",
  program: "/v1/admin/program-applications",
} as const;

export function Approvals(): ReactNode {
  const [state, setState] = useFilter("state");
  const [kind, setKind] = useFilter("kind");
  const lists = useGetAll<Lists>([paths.gpu, paths.rate, paths.topup, `${paths.program}?limit=100`], {
    everyMs: 15_000,
  });
  const isDecided = state === "decided";
  return (
    <Page title={text.title} about={text.about}>
      <Group gap="sm">
        <Choice label={text.state} options={text.states} value={state} onChange={setState} />
        <Choice label={text.kind} options={{ "": text.allKinds, ...text.kinds }} value={kind} onChange={setKind} />
      </Group>
      <Loaded query={lists}>
        {([gpus, rates, topups, programs]) => {
          const all = inOrderOfWork([
            ...gpus.requests.map(ofGpu),
            ...rates.requests.map(ofRate),
            ...topups.requests.map(ofTopup),
            ...programs.applications.map(ofApplication),
          ]);
          const shown = all.filter((one) => one.isOpen !== isDecided && (kind === "" || one.kind === kind));
          if (isDecided)
            return (
              <DataTable
                name="requests"
                rows={shown}
                columns={decidedColumns}
                keyOf={({ id }) => id}
                empty={text.noneDecided}
              />
            );
          if (shown.length === 0) return <Empty>{text.none}</Empty>;
          return (
            <Stack gap="md" component="ul" className="cards">
              {shown.map((one) => (
                <OpenRequest key={one.id} one={one} />
              ))}
            </Stack>
          );
        }}
      </Loaded>
    </Page>
  );
}

function OpenRequest({ one }: { one: Approval }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { kind, what, reason, path, grant, revision } = one;
  const decide = async (verb: string, note: string, more: object = {}) => {
    await api.call("POST", `${path}/${verb}`, { note, ...(revision === undefined ? {} : { revision }), ...more });
    await refresh(paths[kind], "/v1/admin/accounts");
  };
  return (
    <Card withBorder padding="md" component="li">
      <Group justify="space-between" align="flex-start" gap="md">
        <Stack gap={6} flex="1 1 320px">
          <Group gap="xs">
            <Badge variant="light" tt="none" color="gray" className="status">
              {text.kinds[kind]}
            </Badge>
            <Text fw={600}>{what}</Text>
          </Group>
          <Text size="sm" c="dimmed" component="div">
            <AccountLink uid={one.uid} name={one.name || one.uid} /> {one.email} · {text.asked}{" "}
            <Ago at={one.createdAt} />
          </Text>
          <CurrentLimits one={one} />
          {reason && (
            <Blockquote p="xs" color="gray" mt={4}>
              <Text size="sm">{reason}</Text>
            </Blockquote>
          )}
        </Stack>
        <Group gap="xs">
          <NoteAct
            label={text[grant]}
            title={grant === "fulfil" ? text.fulfilTitle(what) : text.approveTitle(what)}
            {...(grant === "fulfil" ? { body: text.fulfilBody } : {})}
            variant="filled"
            noteLabel={common.customerNote}
            noteHint={common.customerNoteHint}
            command={commandOf(one, grant === "fulfil" ? "fulfil" : "approve")}
            done={grant === "fulfil" ? text.fulfilled : text.approved}
            fields={kind === "program" && <NumberInput label={text.credit} name="credit" min={0} decimalScale={2} />}
            onAct={(note, { credit }) =>
              decide(grant, note, kind === "program" && credit ? { credit_usd: Number(credit) } : {})
            }
          />
          <NoteAct
            label={text.deny}
            title={text.denyTitle(what)}
            color="red"
            variant="light"
            noteLabel={common.customerNote}
            noteHint={common.customerNoteHint}
            command={commandOf(one, "reject")}
            done={text.denied}
            onAct={(note) => decide("reject", note)}
          />
        </Group>
      </Group>
    </Card>
  );
}

function commandOf({ kind, id }: Approval, verb: "approve" | "fulfil" | "reject"): string {
  const group = { gpu: "limits", rate: "limits", topup: "topup", program: "application" }[kind];
  return `stoker admin ${group} ${verb} ${id} --note TEXT`;
}

/** Current limits of what the account asks for. */
function CurrentLimits({ one: { kind, uid, gpuTypes } }: { one: Approval }): ReactNode {
  const isLimit = kind === "gpu" || kind === "rate";
  const { data } = useGet<Responses["GET /v1/admin/accounts/{uid}/limits"]>(`${pathOfAccount(uid)}/limits`, {
    enabled: isLimit,
  });
  if (!data) return null;
  const now = Object.fromEntries(gpuTypes.map((type) => [type, data.gpu_max[type] ?? 0]));
  return (
    <Text size="sm">
      {text.now}: {kind === "gpu" ? gpusText(now) : ratesText(data.rate_limit, data.tpm_rate_limit)}
    </Text>
  );
}

const decidedColumns: readonly Column<Approval>[] = [
  { name: text.kind, value: ({ kind }) => text.kinds[kind] },
  { name: text.what, value: ({ what }) => what },
  {
    name: text.account,
    value: ({ email, uid }) => email || uid,
    show: ({ uid, name, email }) => <AccountLink uid={uid} name={name || email || uid} />,
  },
  { name: text.reason, value: ({ reason }) => reason },
  { name: text.status, value: ({ status }) => status, show: ({ status }) => <Status of={status} /> },
  { name: text.answer, value: ({ answer }) => answer },
  {
    name: text.decided,
    value: ({ decidedAt }) => (decidedAt === null ? "" : new Date(decidedAt * 1000).toISOString()),
    show: ({ decidedAt }) => (decidedAt === null ? "–" : <Ago at={decidedAt} />),
  },
];
