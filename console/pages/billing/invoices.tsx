import { Button, Group, Stack } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet } from "../../api/hooks.ts";
import { dayText, monthText, usdOfWholeCents } from "../../domain/invoice.ts";
import { text as all } from "../../text/billing.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { InvoiceAddress } from "./address.tsx";

type List = Responses["GET /payment/invoices"];
type Invoice = List["invoices"][number];

const text = all.invoices;

const columns: readonly Column<Invoice>[] = [
  {
    name: text.month,
    value: (one) => one.period,
    show: (one) => (
      <Link to={`/invoices/${one.id}`} size="sm">
        {monthText(one.period)}
      </Link>
    ),
  },
  { name: text.number, value: (one) => one.id, show: (one) => <code>{one.id}</code>, isMinor: true },
  { name: text.status, value: (one) => one.status, show: (one) => <Status of={one.status} /> },
  { name: text.total, value: (one) => one.total / 100, show: (one) => usdOfWholeCents(Math.round(one.total)) },
  { name: text.due, value: (one) => one.amount_due / 100, show: (one) => usdOfWholeCents(Math.round(one.amount_due)) },
  { name: text.dueDate, value: (one) => dayText(one.due_date) },
];

export function Invoices(): ReactNode {
  return (
    <Page title={text.title} about={text.about}>
      <InvoiceTable />
      <InvoiceAddress />
    </Page>
  );
}

/** The latest invoices of the account. */
export function LatestInvoices(): ReactNode {
  return (
    <Loaded query={useGet<List>("/payment/invoices?limit=3")}>
      {({ invoices }) => <Rows of={invoices} isShort />}
    </Loaded>
  );
}

function InvoiceTable(): ReactNode {
  const api = useApi();
  const query = useInfiniteQuery({
    queryKey: ["/payment/invoices", "all"],
    queryFn: ({ pageParam }) => {
      const search = new URLSearchParams({ limit: "50", ...(pageParam === null ? {} : { starting_after: pageParam }) });
      return api.call<List>("GET", `/payment/invoices?${search}`);
    },
    initialPageParam: null as string | null,
    getNextPageParam: (page: List) => page.next_cursor,
  });
  const { hasNextPage, fetchNextPage, isFetchingNextPage } = query;
  return (
    <Stack gap="sm">
      <Loaded query={query}>{({ pages }) => <Rows of={pages.flatMap(({ invoices }) => invoices)} />}</Loaded>
      {hasNextPage && (
        <Group>
          <Button variant="default" size="xs" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            {text.more}
          </Button>
        </Group>
      )}
    </Stack>
  );
}

function Rows({ of, isShort = false }: { of: readonly Invoice[]; isShort?: boolean }): ReactNode {
  return (
    <DataTable
      name="invoices"
      id="i-"
      rows={of}
      columns={columns}
      keyOf={({ id }) => id}
      empty={text.empty}
      isShort={isShort}
    />
  );
}
