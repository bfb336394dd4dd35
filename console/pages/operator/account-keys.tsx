import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { text as all } from "../../text/operator-accounts.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Ago } from "../../ui/time.tsx";
import { asOwner } from "./account-path.ts";

const text = all.keys;

type Keys = Responses["GET /v1/api-tokens"];

export function AccountKeys({ uid }: { uid: string }): ReactNode {
  const keys = useGet<Keys>("/v1/api-tokens", { headers: asOwner(uid) });
  return (
    <Loaded query={keys}>
      {(rows) => (
        <DataTable
          name="keys"
          id="key-"
          rows={rows}
          columns={columns}
          keyOf={({ token_id: id }) => id}
          empty={text.empty}
        />
      )}
    </Loaded>
  );
}

const columns: readonly Column<Keys[number]>[] = [
  { name: text.name, value: (one) => one.name },
  { name: text.role, value: (one) => one.role },
  { name: text.ends, value: (one) => one.fragment, show: (one) => <code>…{one.fragment}</code> },
  { name: text.models, value: (one) => one.allowed_models?.join(", ") ?? text.any },
  { name: all.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
  { name: text.lastUsed, value: (one) => one.last_used_at, show: (one) => <Ago at={one.last_used_at} /> },
  { name: text.expires, value: (one) => one.expires_at, show: (one) => <Ago at={one.expires_at} /> },
];
