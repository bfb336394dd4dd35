// One invoice as a document: on the screen, on paper, and as a PDF that the browser prints.
import { Button, Group, Table, Text, Title } from "@mantine/core";
import { IconDownload, IconPrinter } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { actingHeaders } from "../../api/acting.ts";
import { refusalOf } from "../../api/client.ts";
import { useGet } from "../../api/hooks.ts";
import { useParam } from "../../app/router.tsx";
import { dayText, type Invoice, invoiceCsv, linesOf, monthText, usdOfWholeCents } from "../../domain/invoice.ts";
import { text as all } from "../../text/billing.ts";
import { Act } from "../../ui/act.tsx";
import { Copy } from "../../ui/code.tsx";
import { save } from "../../ui/data-table.tsx";
import { count, usdOfCents } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Page } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";

const text = all.invoice;

export function InvoicePage(): ReactNode {
  const id = useParam("invoice");
  const invoice = useGet<Invoice>(`/payment/invoices/${encodeURIComponent(id)}`);
  const month = invoice.data && monthText(invoice.data.period);
  return (
    <Page
      title={month === undefined ? text.heading : text.title(month)}
      actions={invoice.data && <Actions invoice={invoice.data} />}
    >
      <Loaded query={invoice}>{(found) => <Document invoice={found} />}</Loaded>
    </Page>
  );
}

function Actions({ invoice }: { invoice: Invoice }): ReactNode {
  const name = `invoice-${invoice.period}`;
  return (
    <Group gap="xs" className="no-print">
      <Button size="xs" leftSection={<IconPrinter size={16} />} onClick={() => print()}>
        {text.print}
      </Button>
      <Button
        size="xs"
        variant="default"
        leftSection={<IconDownload size={16} />}
        onClick={() => save(`${name}.csv`, "text/csv", invoiceCsv(invoice))}
      >
        {text.csv}
      </Button>
      <Button
        size="xs"
        variant="default"
        leftSection={<IconDownload size={16} />}
        onClick={() => save(`${name}.json`, "application/json", JSON.stringify(invoice, null, 2))}
      >
        {text.json}
      </Button>
      <Act
        size="xs"
        variant="default"
        leftSection={<IconDownload size={16} />}
        label={text.records}
        command={`stoker invoice export ${invoice.period}`}
        isReading
        onAct={async () => save(`${name}.jsonl`, "application/x-ndjson", await recordsOf(invoice.period))}
      />
      {invoice.hosted_invoice_url !== "" && <Copy value={invoice.hosted_invoice_url} label={text.copyLink} />}
    </Group>
  );
}

/** Every usage record of the month. Not by a link: its account may be an organization. Throws ApiError. */
async function recordsOf(period: string): Promise<Blob> {
  const answer = await fetch(`/v1/invoice-exports/${encodeURIComponent(period)}`, { headers: actingHeaders() });
  if (!answer.ok) throw await refusalOf(answer);
  return answer.blob();
}

function Document({ invoice }: { invoice: Invoice }): ReactNode {
  const { seller, buyer, rounded_total: total, rounded_amount_due: due } = invoice;
  return (
    <article className="invoice" aria-label={text.heading}>
      <div className="invoice-parties">
        <Party title={text.from} lines={linesOf(seller.name, seller.address)} />
        <Party title={text.to} lines={[...linesOf(buyer.name, buyer.address, buyer.email), text.account(buyer.uid)]} />
      </div>
      <Facts
        of={[
          { label: text.number, value: invoice.id },
          { label: text.period, value: `${monthText(invoice.period)} (${text.utc})` },
          { label: text.issued, value: dayText(invoice.created) },
          { label: text.due, value: dayText(invoice.due_date) },
          invoice.paid !== null && { label: text.paid, value: dayText(invoice.paid) },
          { label: text.status, value: <Status of={invoice.status} /> },
        ]}
      />
      <Table verticalSpacing="xs" aria-label={text.heading} className="invoice-lines">
        <Table.Thead>
          <Table.Tr>
            <Table.Th scope="col">{text.model}</Table.Th>
            <Table.Th scope="col" className="number">
              {text.quantity}
            </Table.Th>
            <Table.Th scope="col" className="number">
              {text.amount}
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {invoice.lines.map((line, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: an invoice never changes.
            <Table.Tr key={index}>
              <Table.Td>
                {line.model}
                {line.discount !== null && (
                  <Text size="xs" c="dimmed">
                    {line.discount}
                  </Text>
                )}
              </Table.Td>
              <Table.Td className="number">{quantity(line)}</Table.Td>
              <Table.Td className="number" title={text.exact(usdOfCents(line.amount))}>
                {usdOfWholeCents(line.rounded_amount)}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
        <Table.Tfoot>
          <Sum label={text.total} cents={total} isStrong />
          {due !== total && due !== 0 && <Sum label={text.paidSoFar} cents={due - total} />}
          <Sum label={text.stillDue} cents={due} isStrong />
        </Table.Tfoot>
      </Table>
      <Text size="xs" c="dimmed">
        {text.rounding}
      </Text>
      <Text size="xs" c="dimmed" className="no-print">
        {text.verify}
      </Text>
    </article>
  );
}

function Party({ title, lines: [name, ...address] }: { title: string; lines: readonly string[] }): ReactNode {
  return (
    <section>
      <Title order={2} size="sm" c="dimmed" fw={600}>
        {title}
      </Title>
      <Text fw={600}>{name}</Text>
      {address.map((line) => (
        <Text key={line} size="sm">
          {line}
        </Text>
      ))}
    </section>
  );
}

function Sum({ label, cents, isStrong = false }: { label: string; cents: number; isStrong?: boolean }): ReactNode {
  return (
    <Table.Tr fw={isStrong ? 650 : 400}>
      <Table.Th scope="row" colSpan={2} fw="inherit">
        {label}
      </Table.Th>
      <Table.Td className="number">{usdOfWholeCents(cents)}</Table.Td>
    </Table.Tr>
  );
}

/** Units of the price in words; GPU time in hours. */
function quantity({ pricing_type: type, units }: Invoice["lines"][number]): string {
  const words = (text.units as Readonly<Record<string, (count: string) => string>>)[type];
  const shown = count(type === "uptime" ? units / 3600 : units);
  return words?.(shown) ?? shown;
}
