// Frame of a mode: its form on the left, its result on the right.
import { Button, Group, SimpleGrid, Stack } from "@mantine/core";
import { IconPlayerPlay, IconPlayerStop } from "@tabler/icons-react";
import type { FormEvent, ReactNode } from "react";
import { text } from "../../text/playground.ts";
import { ErrorNotice } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";

interface BenchProps {
  readonly title: string;
  readonly about?: string;
  /** Label of the button. */
  readonly run: string;
  /** Why it cannot run now. */
  readonly why?: string | undefined;
  readonly isBusy: boolean;
  readonly error: unknown;
  /** Button that shows the call as code. */
  readonly code: ReactNode;
  readonly fields: ReactNode;
  readonly onRun: () => void;
  readonly onStop: () => void;
  /** Result. */
  readonly children: ReactNode;
}

export function Bench(props: BenchProps): ReactNode {
  const { title, about, run, why, isBusy, error, code, fields, onRun, onStop, children } = props;
  const send = (event: FormEvent) => {
    event.preventDefault();
    onRun();
  };
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
      <Section title={title} about={about}>
        <form onSubmit={send}>
          <Stack gap="sm">
            {fields}
            <Group gap="xs">
              {isBusy ? (
                <Button variant="default" leftSection={<IconPlayerStop size={16} />} onClick={onStop}>
                  {text.stop}
                </Button>
              ) : (
                <Button
                  type="submit"
                  leftSection={<IconPlayerPlay size={16} />}
                  disabled={why !== undefined}
                  title={why ?? ""}
                >
                  {run}
                </Button>
              )}
              {code}
            </Group>
          </Stack>
        </form>
      </Section>
      <Section>
        <Stack gap="sm" aria-live="polite" aria-busy={isBusy}>
          <ErrorNotice error={error} />
          {children}
        </Stack>
      </Section>
    </SimpleGrid>
  );
}
