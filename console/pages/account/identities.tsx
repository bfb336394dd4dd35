// Identity providers that sign in to this account.
import { Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGetAll, useRefresh } from "../../api/hooks.ts";
import { text } from "../../text/security.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";

type Own = Responses["GET /v1/me/identities"];
type Identity = Own["identities"][number];
type Offered = Responses["GET /v1/auth/providers"];

const path = "/v1/me/identities";

export function Identities(): ReactNode {
  const query = useGetAll<[Own, Offered]>([path, "/v1/auth/providers"]);
  // Most servers have no provider.
  if (query.data?.every((part) => Object.values(part).flat().length === 0)) return null;
  return (
    <Section title={text.identities.title} about={text.identities.about}>
      <Loaded query={query}>
        {([{ identities }, { providers }]) => (
          <>
            <DataTable
              name="identities"
              rows={identities}
              columns={columns}
              keyOf={({ id }) => id}
              empty={text.identities.empty}
            />
            <Group gap="sm">
              {providers.map(({ id, name }) => (
                <Link key={id} id={id} name={name} />
              ))}
            </Group>
          </>
        )}
      </Loaded>
    </Section>
  );
}

const columns: readonly Column<Identity>[] = [
  {
    name: text.identities.provider,
    value: (one) => one.provider_name,
    show: (one) => (
      <Group gap="xs">
        <Text size="sm">{one.provider_name}</Text>
        {one.is_managed && <Status of={text.identities.managed} />}
      </Group>
    ),
  },
  { name: text.identities.address, value: ({ email }) => email },
  {
    name: text.identities.lastUsed,
    value: (one) => one.last_used_at ?? 0,
    show: (one) => (one.last_used_at === null ? "–" : <Ago at={one.last_used_at} />),
  },
  actionsColumn((one) => <Unlink of={one} />),
];

function Link({ id, name }: { id: string; name: string }): ReactNode {
  const api = useApi();
  return (
    <Act
      label={text.identities.link(name)}
      size="sm"
      onAct={async () => {
        const { url } = await api.call<{ url: string }>("POST", path, { provider_id: id });
        location.assign(url);
      }}
    />
  );
}

function Unlink({ of: { id, provider_name: name, is_managed: isManaged } }: { of: Identity }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  if (isManaged) return null;
  return (
    <Act
      label={text.identities.unlink}
      confirm={{ title: text.identities.unlinkTitle(name), body: text.identities.unlinkBody }}
      done={text.identities.unlinked}
      onAct={async () => {
        await api.call("DELETE", `${path}/${encodeURIComponent(id)}`);
        await refresh(path);
      }}
    />
  );
}
