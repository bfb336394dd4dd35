import { Group, Progress, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Deployment } from "../../domain/deployment.ts";
import { text } from "../../text/deployments.ts";
import { Section } from "../../ui/page.tsx";

const words = text.rollout;

/** Shown while instances of two versions exist. */
export function Rollout({ one: { rollout, status } }: { one: Deployment }): ReactNode {
  const { up_to_date: upToDate, outdated, booting } = rollout;
  if (outdated === 0 && status !== "updating") return null;
  const all = upToDate + outdated;
  const summary = words.counts(upToDate, all);
  return (
    <Section title={words.title} about={words.about}>
      <Progress value={all === 0 ? 0 : (100 * upToDate) / all} aria-label={summary} mb={6} />
      <Group gap="md">
        <Text size="sm">{summary}</Text>
        {booting > 0 && <Text size="sm">{words.booting(booting)}</Text>}
        {outdated > 0 && <Text size="sm">{words.outdated(outdated)}</Text>}
      </Group>
    </Section>
  );
}
