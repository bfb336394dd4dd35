import { Box, Card, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { type ReactNode, useEffect } from "react";
import { text } from "../text/common.ts";

interface PageProps {
  readonly title: string;
  /** One sentence: what this page is for. */
  readonly about?: ReactNode;
  /** Status beside the title. */
  readonly beside?: ReactNode;
  readonly actions?: ReactNode;
  readonly children?: ReactNode;
}

/** Every page: title, actions, content. */
export function Page({ title, about, beside, actions, children }: PageProps): ReactNode {
  useEffect(() => {
    document.title = `${title} · ${text.product}`;
  }, [title]);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start" gap="sm">
        <Box flex="1 1 20rem" miw={0}>
          <Group gap="sm">
            <Title order={1}>{title}</Title>
            {beside}
          </Group>
          {about && (
            <Text c="dimmed" size="sm" mt={4} component="div">
              {about}
            </Text>
          )}
        </Box>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}

/** Part of a page in a frame. */
export function Section(props: {
  title?: string;
  about?: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
}): ReactNode {
  const { title, about, actions, children } = props;
  return (
    <Card withBorder padding="md" component="section" {...(title ? { "aria-label": title } : {})}>
      {(title || actions) && (
        <Group justify="space-between" mb={about ? 4 : "sm"} gap="xs">
          {title && <Title order={2}>{title}</Title>}
          {actions && <Group gap="xs">{actions}</Group>}
        </Group>
      )}
      {about && (
        <Text c="dimmed" size="sm" mb="sm" component="div">
          {about}
        </Text>
      )}
      {children}
    </Card>
  );
}

export interface Fact {
  readonly label: string;
  readonly value: ReactNode;
  /** Smaller, below the value. */
  readonly note?: ReactNode;
}

/** Important figures in a row of cards. */
export function Stats({ of }: { of: readonly Fact[] }): ReactNode {
  return (
    <SimpleGrid
      cols={{ base: 2, md: Math.min(Math.max(of.length, 1), 4), xl: Math.min(Math.max(of.length, 1), 6) }}
      spacing="sm"
    >
      {of.map(({ label, value, note }) => (
        <Card key={label} withBorder padding="sm">
          <Text size="xs" c="dimmed">
            {label}
          </Text>
          <Text fw={650} fz={{ base: "lg", sm: "xl" }} component="div" className="figure">
            {value}
          </Text>
          {note && (
            <Text size="xs" c="dimmed" component="div">
              {note}
            </Text>
          )}
        </Card>
      ))}
    </SimpleGrid>
  );
}

interface FactsProps {
  readonly of: readonly (Fact | false | null | undefined)[];
  /** One fact per line, for long values. */
  readonly isWide?: boolean;
}

/** Facts as a list of names and values. */
export function Facts({ of, isWide = false }: FactsProps): ReactNode {
  return (
    <dl className={isWide ? "facts facts-wide" : "facts"}>
      {of.map(
        (one) =>
          one && (
            <div key={one.label}>
              <dt>{one.label}</dt>
              <dd>
                {one.value}
                {one.note && (
                  <Text size="xs" c="dimmed" component="div">
                    {one.note}
                  </Text>
                )}
              </dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** What an empty list says, and what to do. */
export function Empty({ children, action }: { children: ReactNode; action?: ReactNode }): ReactNode {
  return (
    <Stack align="center" gap="sm" py="xl" className="empty">
      <Text c="dimmed" ta="center" component="div" maw={480}>
        {children}
      </Text>
      {action}
    </Stack>
  );
}
