// Finished requests of one account, and failed ones of all, for operators.
import { Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet, usePages } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { firstTokenMs, inputText, inputUnits, outputText, outputUnits } from "../../domain/request-phases.ts";
import { text } from "../../text/operator-requests.ts";
import { Choice } from "../../ui/choice.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { FilterField, More } from "../../ui/filters.tsx";
import { duration, usdOfCents } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { RejectedList } from "../account/rejected-requests.tsx";
import { Outcome, outcomeText } from "../account/request-list.tsx";
import { AccountLink } from "./account-status.tsx";

type RequestPage = Responses["GET /v1/admin/requests"];
type Logged = RequestPage["requests"][number];

export function RequestList({ account }: { account: string }): ReactNode {
  const [from, setFrom] = useFilter("from");
  const [failed, setFailed] = useFilter("failed");
  const [model] = useFilter("model");
  const pages = usePages<RequestPage>(
    "/v1/admin/requests",
    { account, from, failed, model, limit: "100" },
    { next: afterLast },
  );
  return (
    <Loaded query={pages}>
      {({ pages: loaded }) => (
        <DataTable
          name="requests"
          rows={loaded.flatMap(({ requests }) => requests)}
          columns={columns}
          keyOf={({ request_id: id, attempt }) => `${id} ${attempt}`}
          isSearchedByServer
          filters={
            <>
              <Choice label={text.period} options={text.periods} value={from} onChange={setFrom} />
              <Choice label={text.outcomeFilter} options={text.outcomes} value={failed} onChange={setFailed} />
              <FilterField name="model" label={text.model} maxLength={256} />
            </>
          }
          empty={text.empty}
          more={pages.hasNextPage && <More of={pages} />}
        />
      )}
    </Loaded>
  );
}

/** Failed requests of all accounts. */
export function FailureList(): ReactNode {
  const [from, setFrom] = useFilter("from");
  const query = new URLSearchParams({ from: from || "now-1h", limit: "200" });
  const failures = useGet<RequestPage>(`/v1/admin/failed-requests?${query}`, { everyMs: 30_000 });
  return (
    <Section title={text.failures.title} about={text.failures.about}>
      <Loaded query={failures}>
        {({ requests, has_more: hasMore }) => (
          <>
            <DataTable
              name="failed-requests"
              rows={requests}
              columns={[...columns.slice(0, 2), accountColumn, ...columns.slice(2)]}
              keyOf={({ request_id: id, attempt }) => `${id} ${attempt}`}
              filters={<Choice label={text.period} options={text.failures.periods} value={from} onChange={setFrom} />}
              empty={text.failures.empty}
            />
            {hasMore && <Text size="sm">{text.failures.more}</Text>}
          </>
        )}
      </Loaded>
    </Section>
  );
}

interface RejectionsProps {
  /** Empty: of all accounts. */
  readonly account: string;
}

export function Rejections({ account }: RejectionsProps): ReactNode {
  const [from, setFrom] = useFilter("rejectedFrom");
  const query = new URLSearchParams({ from: from || "now-1h", ...(account !== "" && { account }) });
  return (
    <Section title={text.rejected.title} about={text.rejected.about}>
      <RejectedList
        path={`/v1/admin/rejected-requests?${query}`}
        folder="/any-request-log"
        keyNames={new Map()}
        filters={<Choice label={text.period} options={text.failures.periods} value={from} onChange={setFrom} />}
        isForOperators
      />
    </Section>
  );
}

const accountColumn: Column<Logged> = {
  name: text.failures.account,
  value: (one) => one.account_email ?? one.account,
  show: ({ account, account_email: email }) => <AccountLink uid={account} name={email ?? undefined} />,
};

function afterLast({ requests, has_more: hasMore }: RequestPage): readonly [string, string] | undefined {
  const last = requests.at(-1);
  return hasMore && last ? ["after", last.request_id] : undefined;
}

const columns: readonly Column<Logged>[] = [
  {
    name: text.request,
    value: (one) => one.request_id,
    show: ({ request_id: id }) => (
      <Link to={`/any-request-log/${encodeURIComponent(id)}`} inherit>
        <code>{id}</code>
      </Link>
    ),
  },
  {
    name: text.time,
    value: (one) => new Date(one.created_at * 1000).toISOString(),
    show: (one) => <Ago at={one.created_at} />,
  },
  { name: text.model, value: (one) => one.model },
  {
    name: text.outcome,
    value: outcomeText,
    show: (one) => <Outcome of={one} />,
  },
  {
    name: text.firstByte,
    value: firstTokenMs,
    show: (one) => {
      const first = firstTokenMs(one);
      return first === null ? "–" : duration(first);
    },
  },
  { name: text.total, value: (one) => one.total_ms, show: (one) => duration(one.total_ms) },
  { name: text.input, value: inputUnits, show: inputText },
  { name: text.output, value: outputUnits, show: outputText },
  { name: text.cost, value: (one) => one.cost / 100, show: (one) => usdOfCents(one.cost) },
];
