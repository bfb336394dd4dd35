// What a drain would move, where to, and what it cannot move, before it begins.
import { Alert, Button, Checkbox, Group, NumberInput, Stack, Table, Text, TextInput, Title } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { IconAlertTriangle, IconRefresh } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import {
  countsOf,
  type DrainedInstance,
  type DrainForm,
  type DrainPreview,
  drainBody,
  drainCommand,
  type Outcome,
  outcomes,
} from "../../domain/drain.ts";
import { pathOfAccount, pathOfDeployment, pathOfNode } from "../../domain/fleet.ts";
import { text as common } from "../../text/common.ts";
import { text } from "../../text/fleet-host.ts";
import { Command } from "../../ui/code.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Link } from "../../ui/link.tsx";
import { ErrorNotice, Loaded } from "../../ui/notice.tsx";
import type { NodeDetail } from "./host.tsx";

const words = text.drain;

export function DrainDialog({ node }: { node: NodeDetail }): ReactNode {
  const isDraining = node.operation?.kind === "drain";
  return (
    <Dialog label={isDraining ? text.acts.changeDrain : text.acts.drain} title={words.title(node.name)} width="56rem">
      {(close) => <DrainPlan node={node} close={close} />}
    </Dialog>
  );
}

function DrainPlan({ node, close }: { node: NodeDetail; close: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const path = `/v1/admin/nodes/${encodeURIComponent(node.node_id)}`;
  const preview = useGet<DrainPreview>(`${path}/drain-preview`);
  const [form, setForm] = useState<DrainForm>({ minutes: "10", isForced: false, note: "" });
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const body = drainBody(form);
  const drain = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await api.call("POST", `${path}/drain`, body);
      await refresh("/v1/admin/nodes", "/v1/admin/events");
      notifications.show({ message: words.begun, color: "green" });
      close();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack gap="md">
      <Group justify="space-between" wrap="nowrap" align="flex-start">
        <Text size="sm" c="dimmed">
          {words.about}
        </Text>
        <Button
          size="compact-xs"
          variant="default"
          leftSection={<IconRefresh size={14} />}
          loading={preview.isFetching}
          onClick={() => void preview.refetch()}
        >
          {words.refresh}
        </Button>
      </Group>
      <Loaded query={preview}>{(found) => <PreviewContent of={found} isForced={form.isForced} />}</Loaded>
      <Group align="flex-start" grow preventGrowOverflow={false}>
        <NumberInput
          label={words.deadline}
          description={words.deadlineHint}
          value={form.minutes}
          min={0}
          max={10_080}
          disabled={form.isForced}
          error={body === undefined ? words.badDeadline : undefined}
          onChange={(minutes) => setForm({ ...form, minutes: `${minutes}` })}
        />
        <TextInput
          label={text.acts.note}
          description={text.acts.noteHint}
          maxLength={500}
          value={form.note}
          onChange={(event) => setForm({ ...form, note: event.currentTarget.value })}
        />
      </Group>
      <Checkbox
        label={words.force}
        description={words.forceHint}
        checked={form.isForced}
        onChange={(event) => setForm({ ...form, isForced: event.currentTarget.checked })}
      />
      <Command value={drainCommand(node.name, form)} />
      <ErrorNotice error={error} />
      <Group justify="flex-end">
        <Button variant="default" onClick={close}>
          {common.cancel}
        </Button>
        <Button color="red" loading={isBusy} disabled={body === undefined} onClick={() => void drain()}>
          {words.act}
        </Button>
      </Group>
    </Stack>
  );
}

function PreviewContent({ of: preview, isForced }: { of: DrainPreview; isForced: boolean }): ReactNode {
  const { all, byOutcome, cutRequests, outages } = countsOf(preview, isForced);
  if (all === 0) return <Text size="sm">{words.empty}</Text>;
  const hasIssue = outages.length > 0 || cutRequests > 0;
  return (
    <Stack gap="sm">
      <Alert
        color={hasIssue ? "yellow" : "green"}
        variant="light"
        {...(hasIssue ? { icon: <IconAlertTriangle /> } : {})}
        title={isForced ? words.forced(all - byOutcome.stays) : words.summary(byOutcome.moves, all)}
        role="status"
      >
        {hasIssue && (
          <>
            {outages.length > 0 && (
              <Text size="sm">{isForced ? words.outagesNow(outages) : words.outages(outages)}</Text>
            )}
            {cutRequests > 0 && <Text size="sm">{words.cut(cutRequests)}</Text>}
          </>
        )}
      </Alert>
      {outcomes.map((outcome) => (
        <OutcomeGroup
          key={outcome}
          outcome={outcome}
          instances={preview.instances.filter((one) => one.outcome === outcome)}
        />
      ))}
    </Stack>
  );
}

const signs: Readonly<Record<Outcome, string>> = { waits: "✕", stays: "▲", moves: "→", stops: "○" };

interface OutcomeGroupProps {
  readonly outcome: Outcome;
  readonly instances: readonly DrainedInstance[];
}

function OutcomeGroup({ outcome, instances }: OutcomeGroupProps): ReactNode {
  if (instances.length === 0) return null;
  const last = outcome === "moves" ? words.to : outcome === "waits" ? words.why : words.elsewhere;
  return (
    <section aria-label={words.groups[outcome]}>
      <Title order={3}>
        <span aria-hidden="true">{signs[outcome]}</span> {words.groups[outcome]} ({instances.length})
      </Title>
      <Text size="xs" c="dimmed" mb={4}>
        {words.groupsAbout[outcome]}
      </Text>
      <Table.ScrollContainer minWidth={520} type="native">
        <Table verticalSpacing={4} fz="sm">
          <Table.Thead>
            <Table.Tr>
              <Table.Th scope="col">{words.deployment}</Table.Th>
              <Table.Th scope="col">{words.customer}</Table.Th>
              <Table.Th scope="col" className="number">
                {words.gpus}
              </Table.Th>
              <Table.Th scope="col" className="number">
                {words.requests}
              </Table.Th>
              <Table.Th scope="col">{last}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {instances.map((one) => (
              <Table.Tr key={one.instance_id}>
                <Table.Td>
                  <Link to={pathOfDeployment(one.deploy_id)}>{one.deploy_name}</Link>
                </Table.Td>
                <Table.Td>
                  <Link to={pathOfAccount(one.account.uid)}>{one.account.email}</Link>
                </Table.Td>
                <Table.Td className="number">{one.gpus}</Table.Td>
                <Table.Td className="number">{one.in_flight}</Table.Td>
                <Table.Td>
                  <Fate one={one} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </section>
  );
}

function Fate({ one }: { one: DrainedInstance }): ReactNode {
  if (one.to) return <Link to={pathOfNode(one.to.node_id)}>{one.to.name}</Link>;
  if (one.outcome !== "waits") return one.serving_elsewhere;
  return (
    <ul className="reasons">
      {one.reasons.map(({ host, why }) => (
        <li key={`${host}${why}`}>
          <b>{host}</b>: {why}
        </li>
      ))}
    </ul>
  );
}
