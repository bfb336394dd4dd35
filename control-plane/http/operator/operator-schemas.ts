// The operator's surface, /v1/admin. Amounts in USD.
import { type Static, Type } from "typebox";
import { type SuspendReason, suspendReasons } from "../../../proto/suspend-reason.ts";
import { nullable } from "../inference/sampling-schemas.ts";

/** Why: it stands in the audit log. */
export const Note = Type.String({ minLength: 1, maxLength: 2_000, description: "Why; kept in the audit log" });
const reason = { enum: [...suspendReasons] };

export const Uid = Type.Object({ uid: Type.String() });

export const Page = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
  cursor: Type.Optional(Type.String({ maxLength: 64, description: "`next_cursor` of the page before" })),
};

export const AccountListed = Type.Object({
  uid: Type.String(),
  email: Type.String(),
  display_name: Type.String(),
  is_admin: Type.Boolean(),
  is_team_account: Type.Boolean(),
  suspended: Type.Boolean(),
  suspend_reason: nullable.string({ enum: [...reason.enum, null], description: "The gravest that holds" }),
  funds_usd: nullable.number({ description: "Left to spend; null: no limit" }),
  spent_usd: Type.Number({ description: "All that was ever spent" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
});

export const AccountList = Type.Object({
  accounts: Type.Array(AccountListed),
  next_cursor: nullable.string(),
});

export const AdminAccount = Type.Object({
  ...AccountListed.properties,
  deleted_at: nullable.integer({
    description:
      "Unix seconds; null: it is not deleted. Of a deleted one uid and money stay, and the uid is its address and name",
  }),
  credited_usd: nullable.number({ description: "Sum of its credits; null: no limit" }),
  keys: Type.Integer({ description: "Live ones" }),
  deployments: Type.Integer({ description: "Those not deleted" }),
  suspensions: Type.Array(
    Type.Object({
      reason: Type.String(reason),
      since: Type.Integer({ description: "Unix seconds" }),
      by: Type.String({ description: "uid, or system" }),
      note: Type.String(),
    }),
  ),
});
export type AdminAccount = Static<typeof AdminAccount>;

export const AccountPatch = Type.Object({
  is_admin: Type.Optional(nullable.boolean()),
  is_team_account: Type.Optional(nullable.boolean({ description: "false gives its team name back" })),
  note: Type.Optional(nullable.string({ maxLength: 2_000 })),
});

export const CreditRequest = Type.Object({
  amount_usd: Type.Number({ minimum: -1e9, maximum: 1e9, description: "Negative: a correction" }),
  note: Note,
  may_go_below_zero: Type.Optional(
    Type.Boolean({ default: false, description: "A correction may take more than is left" }),
  ),
});

export const SuspendRequest = Type.Object({
  reason: Type.Optional(Type.Unsafe<SuspendReason>({ type: "string", ...reason, default: "admin" })),
  note: Note,
});

export const LiftRequest = Type.Object({
  reason: Type.Optional(
    Type.Unsafe<SuspendReason | null>({
      type: ["string", "null"],
      enum: [...reason.enum, null],
      description: "null: all",
    }),
  ),
  note: Note,
});

const time = Type.String({ maxLength: 40, description: "Unix seconds, or ISO 8601 with offset" });
export const AuditQuery = Type.Object({
  account: Type.Optional(Type.String({ maxLength: 64, description: "Acts of this account or upon it" })),
  action: Type.Optional(Type.String({ maxLength: 64, description: "noun.verb, or the noun alone" })),
  from: Type.Optional(time),
  to: Type.Optional(time),
  ...Page,
});

export const AuditPage = Type.Object({
  entries: Type.Array(
    Type.Object({
      id: Type.String(),
      at: Type.String({ description: "ISO 8601" }),
      actor: Type.String({ description: "uid, or system" }),
      action: Type.String(),
      subject: Type.String(),
      account: nullable.string({ description: "Whose; null: the installation's" }),
      ip: Type.String(),
      before: Type.Unknown(),
      after: Type.Unknown(),
      note: Type.String(),
    }),
  ),
  next_cursor: nullable.string(),
});
