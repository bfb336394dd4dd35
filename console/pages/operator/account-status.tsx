import { Badge, Group } from "@mantine/core";
import type { ReactNode } from "react";
import { text as common } from "../../text/operator.ts";
import { text } from "../../text/operator-accounts.ts";
import { usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";

export const fundsText = (funds: number | null): string => (funds === null ? common.noLimit : usd(funds));

/** `reason` null: in good standing. */
export function AccountStatus({ reason, size = "md" }: { reason: string | null; size?: "md" | "lg" }): ReactNode {
  return (
    <Badge color={reason === null ? "green" : "red"} variant="light" tt="none" size={size} className="status">
      <span aria-hidden="true">{reason === null ? "●" : "✕"}</span>{" "}
      {reason === null ? text.active : text.suspended(reason)}
    </Badge>
  );
}

interface RolesProps {
  readonly of: { readonly is_admin: boolean; readonly is_team_account: boolean; readonly may_prioritize: boolean };
}

export function Roles({ of }: RolesProps): ReactNode {
  const roles = [
    of.is_admin && text.operator,
    of.is_team_account && text.team,
    of.may_prioritize && text.priority,
  ].filter((role) => role !== false);
  return (
    <Group gap={4} display="inline-flex">
      {roles.map((role) => (
        <Badge key={role} color="gray" variant="outline" tt="none" size="sm" className="status">
          {role}
        </Badge>
      ))}
    </Group>
  );
}

/** Name of an account, with a link to its page. */
export function AccountLink({ uid, name, tab }: { uid: string; name?: string | undefined; tab?: string }): ReactNode {
  return (
    <Link to={`/accounts/${encodeURIComponent(uid)}${tab ? `?tab=${tab}` : ""}`} title={uid} inherit>
      {name || uid}
    </Link>
  );
}
