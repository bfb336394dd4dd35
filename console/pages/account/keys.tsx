// API keys with what each may do, spends and last did; and the scoped tokens that they sign.
import { Code, Group, Progress, Skeleton, Stack, Text } from "@mantine/core";
import { lazy, type ReactNode, Suspense } from "react";
import { useApi } from "../../api/context.ts";
import { useGetAll, useRefresh } from "../../api/hooks.ts";
import {
  type Key,
  type KeyLimit,
  type KeyRow,
  keysPath,
  limitsPath,
  scopeOf,
  spentRatio,
  withLimits,
} from "../../domain/key-rules.ts";
import { text } from "../../text/keys.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { inUtc, percent, usd } from "../../ui/format.ts";
import { LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

const CreateKey = lazy(async () => ({ default: (await import("./key-form.tsx")).CreateKey }));
const ChangeKey = lazy(async () => ({ default: (await import("./key-form.tsx")).ChangeKey }));
const ScopedTokens = lazy(async () => ({ default: (await import("./scoped-tokens.tsx")).ScopedTokens }));

export function Keys(): ReactNode {
  const keys = useGetAll<[readonly Key[], readonly KeyLimit[]]>([keysPath, limitsPath], { everyMs: 30_000 });
  const create = (
    <Dialog label={text.create} variant="filled" size="sm">
      {(close) => (
        <Suspense fallback={<Skeleton height={320} />}>
          <CreateKey onDone={close} />
        </Suspense>
      )}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.about} actions={create}>
      <Loaded query={keys}>
        {([all, limits]) => (
          <Stack gap="lg">
            <DataTable
              name="keys"
              rows={withLimits(all, limits)}
              columns={columns}
              keyOf={({ token_id: id }) => id}
              empty={text.empty}
            />
            <Suspense fallback={<Skeleton height={320} />}>
              <ScopedTokens keys={all} />
            </Suspense>
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

const columns: readonly Column<KeyRow>[] = [
  {
    name: text.key,
    value: (key) => key.name,
    show: (key) => (
      <>
        <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
          {key.name}
        </Text>
        <Group gap={6}>
          <Code>{text.secretEnd(key.fragment)}</Code>
          <Text size="xs" c="dimmed">
            {text.createdAgo} <Ago at={key.created_at} />
          </Text>
        </Group>
      </>
    ),
  },
  {
    name: text.scope,
    value: scopeOf,
    show: (key) => (
      <Text size="sm" maw={320} lineClamp={3} title={scopeOf(key)}>
        {scopeOf(key)}
      </Text>
    ),
  },
  { name: text.budget, value: ({ spend }) => spend, show: (key) => <Budget of={key} /> },
  { name: text.lastUsed, value: (key) => key.last_used_at, show: (key) => <Ago at={key.last_used_at} /> },
  {
    name: text.expires,
    value: (key) => key.expires_at,
    show: (key) =>
      key.expires_at !== null && key.expires_at * 1000 <= Date.now() ? (
        <Text size="sm" c="red" title={inUtc(key.expires_at * 1000)}>
          {text.expired}
        </Text>
      ) : (
        <Ago at={key.expires_at} />
      ),
  },
  actionsColumn((key) => <Actions of={key} />),
];

function Budget({ of: key }: { of: KeyRow }): ReactNode {
  const ratio = spentRatio(key);
  if (key.limit === null || ratio === undefined)
    return (
      <>
        {usd(key.spend)}
        <Text size="xs" c="dimmed">
          {text.noLimit}
        </Text>
      </>
    );
  return (
    <Stack gap={4} miw={130}>
      <span>{key.limit === 0 ? text.blocked : text.ofLimit(usd(key.spend), usd(key.limit))}</span>
      <Progress
        value={100 * ratio}
        size="sm"
        color={ratio >= 1 ? "red" : ratio >= 0.8 ? "yellow" : "green"}
        aria-label={text.used(percent(ratio))}
      />
    </Stack>
  );
}

function Actions({ of: key }: { of: KeyRow }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Group gap="xs" className="row-actions">
      <LinkButton to={`/request-log?key=${encodeURIComponent(key.token_id)}`} size="xs" variant="default">
        {text.requests}
      </LinkButton>
      <Dialog label={text.change} title={text.changeTitle(key.name)}>
        {(close) => (
          <Suspense fallback={<Skeleton height={320} />}>
            <ChangeKey of={key} onDone={close} />
          </Suspense>
        )}
      </Dialog>
      <Act
        label={text.revoke}
        color="red"
        variant="light"
        command={`stoker token delete ${key.token_id}`}
        done={text.revoked}
        confirm={{ title: text.revokeTitle(key.name), body: text.revokeBody }}
        onAct={async () => {
          await api.call("DELETE", `${keysPath}/id/${encodeURIComponent(key.token_id)}`);
          await refresh(keysPath, limitsPath);
        }}
      />
    </Group>
  );
}
