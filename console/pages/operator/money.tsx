// Ledger balance, reservations, losses, records in quarantine, unsent usage and top spenders.
import { Alert, Button, Stack, Tabs } from "@mantine/core";
import { IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import { lazy, type ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { monthText } from "../../domain/invoice.ts";
import { text } from "../../text/operator-money.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { count, duration, usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section, Stats } from "../../ui/page.tsx";
import { PageTabs } from "../../ui/tabs.tsx";
import { AccountLink } from "./account-status.tsx";
import { nodesPath, type Spooled, Spools, spoolOf } from "./spools.tsx";

const Quarantine = lazy(async () => ({ default: (await import("./quarantine.tsx")).Quarantine }));

type Overview = Responses["GET /v1/admin/money"];

export function Money(): ReactNode {
  const [, setTab] = useFilter("tab");
  const overview = useGet<Overview>("/v1/admin/money", { everyMs: 15_000 });
  const nodes = useGet<Responses["GET /v1/admin/nodes"]>(nodesPath, { everyMs: 30_000 });
  const spools = spoolOf(nodes.data?.nodes ?? []);
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={overview}>
        {(money) => (
          <Stack gap="md">
            <Balance imbalance={money.imbalance_usd} />
            <Figures money={money} spools={spools} onTab={setTab} />
            <PageTabs label={text.tabsLabel} tabs={Object.entries(text.tabs)}>
              <Tabs.Panel value="overview">
                <Stack gap="md">
                  <Spenders money={money} />
                  <Suspended money={money} />
                </Stack>
              </Tabs.Panel>
              <Tabs.Panel value="quarantine">
                <Quarantine />
              </Tabs.Panel>
              <Tabs.Panel value="spool">
                <Spools query={nodes} />
              </Tabs.Panel>
            </PageTabs>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

function Balance({ imbalance }: { imbalance: number }): ReactNode {
  if (imbalance === 0)
    return (
      <Alert color="green" variant="light" icon={<IconCircleCheck />}>
        {text.balanced}
      </Alert>
    );
  return (
    <Alert color="red" variant="filled" icon={<IconCircleX />} role="alert" title={text.imbalance(usd(imbalance))}>
      {text.imbalanceAdvice}
    </Alert>
  );
}

interface FiguresProps {
  readonly money: Overview;
  readonly spools: readonly Spooled[];
  readonly onTab: (tab: string) => void;
}

function Figures({ money, spools, onTab }: FiguresProps): ReactNode {
  const records = spools.reduce((sum, one) => sum + one.records, 0);
  const oldest = Math.max(0, ...spools.map(({ oldestSeconds }) => oldestSeconds));
  const suspended = money.suspended.reduce((sum, { accounts }) => sum + accounts, 0);
  const to = (tab: string, label: string) => (
    <Button variant="transparent" size="compact-xs" p={0} onClick={() => onTab(tab)}>
      {label}
    </Button>
  );
  return (
    <Stats
      of={[
        { label: text.leased, value: usd(money.leased_usd), note: text.leases(count(money.open_leases)) },
        { label: text.held, value: usd(money.gpu_held_usd), note: text.holds(count(money.open_gpu_holds)) },
        { label: text.loss, value: usd(money.loss_last_hour_usd), note: text.lossNote },
        {
          label: text.quarantined,
          value: count(money.quarantined_records),
          note: money.quarantined_records > 0 && to("quarantine", text.quarantinedNote),
        },
        {
          label: text.spool,
          value: count(records),
          note:
            records === 0 ? text.spoolNone : to("spool", text.spoolNote(count(spools.length), duration(oldest * 1000))),
        },
        {
          label: text.suspended,
          value: count(suspended),
          note: suspended > 0 && <Link to="/accounts?suspended=any">{text.show}</Link>,
        },
      ]}
    />
  );
}

function Spenders({ money }: { money: Overview }): ReactNode {
  return (
    <Section title={text.spenders(monthText(money.month))}>
      <DataTable
        name="spenders"
        id="spender-"
        rows={money.top_spenders}
        columns={spenderColumns}
        keyOf={({ uid }) => uid}
        empty={text.noSpending}
      />
    </Section>
  );
}

const spenderColumns: readonly Column<Overview["top_spenders"][number]>[] = [
  {
    name: text.account,
    value: ({ display_name: name }) => name,
    show: ({ uid, display_name: name }) => <AccountLink uid={uid} name={name} tab="money" />,
  },
  { name: text.email, value: ({ email }) => email },
  { name: text.requests, value: ({ requests }) => requests, show: ({ requests }) => count(requests) },
  { name: text.spent, value: ({ spent_usd: spent }) => spent, show: ({ spent_usd: spent }) => usd(spent) },
];

function Suspended({ money }: { money: Overview }): ReactNode {
  return (
    <Section title={text.suspendedTitle}>
      <DataTable
        name="suspended accounts"
        id="suspended-"
        rows={money.suspended}
        columns={suspendedColumns}
        keyOf={({ reason }) => reason}
        empty={text.noneSuspended}
      />
    </Section>
  );
}

const suspendedColumns: readonly Column<Overview["suspended"][number]>[] = [
  {
    name: text.reason,
    value: ({ reason }) => reason,
    show: ({ reason }) => (
      <Link to={`/accounts?suspended=${encodeURIComponent(reason)}`} inherit>
        {reason}
      </Link>
    ),
  },
  { name: text.accounts, value: ({ accounts }) => accounts },
];
