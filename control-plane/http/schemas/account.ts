import { type Static, Type } from "typebox";
import { nullable } from "./sampling.ts";

export const Checklist = Type.Object({
  payments_balance: Type.Number({ description: "USD; negative: funds ready to spend" }),
  recent: Type.Number({ description: "USD used since the most recent invoice" }),
  limit: nullable.number(),
  suspend_reason: nullable.string({
    enum: ["balance", "payment-method", "overdue-invoices", "limit-reached", "admin", "bad-cc", null],
  }),
  email: Type.Boolean(),
  billing_address: Type.Boolean(),
  payment_method: Type.Boolean(),
  suspended: Type.Boolean(),
  overdue_invoices: Type.Number(),
  last_checked: Type.Integer(),
  topup: Type.Boolean(),
  topup_amount: Type.Integer(),
  topup_threshold: Type.Integer(),
  topup_failed: Type.Boolean(),
});
export type Checklist = Static<typeof Checklist>;

export const AccountBody = Type.Object({
  uid: Type.String(),
  email: nullable.string(),
  email_verified: Type.Boolean(),
  account_setup: Type.Boolean(),
  require_email_verified: Type.Boolean(),
  display_name: Type.String(),
  provider: Type.String(),
  picture: nullable.string(),
  is_admin: Type.Boolean(),
  name: Type.String(),
  first_name: Type.String(),
  last_name: Type.String(),
  country: Type.String(),
  is_business_account: Type.Boolean(),
  company: Type.String(),
  website: Type.String(),
  title: Type.String(),
  is_team_account: Type.Boolean(),
  is_team_owner: Type.Boolean(),
  team_role: nullable.string(),
  team_display_name: nullable.string(),
  is_team_upgrade_enabled: Type.Boolean(),
  root_uid: Type.String(),
  checklist: Type.Union([Checklist, Type.Null()]),
});
export type AccountBody = Static<typeof AccountBody>;

const emailPattern = "^[^@\\s\\u0000]+@[^@\\s\\u0000]+$";
const displayNamePattern = "^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$";
/** PostgreSQL keeps no NUL. */
const words = (minLength: number, maxLength: number) =>
  Type.Optional(nullable.string({ minLength, maxLength, pattern: "^[^\\u0000]*$" }));

/** Every field optional; null says nothing. */
export const AccountChange = Type.Object({
  name: words(1, 256),
  first_name: words(1, 128),
  last_name: words(1, 128),
  country: words(1, 128),
  company: words(1, 128),
  title: words(1, 128),
  email: Type.Optional(nullable.string({ minLength: 1, maxLength: 320, pattern: emailPattern })),
  website: words(0, 128),
  is_business_account: Type.Optional(nullable.boolean()),
  display_name: Type.Optional(nullable.string({ minLength: 1, maxLength: 39, pattern: displayNamePattern })),
  use_case: words(1, 512),
  attribution: words(1, 512),
  marketing_emails: Type.Optional(nullable.boolean()),
  country_code: words(0, 128),
});

export const TeamName = Type.Object({
  display_name: Type.String({ minLength: 1, maxLength: 39, pattern: displayNamePattern }),
});

export const NewAccount = Type.Object({
  email: Type.String({ maxLength: 320, pattern: emailPattern }),
  display_name: Type.String({ minLength: 1, maxLength: 39, pattern: displayNamePattern }),
  credit_usd: Type.Optional(Type.Number({ minimum: 0, maximum: 1_000_000_000, default: 0 })),
});

const Interval = Type.Object({ fr: Type.Integer({ description: "Unix ms, inclusive" }), to: Type.Integer() });

export const UsageBody = Type.Object({
  initial_month: Type.String(),
  months: Type.Array(
    Type.Object({
      period: Type.String({ description: "YYYY.MM" }),
      interval: Interval,
      invoice_id: Type.String({ description: "NOT_FINAL while the month is open" }),
      total_cost: Type.Number({ description: "Cents" }),
      items: Type.Array(
        Type.Object({
          model: Type.Object({
            provider: Type.String(),
            model_name: Type.String(),
            task: Type.String(),
            plan_id: Type.String(),
            private: Type.Boolean(),
          }),
          units: Type.Number(),
          rate: Type.Number({ description: "Cents per unit" }),
          cost: Type.Number({ description: "Cents" }),
          pricing_type: Type.String(),
          interval: Interval,
          discount: Type.Object({ name: Type.String(), description: Type.String() }),
        }),
      ),
    }),
  ),
});
export type UsageBody = Static<typeof UsageBody>;
