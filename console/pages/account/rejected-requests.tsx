// Requests that ended with an error and without usage: their list, and the facts of one.
import { Alert, Stack, Text } from "@mantine/core";
import { IconTool } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { text as all } from "../../text/request-log.ts";
import { Below, type Column, DataTable } from "../../ui/data-table.tsx";
import { count, inUtc } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Section } from "../../ui/page.tsx";
import { AccountLink } from "../operator/account-status.tsx";
import { RequestCell } from "./request-cell.tsx";

/** The account is there for operators only. */
export type RejectedRequest = Responses["GET /v1/rejected-requests"]["requests"][number] & {
  readonly account?: string;
  readonly account_email?: string | null;
};

const text = all.rejected;
const maxRows = 200;

interface RejectedListProps {
  /** Path in the API, with its filters. */
  readonly path: string;
  /** Folder of the console's list. */
  readonly folder: string;
  readonly keyNames: ReadonlyMap<string, string>;
  readonly filters?: ReactNode;
  /** Lists the account of each. */
  readonly isForOperators?: boolean;
}

export function RejectedList({
  path,
  folder,
  keyNames,
  filters,
  isForOperators = false,
}: RejectedListProps): ReactNode {
  const found = useGet<{ readonly requests: readonly RejectedRequest[]; readonly has_more: boolean }>(
    `${path}${path.includes("?") ? "&" : "?"}limit=${maxRows}`,
  );
  return (
    <Loaded query={found}>
      {({ requests, has_more: hasMore }) => (
        <>
          <DataTable
            name="rejected requests"
            rows={requests}
            columns={isForOperators ? [accountColumn, ...columnsOf(keyNames, folder)] : columnsOf(keyNames, folder)}
            keyOf={(one) => one.request_id}
            filters={filters}
            empty={text.empty}
          />
          {hasMore && <Text size="sm">{text.more}</Text>}
        </>
      )}
    </Loaded>
  );
}

const accountColumn: Column<RejectedRequest> = {
  name: all.detail.account,
  value: (one) => one.account_email ?? one.account ?? "",
  show: ({ account, account_email: email }) =>
    account !== undefined && <AccountLink uid={account} name={email ?? undefined} />,
};

const columnsOf = (keyNames: ReadonlyMap<string, string>, folder: string): readonly Column<RejectedRequest>[] => {
  const keyOf = ({ token_id: key }: RejectedRequest) => (key === "" ? all.noKey : (keyNames.get(key) ?? key));
  return [
    {
      name: all.columns.request,
      value: (one) => one.request_id,
      show: (one) => <RequestCell of={one} folder={folder} />,
    },
    { name: all.columns.time, value: (one) => new Date(one.created_at * 1000).toISOString(), isHidden: true },
    {
      name: text.code,
      value: (one) => `${one.status} ${one.code}`,
      show: (one) => (
        <>
          {`${one.status} ${one.code}`}
          <Below>{one.path}</Below>
        </>
      ),
    },
    {
      name: all.columns.model,
      value: (one) => one.model,
      show: (one) => (
        <>
          {one.model || text.noModel}
          <Below>{one.token_id === "" ? all.noKey : all.keyOf(keyOf(one))}</Below>
        </>
      ),
    },
    { name: all.columns.key, value: keyOf, isHidden: true },
    { name: text.path, value: (one) => one.path, isHidden: true },
    { name: text.others, value: (one) => one.others, show: (one) => count(one.others), isMinor: true },
  ];
};

interface RejectionProps {
  readonly of: RejectedRequest;
  readonly keyName: string | undefined;
}

export function Rejection({ of: one, keyName }: RejectionProps): ReactNode {
  return (
    <Stack gap="md">
      <Alert variant="light" color="red" icon={<IconTool />} title={`${all.detail.status(one.status)}: ${one.code}`}>
        {text.noUsage}{" "}
        <a href={`/docs/errors#${one.code}`} target="_blank" rel="noreferrer">
          {text.explanation}
        </a>
      </Alert>
      <Section title={text.facts}>
        <Facts
          of={[
            one.account !== undefined && {
              label: all.detail.account,
              value: <AccountLink uid={one.account} name={one.account_email ?? undefined} />,
            },
            { label: all.columns.model, value: one.model === "" ? text.noModel : one.model },
            { label: all.columns.key, value: one.token_id === "" ? all.noKey : (keyName ?? one.token_id) },
            { label: text.path, value: <code>{one.path}</code> },
            { label: all.detail.accepted, value: inUtc(one.created_at * 1000) },
            one.client_request_id !== null && { label: text.clientId, value: one.client_request_id },
            one.others > 0 && { label: text.others, value: text.like(count(one.others)) },
          ]}
        />
      </Section>
    </Stack>
  );
}
