// One account, for operators: who it is, its money, limits, keys, deployments and requests, and what may be done about it.
import { Alert, Stack, Tabs, Text } from "@mantine/core";
import { lazy, type ReactNode } from "react";
import { useGet } from "../../api/hooks.ts";
import { useParam } from "../../app/router.tsx";
import { text as all } from "../../text/operator-accounts.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page, Section } from "../../ui/page.tsx";
import { PageTabs } from "../../ui/tabs.tsx";
import { Ago } from "../../ui/time.tsx";
import { AccountActions } from "./account-actions.tsx";
import { type Account, pathOfAccount } from "./account-path.ts";
import { AccountStatus, Roles } from "./account-status.tsx";
import { AccountSummary } from "./account-summary.tsx";

const AccountMoney = lazy(async () => ({ default: (await import("./account-money.tsx")).AccountMoney }));
const AccountLimits = lazy(async () => ({ default: (await import("./account-limits.tsx")).AccountLimits }));
const AccountKeys = lazy(async () => ({ default: (await import("./account-keys.tsx")).AccountKeys }));

const SeenDeployments = lazy(async () => ({ default: (await import("./seen-deployments.tsx")).SeenDeployments }));

const RequestList = lazy(async () => ({ default: (await import("./request-list.tsx")).RequestList }));
const AuditLog = lazy(async () => ({ default: (await import("./audit-log.tsx")).AuditLog }));

const text = all.detail;

export function AccountPage(): ReactNode {
  const uid = useParam("uid");
  const account = useGet<Account>(pathOfAccount(uid), { everyMs: 15_000 });
  const one = account.data;
  return (
    <Page
      title={one?.display_name ?? all.account}
      beside={
        one && (
          <>
            {one.deleted_at === null && <AccountStatus reason={one.suspend_reason} size="lg" />}
            <Roles of={one} />
          </>
        )
      }
      about={
        <>
          <Link to="/accounts">{text.back}</Link>
          {one && (
            <>
              {` · ${one.email} · ${one.uid} · ${text.since} `}
              <Ago at={one.created_at} />
            </>
          )}
        </>
      }
      actions={one && one.deleted_at === null && <AccountActions one={one} />}
    >
      <Loaded query={account}>{(found) => <Content one={found} />}</Loaded>
    </Page>
  );
}

function Content({ one }: { one: Account }): ReactNode {
  const { uid, deleted_at: deletedAt } = one;
  return (
    <Stack gap="md">
      {deletedAt !== null && (
        <Alert color="gray" variant="light">
          {text.deletedAbout} {text.deletedAt} <Ago at={deletedAt} />.
        </Alert>
      )}
      <PageTabs label={text.tabsLabel} tabs={Object.entries(text.tabs)}>
        <Tabs.Panel value="overview">
          <AccountSummary one={one} />
        </Tabs.Panel>
        <Tabs.Panel value="money">
          <AccountMoney uid={uid} />
          <Recorded />
        </Tabs.Panel>
        <Tabs.Panel value="limits">
          <AccountLimits uid={uid} />
        </Tabs.Panel>
        <Tabs.Panel value="deployments">
          <Section>
            <SeenDeployments account={uid} />
          </Section>
        </Tabs.Panel>
        <Tabs.Panel value="requests">
          <Section>
            <RequestList account={uid} />
          </Section>
        </Tabs.Panel>
        <Tabs.Panel value="audit">
          <Section>
            <AuditLog account={uid} />
          </Section>
        </Tabs.Panel>
        <Tabs.Panel value="keys">
          <Section>
            <AccountKeys uid={uid} />
          </Section>
          <Recorded />
        </Tabs.Panel>
      </PageTabs>
    </Stack>
  );
}

const Recorded = (): ReactNode => (
  <Text size="xs" c="dimmed" mt="sm">
    {text.recorded}
  </Text>
);
