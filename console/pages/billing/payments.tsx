import type { ReactNode } from "react";
import type { Funds } from "../../domain/checklist.ts";
import { text as all } from "../../text/billing.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { usdOfCents } from "../../ui/format.ts";
import { Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

type Payment = Funds["payments"][number];

const text = all.payments;
const word = (words: Readonly<Record<string, string>>, name: string): string => words[name] ?? name;

const columns: readonly Column<Payment>[] = [
  {
    name: text.date,
    value: (one) => new Date(one.created_at * 1000).toISOString(),
    show: (one) => <Ago at={one.created_at} />,
  },
  { name: text.kind, value: (one) => word(text.kinds, one.kind) },
  { name: text.amount, value: (one) => one.amount / 100, show: (one) => usdOfCents(one.amount) },
  {
    name: text.status,
    value: (one) => word(text.statuses, one.status),
    show: (one) => <Status of={word(text.statuses, one.status)} />,
  },
  { name: text.why, value: (one) => one.error_message, show: (one) => one.error_message },
];

export function Payments({ payments }: { payments: readonly Payment[] }): ReactNode {
  return (
    <Section title={text.title}>
      <DataTable name="payments" id="p-" rows={payments} columns={columns} keyOf={({ id }) => id} empty={text.empty} />
    </Section>
  );
}
