import { Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { type Deployment, isEnded } from "../../domain/deployment.ts";
import { type Phase, phasesOf } from "../../domain/phases.ts";
import { text } from "../../text/deployments.ts";
import { duration } from "../../ui/format.ts";
import { Section } from "../../ui/page.tsx";
import { useNow } from "../../ui/time.tsx";

const words = text.detail;
const signs: Readonly<Record<Phase["is"], string>> = { done: "✓", now: "◐", next: "○", failed: "✕" };

export const eventsPath = (id: string): string => `/deploy/${encodeURIComponent(id)}/events?limit=200`;

/** The way of the newest instance to its first answer, with the time in each phase. */
export function PhaseStrip({ one }: { one: Deployment }): ReactNode {
  const events = useGet<Responses["GET /deploy/{deploy_id}/events"]>(eventsPath(one.deploy_id), { everyMs: 3000 });
  const nowMs = useNow();
  const phases = phasesOf(events.data?.events ?? [], one.status, nowMs);
  if (phases.length === 0) return null;
  return (
    <Section title={words.phases}>
      <ol className="phases">
        {phases.map((phase) => (
          <li
            key={phase.name}
            data-is={phase.name === "ready" && phase.is === "now" ? "done" : phase.is}
            aria-current={phase.is === "now" ? "step" : undefined}
          >
            <Text size="sm" fw={600}>
              <span aria-hidden="true">{phase.is === "now" && phase.name === "ready" ? "●" : signs[phase.is]}</span>{" "}
              {words.phaseNames[phase.name] ?? phase.name}
            </Text>
            <Text size="xs" c="dimmed" className="figure">
              {phase.ms === undefined || (phase.name === "ready" && isEnded(one.status))
                ? phase.is === "next"
                  ? words.phaseState.next
                  : duration(phase.ms ?? 0)
                : duration(phase.ms)}
              {phase.is === "failed" && ` · ${words.phaseState.failed}`}
            </Text>
          </li>
        ))}
      </ol>
    </Section>
  );
}
