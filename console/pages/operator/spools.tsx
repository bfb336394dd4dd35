// Usage that hosts have stored and the control plane has not acknowledged.
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import type { Query } from "../../api/hooks.ts";
import { text } from "../../text/operator-money.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { bytes, count, duration } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";

type Nodes = Responses["GET /v1/admin/nodes"];

export const nodesPath = "/v1/admin/nodes";

export interface Spooled {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly records: number;
  readonly bytes: number;
  readonly oldestSeconds: number;
}

/** Hosts that have unsent usage. */
export const spoolOf = (nodes: Nodes["nodes"]): readonly Spooled[] =>
  nodes.flatMap(({ node_id: id, name, state, usage_spool: spool }) =>
    spool && spool.records > 0
      ? [{ id, name, state, records: spool.records, bytes: spool.bytes, oldestSeconds: spool.oldest_age_seconds }]
      : [],
  );

export function Spools({ query }: { query: Query<Nodes> }): ReactNode {
  return (
    <Section about={text.spoolAbout}>
      <Loaded query={query}>
        {({ nodes }) => (
          <DataTable
            name="spools"
            id="spool-"
            rows={spoolOf(nodes)}
            columns={columns}
            keyOf={({ id }) => id}
            empty={text.spoolEmpty}
          />
        )}
      </Loaded>
    </Section>
  );
}

const columns: readonly Column<Spooled>[] = [
  {
    name: text.host,
    value: ({ name }) => name,
    show: ({ id, name }) => (
      <Link to={`/nodes/${encodeURIComponent(id)}`} inherit>
        {name}
      </Link>
    ),
  },
  { name: text.state, value: ({ state }) => state, show: ({ state }) => <Status of={state} /> },
  { name: text.records, value: ({ records }) => records, show: ({ records }) => count(records) },
  { name: text.size, value: (one) => one.bytes, show: (one) => bytes(one.bytes) },
  {
    name: text.oldest,
    value: ({ oldestSeconds }) => oldestSeconds,
    show: ({ oldestSeconds }) => duration(oldestSeconds * 1000),
  },
];
