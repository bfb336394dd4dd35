// Page of a host: its state and since when, what needs attention, everything on it, and every action.
import { Alert, Group, Stack, Tabs, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { lazy, type ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useParam } from "../../app/router.tsx";
import { statusOf } from "../../domain/fleet.ts";
import { codesOf, type Enrolment, type FleetEvents, sinceOf } from "../../domain/host.ts";
import { issuesOf } from "../../domain/nodes.ts";
import { text } from "../../text/fleet-host.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { PageTabs } from "../../ui/tabs.tsx";
import { Ago, useNow } from "../../ui/time.tsx";
import { DrainState } from "./drain-state.tsx";
import { HostActions } from "./host-actions.tsx";
import { HostFacts } from "./host-facts.tsx";
import { HostGpus } from "./host-gpus.tsx";
import { HostInstances } from "./host-instances.tsx";

// Code of a tab is loaded when it is opened.
const History = lazy(async () => ({ default: (await import("./host-history.tsx")).HostHistory }));
const EventList = lazy(async () => ({ default: (await import("./event-list.tsx")).EventList }));

export type NodeDetail = Responses["GET /v1/admin/nodes/{id}"];

const tabs = Object.entries(text.tabs);

export function HostPage(): ReactNode {
  const id = useParam("id");
  const node = useGet<NodeDetail>(`/v1/admin/nodes/${encodeURIComponent(id)}`, { everyMs: 3000 });
  const enrolment = useGet<Enrolment>("/v1/admin/nodes/enrolment", { everyMs: 60_000 });
  const one = node.data;
  const identity = enrolment.data?.nodes.find(({ node_id: own }) => own === one?.node_id);
  const isRevoked = (identity?.revoked_at ?? null) !== null;
  return (
    <Page
      title={one?.name ?? text.title}
      beside={one && <State node={one} isRevoked={isRevoked} />}
      about={<Link to="/fleet">{text.back}</Link>}
      actions={one && <HostActions node={one} isRevoked={isRevoked} />}
    >
      <Loaded query={node}>{(found) => <Content node={found} identity={identity} />}</Loaded>
    </Page>
  );
}

function State({ node, isRevoked }: { node: NodeDetail; isRevoked: boolean }): ReactNode {
  const path = `/v1/admin/events?${new URLSearchParams({ node: node.node_id, kind: "host", limit: "50" })}`;
  const events = useGet<FleetEvents>(path, { everyMs: 15_000 });
  const now = useNow();
  return (
    <Group gap="xs">
      <Status of={isRevoked ? "revoked" : statusOf(node)} size="lg" />
      {events.data && (
        <Text size="sm" c="dimmed">
          {text.changed} <Ago at={sinceOf(node, events.data.events, now)} />
        </Text>
      )}
    </Group>
  );
}

interface ContentProps {
  readonly node: NodeDetail;
  readonly identity: Enrolment["nodes"][number] | undefined;
}

function Content({ node, identity }: ContentProps): ReactNode {
  return (
    <Stack gap="md">
      <Issues node={node} isRevoked={(identity?.revoked_at ?? null) !== null} />
      <DrainState node={node} />
      <PageTabs label={text.tabsLabel} tabs={tabs}>
        <Tabs.Panel value="overview">
          <Stack gap="md">
            <HostGpus node={node} />
            <HostInstances node={node} />
            <HostFacts node={node} identity={identity} />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="history">
          <History node={node} />
        </Tabs.Panel>
        <Tabs.Panel value="events">
          <Section>
            <EventList path={`/v1/admin/nodes/${encodeURIComponent(node.node_id)}/events`} isOfHost />
          </Section>
        </Tabs.Panel>
      </PageTabs>
    </Stack>
  );
}

function Issues({ node, isRevoked }: { node: NodeDetail; isRevoked: boolean }): ReactNode {
  const isSilent = node.state === "unreachable" || node.state === "lost";
  const issues = [
    ...(isRevoked ? [text.revoked] : []),
    ...(isSilent && !isRevoked ? [text.silent(node.silent_seconds)] : []),
    // Silence is said above.
    ...issuesOf(isSilent ? { ...node, state: "ready" } : node),
  ];
  if (issues.length === 0) return null;
  return (
    <Alert color="red" variant="light" icon={<IconAlertTriangle />} title={text.issues}>
      {issues.map((issue) => (
        <Text key={issue} size="sm" className="verbatim">
          {issue}
        </Text>
      ))}
      {codesOf(node).map((code) => (
        <Text key={code} size="sm" mt={4} fw={600}>
          {text.advice[code]}
        </Text>
      ))}
    </Alert>
  );
}
