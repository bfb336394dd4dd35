// Deployments of every kind of all accounts, by the server's filters, which the address keeps.
import { Group, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { usePages } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { gpusText, instancesText, type Offer, reasonOf } from "../../domain/deployment.ts";
import { text } from "../../text/operator-deployments.ts";
import { Choice } from "../../ui/choice.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { FilterField, More } from "../../ui/filters.tsx";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { useOffers } from "../deployments/use-offers.ts";
import { AccountFilter } from "./account-choice.tsx";
import { AccountLink } from "./account-status.tsx";

type Listed = Responses["GET /v1/admin/deployments"];
export type Seen = Listed["deployments"][number];

export const deploymentsPath = "/v1/admin/deployments";

/** `account`: only of this one, as a part of its page. */
export function SeenDeployments({ account }: { account?: string }): ReactNode {
  const [kind, setKind] = useFilter("kind");
  const [status, setStatus] = useFilter("status");
  const [name] = useFilter("name");
  const [ownerFilter] = useFilter("account");
  const [node] = useFilter("node");
  const [gpu] = useFilter("gpu");
  const filter = { kind, status, name, account: account ?? ownerFilter, node, gpu, limit: "100" };
  const pages = usePages<Listed>(deploymentsPath, filter, { everyMs: 10_000 });
  const offers = useOffers();
  const filters = (
    <>
      <FilterField name="name" label={text.search} maxLength={200} isSearch />
      <Choice label={text.kind} options={text.kinds} value={kind} onChange={setKind} />
      <Choice label={text.status} options={text.statuses} value={status} onChange={setStatus} />
      {account === undefined && <AccountFilter name="account" aria-label={text.account} w={210} />}
      <FilterField name="node" label={text.node} maxLength={64} w={150} />
      <FilterField name="gpu" label={text.gpu} maxLength={64} w={150} />
    </>
  );
  return (
    <Loaded query={pages}>
      {({ pages: loaded }) => (
        <DataTable
          name="deployments"
          rows={loaded.flatMap(({ deployments }) => deployments)}
          columns={columnsWith(offers).filter((one) => account === undefined || one.name !== text.owner)}
          keyOf={({ deploy_id: id }) => id}
          isSearchedByServer
          filters={filters}
          empty={account === undefined || kind || status || name ? text.empty : text.noOwn}
          more={pages.hasNextPage && <More of={pages} />}
        />
      )}
    </Loaded>
  );
}

const columnsWith = (offers: readonly Offer[]): readonly Column<Seen>[] => [
  {
    name: text.name,
    value: (one) => one.model_name,
    show: (one) => (
      <>
        <Link to={`/all-deployments/${encodeURIComponent(one.deploy_id)}`} fw={600} inherit>
          {one.model_name || one.deploy_id}
        </Link>
        <Text size="xs" c="dimmed">
          {text.kindOf[one.kind]}
        </Text>
      </>
    ),
  },
  {
    name: text.owner,
    value: (one) => one.account.email,
    show: ({ account: { uid, display_name: name, email } }) => (
      <>
        <AccountLink uid={uid} name={name} />
        <Text size="xs" c="dimmed">
          {email}
        </Text>
      </>
    ),
  },
  { name: text.status, value: (one) => one.status, show: (one) => <Status of={one.status} /> },
  { name: text.instances, value: instancesText },
  { name: text.gpus, value: (one) => gpusText(one, offers) },
  {
    name: text.hosts,
    value: (one) =>
      hostsOf(one)
        .map(({ name }) => name)
        .join(" "),
    show: (one) =>
      hostsOf(one).length > 0 && (
        <Group gap={6} className="nowrap">
          {hostsOf(one).map(({ id, name }) => (
            <Link key={id} to={`/nodes/${encodeURIComponent(id)}`} inherit>
              {name}
            </Link>
          ))}
        </Group>
      ),
  },
  {
    name: text.reason,
    value: reasonOf,
    show: (one) =>
      reasonOf(one) && (
        <Text size="sm" lineClamp={3} maw={340} title={reasonOf(one)}>
          {reasonOf(one)}
        </Text>
      ),
  },
  { name: text.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
];

/** Each host once. */
const hostsOf = ({ hosts }: Seen): readonly { readonly id: string; readonly name: string }[] =>
  [...new Map(hosts.map(({ node_id: id, node_name: name }) => [id, name]))].map(([id, name]) => ({ id, name }));
