import { Anchor, Group, List, Stack, Text, ThemeIcon } from "@mantine/core";
import { IconAlertTriangle, IconCheck } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { SuspendReason } from "../../../proto/suspend-reason.ts";
import { type Checklist, type Funds, type StepName, stepsOf } from "../../domain/checklist.ts";
import { suspensionOf } from "../../domain/suspension.ts";
import { text as all } from "../../text/billing.ts";
import { usdOfCents } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Facts, Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { PortalButton } from "./forms.tsx";

const text = all.checklist;

interface ChecklistProps {
  readonly list: Checklist;
  readonly funds: Funds;
}

export function ChecklistSection({ list, funds: { provider } }: ChecklistProps): ReactNode {
  return (
    <Section title={text.title}>
      <Stack gap="md">
        <Standing reason={list.suspend_reason as SuspendReason | null} />
        <List spacing="xs" center listStyleType="none">
          {stepsOf(list, provider).map(({ name, isDone }) => (
            <List.Item key={name} icon={<Sign isGood={isDone} />}>
              <Group gap="xs">
                <Text size="sm">{wordsOf(name, isDone, list)}</Text>
                {!isDone && <Remedy of={name} />}
              </Group>
            </List.Item>
          ))}
        </List>
        <Facts
          of={[
            {
              label: text.topup,
              value: list.topup
                ? text.topupRule(usdOfCents(list.topup_amount), usdOfCents(list.topup_threshold))
                : text.topupOff,
              note: list.topup && list.topup_failed && text.topupFailed,
            },
            { label: text.checked, value: <Ago at={list.last_checked === 0 ? null : list.last_checked} /> },
          ]}
        />
      </Stack>
    </Section>
  );
}

function Sign({ isGood }: { isGood: boolean }): ReactNode {
  return (
    <ThemeIcon size="sm" radius="xl" variant="light" color={isGood ? "green" : "yellow"} aria-hidden="true">
      {isGood ? <IconCheck size={14} /> : <IconAlertTriangle size={14} />}
    </ThemeIcon>
  );
}

/** Whether the account may spend; if not, why, and what clears it. */
function Standing({ reason }: { reason: SuspendReason | null }): ReactNode {
  if (reason === null)
    return (
      <Group gap="xs">
        <Sign isGood />
        <Text size="sm" fw={600}>
          {text.active}
        </Text>
      </Group>
    );
  const { why, act } = suspensionOf(reason);
  return (
    <Group gap="xs" role="status">
      <ThemeIcon size="sm" radius="xl" color="red" variant="light" aria-hidden="true">
        <IconAlertTriangle size={14} />
      </ThemeIcon>
      <Text size="sm" fw={600}>
        {why}
      </Text>
      <Clearing reason={reason}>{act}</Clearing>
    </Group>
  );
}

/** The action that clears a suspension. */
function Clearing({ reason, children }: { reason: SuspendReason; children: string }): ReactNode {
  switch (reason) {
    case "balance":
      return (
        <Anchor href="#add-funds" size="sm">
          {children}
        </Anchor>
      );
    case "limit-reached":
      return (
        <Anchor href="#monthly-limit" size="sm">
          {children}
        </Anchor>
      );
    case "overdue-invoices":
      return (
        <Link to="/invoices" size="sm">
          {children}
        </Link>
      );
    case "payment-method":
    case "bad-cc":
      return <PortalButton label={children} />;
    case "admin":
      return <Text size="sm">{children}</Text>;
  }
}

function Remedy({ of }: { of: StepName }): ReactNode {
  if (of === "funds")
    return (
      <Anchor href="#add-funds" size="sm">
        {all.add.act}
      </Anchor>
    );
  if (of === "invoices")
    return (
      <Link to="/invoices" size="sm">
        {text.toInvoices}
      </Link>
    );
  return of === "card" || of === "address" ? <PortalButton /> : null;
}

function wordsOf(name: StepName, isDone: boolean, list: Checklist): string {
  if (name === "invoices" && !isDone) return text.overdue(list.overdue_invoices);
  const { done, todo } = text.steps[name];
  return isDone ? done : todo;
}
