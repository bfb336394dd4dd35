import { type Static, Type } from "typebox";
import { fromUsd } from "../../../proto/money.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { Checklist } from "../money/payment-routes.ts";

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

export const emailPattern = "^[^@\\s\\u0000]+@[^@\\s\\u0000]+$";
export const displayNamePattern = "^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$";
/** `whose`: subject of the description. */
export const monthlyLimit = (whose: string) =>
  nullable.number({
    minimum: 0,
    maximum: 9_000_000_000,
    description: `USD that ${whose} may spend per UTC month; null: no limit; 0: blocked`,
  });

/** Nano-USD of a `monthly_limit`; undefined: not in the body. */
export const givenLimit = ({
  monthly_limit: usd,
}: {
  readonly monthly_limit?: number | null;
}): bigint | null | undefined => (typeof usd === "number" ? fromUsd(usd) : usd);

/** PostgreSQL cannot store a NUL character. */
const words = (minLength: number, maxLength: number) =>
  Type.Optional(nullable.string({ minLength, maxLength, pattern: "^[^\\u0000]*$" }));

/** Every field is optional; null leaves it unchanged. */
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
