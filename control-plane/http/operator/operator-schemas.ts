// The operator's surface, /v1/admin. Amounts in USD.
import { type Static, Type } from "typebox";
import { type SuspendReason, suspendReasons } from "../../../proto/suspend-reason.ts";
import { nullable } from "../inference/sampling-schemas.ts";

/** Reason for the audit log. */
export const Note = Type.String({ minLength: 1, maxLength: 2_000, description: "Reason; for the audit log" });
const reason = { enum: [...suspendReasons] };

export const Page = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
  cursor: Type.Optional(Type.String({ maxLength: 64, description: "`next_cursor` of the previous page" })),
};

export const AccountListed = Type.Object({
  uid: Type.String(),
  email: Type.String(),
  display_name: Type.String(),
  is_admin: Type.Boolean(),
  is_team_account: Type.Boolean(),
  may_prioritize: Type.Boolean({ description: "Its requests may have the service tier `priority`" }),
  suspended: Type.Boolean(),
  suspend_reason: nullable.string({ enum: [...reason.enum, null], description: "The most severe current reason" }),
  funds_usd: nullable.number({ description: "Left to spend; null: no limit" }),
  spent_usd: Type.Number({ description: "Total spent" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
});

export const AccountList = Type.Object({
  accounts: Type.Array(AccountListed),
  next_cursor: nullable.string(),
});

export const AdminAccount = Type.Object({
  ...AccountListed.properties,
  deleted_at: nullable.integer({
    description: "Unix seconds; null: not deleted. A deleted account keeps uid and money; address and name are its uid",
  }),
  credited_usd: nullable.number({ description: "Sum of credits; null: no limit" }),
  keys: Type.Integer({ description: "Valid keys" }),
  deployments: Type.Integer({ description: "Deployments that are not deleted" }),
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
  is_team_account: Type.Optional(nullable.boolean({ description: "false releases the team name" })),
  may_prioritize: Type.Optional(
    nullable.boolean({
      description: "Serve requests with `service_tier` `priority` before others, at that tier's price",
    }),
  ),
  note: Type.Optional(nullable.string({ maxLength: 2_000 })),
});

export const CreditRequest = Type.Object({
  amount_usd: Type.Number({ minimum: -1e9, maximum: 1e9, description: "Negative: a correction" }),
  note: Note,
  may_go_below_zero: Type.Optional(Type.Boolean({ default: false, description: "Allow a correction below zero" })),
});

export const SuspendRequest = Type.Object({
  reason: Type.Optional(Type.Unsafe<SuspendReason>({ type: "string", ...reason, default: "admin" })),
  note: Note,
});

export const ViewState = Type.Object({
  state: Type.Unsafe<"begin" | "end">({ type: "string", enum: ["begin", "end"] }),
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
  account: Type.Optional(Type.String({ maxLength: 64, description: "Entries whose actor or account is this account" })),
  actor: Type.Optional(Type.String({ maxLength: 64, description: "Entries by this account, or by `system`" })),
  action: Type.Optional(Type.String({ maxLength: 64, description: "noun.verb, or only the noun" })),
  from: Type.Optional(time),
  to: Type.Optional(time),
  ...Page,
});

export const AuditExportQuery = Type.Object({
  after: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: "Rows after this one; default: from the first",
    }),
  ),
  since: Type.Optional(
    Type.String({ maxLength: 64, description: "Rows that were sealed from this time on; Unix seconds or ISO 8601" }),
  ),
  until: Type.Optional(
    Type.String({ maxLength: 64, description: "Rows that were sealed before this time; Unix seconds or ISO 8601" }),
  ),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description: "Maximum number of rows; default 100,000. The last line says whether there are more",
    }),
  ),
});

export const AuditPage = Type.Object({
  entries: Type.Array(
    Type.Object({
      id: Type.String(),
      at: Type.String({ description: "ISO 8601" }),
      actor: Type.String({ description: "uid, or system" }),
      actor_email: nullable.string({
        description: "E-mail address, or the uid if the account was deleted. null: system",
      }),
      action: Type.String(),
      subject: Type.String({ description: "Id of the changed object" }),
      subject_name: nullable.string({
        description:
          "E-mail address of an account, or its uid if it was deleted; name of a deployment, key, host or project. null: another object, or one without a record",
      }),
      account: nullable.string({ description: "uid; null: the installation" }),
      account_email: nullable.string({ description: "E-mail address, or the uid if the account was deleted" }),
      ip: Type.String(),
      before: Type.Unknown(),
      after: Type.Unknown(),
      note: Type.String(),
    }),
  ),
  next_cursor: nullable.string(),
});
