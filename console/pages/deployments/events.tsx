// What happened to a deployment or an agent, newest first.
import { Anchor, Group, Text, Timeline } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { usePages } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import type { DeploymentEvent } from "../../domain/phases.ts";
import { styleOf } from "../../domain/status.ts";
import { text } from "../../text/deployments.ts";
import { Choice } from "../../ui/choice.tsx";
import { More } from "../../ui/filters.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Empty } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

type EventPage = Responses["GET /deploy/{deploy_id}/events"];

const words = text.events;

interface EventsProps {
  /** Without its query. */
  readonly path: string;
  /** Opens the log of an instance. */
  readonly onInstance?: (instance: string) => void;
}

export function Events({ path, onInstance }: EventsProps): ReactNode {
  const [kind, setKind] = useFilter("events");
  const query = usePages<EventPage>(path, { limit: "100" }, { everyMs: 5000 });
  return (
    <Loaded query={query}>
      {({ pages }) => {
        const events = pages.flatMap((page) => page.events).filter((event) => event.kind.startsWith(kind));
        return (
          <>
            <Group mb="md" justify="space-between">
              <Choice label={words.filter} options={words.filters} value={kind} onChange={setKind} />
              <Text size="xs" c="dimmed">
                {words.about}
              </Text>
            </Group>
            {events.length === 0 ? <Empty>{words.empty}</Empty> : <EventList events={events} onInstance={onInstance} />}
            <More of={query} label={words.more} />
          </>
        );
      }}
    </Loaded>
  );
}

interface EventListProps {
  readonly events: readonly DeploymentEvent[];
  readonly onInstance?: ((instance: string) => void) | undefined;
}

export function EventList({ events, onInstance }: EventListProps): ReactNode {
  return (
    <Timeline active={events.length} bulletSize={20} lineWidth={2} mb="md" className="events">
      {events.map((event) => {
        const { sign, color } = styleOf(event.kind.split(".")[1] ?? "");
        const { instance_id: instance } = event;
        return (
          <Timeline.Item
            key={event.id}
            color={color}
            bullet={<span aria-hidden="true">{sign}</span>}
            title={<Text size="sm">{words.of(event.kind, event.state)}</Text>}
          >
            {event.reason && (
              <Text size="sm" style={{ overflowWrap: "anywhere" }}>
                {event.reason}
              </Text>
            )}
            <Text size="xs" c="dimmed" component="div">
              <Ago at={event.at} />
              {instance && " · "}
              {instance &&
                (onInstance ? (
                  <Anchor component="button" type="button" size="xs" onClick={() => onInstance(instance)}>
                    {words.instance(instance)}
                  </Anchor>
                ) : (
                  words.instance(instance)
                ))}
            </Text>
          </Timeline.Item>
        );
      })}
    </Timeline>
  );
}
