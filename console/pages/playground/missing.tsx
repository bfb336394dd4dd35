import { Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { deployPage, type Mode, needs } from "../../domain/playground.ts";
import { text } from "../../text/playground.ts";
import { LinkButton } from "../../ui/link.tsx";
import { Empty, Section } from "../../ui/page.tsx";

/** Says how to get a model for the mode. */
export function Missing({ mode }: { mode: Mode }): ReactNode {
  return (
    <Section>
      <Empty
        action={
          <Group justify="center" gap="xs">
            <LinkButton to={deployPage(mode)} size="sm">
              {text.deployExample(needs[mode].example)}
            </LinkButton>
            <LinkButton to="/deployments/new" size="sm" variant="default">
              {text.deployOther}
            </LinkButton>
          </Group>
        }
      >
        {text.missing[mode]}
        <Text size="sm" c="dimmed" mt={4}>
          {text.missingAdvice}
        </Text>
      </Empty>
    </Section>
  );
}
