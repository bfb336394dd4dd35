import { Group, Skeleton, Text } from "@mantine/core";
import { lazy, type ReactNode, Suspense } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useVisitor } from "../../app/visitor.ts";
import { type Alias, aliasPath, newAlias, targetsText } from "../../domain/aliases.ts";
import { text } from "../../text/aliases.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

const AliasEditor = lazy(async () => ({ default: (await import("./alias-form.tsx")).AliasEditor }));

const path = "/v1/model-aliases";

export function Aliases(): ReactNode {
  const { me } = useVisitor();
  const aliases = useGet<Responses["GET /v1/model-aliases"]>(path);
  const create = (
    <Dialog label={text.create} variant="filled" size="sm">
      {(close) => (
        <Suspense fallback={<Skeleton height={320} />}>
          <AliasEditor of={newAlias} onDone={close} />
        </Suspense>
      )}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.about} actions={create}>
      <Loaded query={aliases}>
        {({ aliases: rows }) => (
          <DataTable
            name="aliases"
            rows={rows}
            columns={[...columns, actionsColumn<Alias>((one) => <Actions of={one} isOperator={me.is_admin} />)]}
            keyOf={({ scope, name }) => `${scope} ${name}`}
            empty={text.empty}
          />
        )}
      </Loaded>
    </Page>
  );
}

const columns: readonly Column<Alias>[] = [
  {
    name: text.name,
    value: (one) => one.name,
    show: (one) => (
      <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
        {one.name}
      </Text>
    ),
  },
  { name: text.scope, value: (one) => text.scopes[one.scope] },
  { name: text.targets, value: (one) => targetsText(one.targets) },
  { name: text.fallbacks, value: (one) => one.fallbacks.join(", ") },
  { name: text.sticky, value: (one) => (one.sticky ? text.isSticky : text.notSticky), isMinor: true },
  { name: text.updated, value: (one) => one.updated_at, show: (one) => <Ago at={one.updated_at} /> },
];

function Actions({ of: one, isOperator }: { of: Alias; isOperator: boolean }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  // Those of the installation are the operator's.
  if (one.scope === "installation" && !isOperator) return null;
  return (
    <Group gap="xs" className="row-actions">
      <Dialog label={text.change} title={text.changeTitle(one.name)}>
        {(close) => (
          <Suspense fallback={<Skeleton height={320} />}>
            <AliasEditor of={one} isKnown onDone={close} />
          </Suspense>
        )}
      </Dialog>
      <Act
        label={text.delete}
        color="red"
        variant="light"
        command={`stoker model alias delete ${one.name}${one.scope === "installation" ? " --installation" : ""}`}
        done={text.deleted}
        confirm={{ title: text.deleteTitle(one.name), body: text.deleteBody }}
        onAct={async () => {
          await api.call("DELETE", aliasPath(one));
          await refresh(path);
        }}
      />
    </Group>
  );
}
