// Events of the fleet or of one host, newest first, with links to what they are about.
import { Button, Group, Text, Timeline } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Fragment, type ReactNode } from "react";
import { useApi } from "../../api/context.ts";
import { pathOfAccount, pathOfDeployment, pathOfNode } from "../../domain/fleet.ts";
import type { FleetEvent, FleetEvents } from "../../domain/host.ts";
import { styleOf } from "../../domain/status.ts";
import { text } from "../../text/fleet-events.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Empty } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

interface EventListProps {
  /** GET of the API, without a query. */
  readonly path: string;
  readonly filter?: Readonly<Record<string, string>>;
  /** All are of one host, which is not named again. */
  readonly isOfHost?: boolean;
}

const pageSize = "100";

export function EventList({ path, filter = {}, isOfHost = false }: EventListProps): ReactNode {
  const api = useApi();
  const set = Object.entries(filter).filter(([, value]) => value !== "");
  const query = useInfiniteQuery({
    queryKey: [path, "all", ...set],
    queryFn: ({ pageParam }) => {
      const search = new URLSearchParams([
        ...set,
        ["limit", pageSize],
        ...(pageParam ? [["cursor", pageParam] as [string, string]] : []),
      ]);
      return api.call<FleetEvents>("GET", `${path}?${search}`);
    },
    initialPageParam: "",
    getNextPageParam: (page: FleetEvents) => page.next_cursor,
    refetchInterval: 5000,
  });
  return (
    <Loaded query={query}>
      {({ pages }) => {
        const events = pages.flatMap((page) => page.events);
        if (events.length === 0) return <Empty>{set.length > 0 ? text.emptyFilter : text.empty}</Empty>;
        return (
          <>
            <Timeline active={events.length} bulletSize={20} lineWidth={2} mb="md" className="events">
              {events.map((event) => (
                <Event key={event.id} event={event} isOfHost={isOfHost} />
              ))}
            </Timeline>
            {query.hasNextPage && (
              <Button
                variant="default"
                size="xs"
                loading={query.isFetchingNextPage}
                onClick={() => void query.fetchNextPage()}
              >
                {text.more}
              </Button>
            )}
          </>
        );
      }}
    </Loaded>
  );
}

interface EventProps {
  readonly event: FleetEvent;
  readonly isOfHost: boolean;
}

function Event({ event, isOfHost }: EventProps): ReactNode {
  const { sign, color } = styleOf(styleWord(event.kind));
  const { node_id: node, deploy_id: deployment, account, instance_id: instance, gpu } = event;
  const parts: readonly ReactNode[] = [
    <Ago key="at" at={event.at} />,
    node && !isOfHost && (
      <Link key="node" to={pathOfNode(node)} size="xs">
        {event.node_name ?? node}
      </Link>
    ),
    gpu && text.gpu(gpu),
    deployment && (
      <Link key="deployment" to={pathOfDeployment(deployment)} size="xs" title={deployment}>
        {event.deploy_name || deployment}
      </Link>
    ),
    account && (
      <Link key="account" to={pathOfAccount(account)} size="xs" title={account}>
        {event.account_email ?? account}
      </Link>
    ),
    instance && text.instance(instance),
  ].filter((part) => part);
  return (
    <Timeline.Item
      color={color}
      bullet={<span aria-hidden="true">{sign}</span>}
      title={<Text size="sm">{text.of(event.kind, event.state)}</Text>}
    >
      {event.reason && (
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          {event.reason}
        </Text>
      )}
      <Group gap={4}>
        {parts.map((part, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts of an event never change.
          <Fragment key={at}>
            {at > 0 && (
              <Text size="xs" c="dimmed" aria-hidden="true">
                ·
              </Text>
            )}
            <Text size="xs" c="dimmed" component="div">
              {part}
            </Text>
          </Fragment>
        ))}
      </Group>
    </Timeline.Item>
  );
}

const words: Readonly<Record<string, string>> = {
  "host.silent": "unreachable",
  "host.lost": "lost",
  "host.unusable": "faulty",
  "host.cloned": "faulty",
  "host.joined": "ready",
  "host.usable": "ready",
  "host.returned": "ready",
  "host.uncordoned": "ready",
  "gpu.cordoned": "faulty",
  "gpu.uncordoned": "ready",
};
/** Status word with the colour and sign of an event. */
const styleWord = (kind: string): string => words[kind] ?? kind.split(".")[1] ?? "";
