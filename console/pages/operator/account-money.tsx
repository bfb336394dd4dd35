import { Checkbox, NumberInput, SimpleGrid, Stack } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { text as common } from "../../text/operator.ts";
import { text as all } from "../../text/operator-accounts.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { usd, usdOfCents } from "../../ui/format.ts";
import { NoteAct } from "../../ui/note-act.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { asOwner, pathOfAccount } from "./account-path.ts";

const text = all.money;

type Checklist = Responses["GET /payment/checklist"];
type Invoices = Responses["GET /payment/invoices"];
type Terms = Responses["GET /v1/admin/accounts/{uid}/terms"];

export function AccountMoney({ uid }: { uid: string }): ReactNode {
  const headers = asOwner(uid);
  const checklist = useGet<Checklist>("/payment/checklist", { headers });
  const invoices = useGet<Invoices>("/payment/invoices?limit=50", { headers });
  return (
    <Stack gap="md">
      <Section>
        <Loaded query={checklist}>{(found) => <Funds of={found} />}</Loaded>
      </Section>
      <PaymentTerms uid={uid} />
      <Section title={text.invoices}>
        <Loaded query={invoices}>
          {({ invoices: rows }) => (
            <DataTable
              name="invoices"
              id="invoice-"
              rows={rows}
              columns={columns}
              keyOf={({ id }) => id}
              empty={text.noInvoices}
            />
          )}
        </Loaded>
      </Section>
    </Stack>
  );
}

function Funds({ of: list }: { of: Checklist }): ReactNode {
  const rule = text.topupRule(usdOfCents(list.topup_amount), usdOfCents(list.topup_threshold));
  return (
    <Facts
      of={[
        // The API returns the balance as a debt.
        { label: text.funds, value: usd(-list.payments_balance - list.recent) },
        { label: text.recent, value: usd(list.recent) },
        { label: text.limit, value: list.limit === null ? common.none : usd(list.limit) },
        {
          label: text.topup,
          value: list.topup ? rule : text.off,
          note: list.topup_failed && text.topupFailed,
        },
        { label: text.method, value: list.payment_method ? text.onFile : text.noMethod },
      ]}
    />
  );
}

const columns: readonly Column<Invoices["invoices"][number]>[] = [
  { name: text.month, value: (one) => one.period },
  { name: all.status, value: (one) => one.status, show: (one) => <Status of={one.status} /> },
  { name: text.total, value: (one) => one.total / 100, show: (one) => usdOfCents(one.total) },
  { name: text.due, value: (one) => one.amount_due / 100, show: (one) => usdOfCents(one.amount_due) },
  { name: text.dueDate, value: (one) => one.due_date, show: (one) => <Ago at={one.due_date} /> },
];

function PaymentTerms({ uid }: { uid: string }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const path = `${pathOfAccount(uid)}/terms`;
  const terms = useGet<Terms>(path);
  return (
    <Loaded query={terms}>
      {(now) => (
        <Section
          title={text.terms}
          about={text.termsAbout}
          actions={
            <NoteAct
              key={JSON.stringify(now)}
              label={text.save}
              title={text.terms}
              done={text.saved}
              fields={<TermFields now={now} />}
              onAct={async (note, { line, days, method }) => {
                const change = {
                  credit_line_usd: Number(line),
                  due_days: Number(days),
                  needs_payment_method: method === "on",
                };
                await api.call("POST", path, { ...change, note });
                await refresh(path);
              }}
            />
          }
        >
          <Facts
            of={[
              { label: text.creditLine, value: usd(now.credit_line_usd) },
              { label: text.dueDays, value: now.due_days },
              { label: text.needsMethod, value: now.needs_payment_method ? text.yes : text.no },
            ]}
          />
        </Section>
      )}
    </Loaded>
  );
}

function TermFields({ now }: { now: Terms }): ReactNode {
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <NumberInput
          label={text.creditLine}
          description={text.creditLineHint}
          name="line"
          min={0}
          decimalScale={2}
          defaultValue={now.credit_line_usd}
          required
        />
        <NumberInput label={text.dueDays} name="days" min={0} max={365} defaultValue={now.due_days} required />
      </SimpleGrid>
      <Checkbox label={text.needsMethod} name="method" defaultChecked={now.needs_payment_method} />
    </>
  );
}
