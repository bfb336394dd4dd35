import { type Static, Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

/** Maximum limit in USD. */
const maxUsd = 1_000_000_000;
/** Cents. */
const maxCents = 100_000_000;

export const BillingConfig = Type.Object({
  limit: Type.Number({ description: "USD per UTC month; negative: none" }),
});
export const BillingConfigRequest = Type.Object({
  limit: nullable.number({ maximum: maxUsd, description: "USD per UTC month; negative: none; null: unchanged" }),
});

export const KeyLimitRequest = Type.Object({
  token_id: Type.String(),
  limit: Type.Optional(nullable.number({ maximum: maxUsd, description: "USD per UTC month" })),
});
export const KeyLimits = Type.Array(
  Type.Object({
    token_id: Type.String(),
    name: Type.String(),
    limit: nullable.number({ description: "USD per UTC month; null: none; 0: blocked" }),
    spend: Type.Number({ description: "USD this month" }),
  }),
);

export const FundsRequest = Type.Object({
  amount: Type.Integer({ minimum: 100, maximum: maxCents, description: "Cents" }),
});
export const CheckoutUrl = Type.Object({ checkout_url: nullable.string() });
export const PortalUrl = Type.Object({ url: Type.String() });

export const TopupRequest = Type.Object({
  amount: Type.Optional(Type.Integer({ minimum: 0, maximum: maxCents, default: 0, description: "Cents" })),
  threshold: Type.Optional(Type.Integer({ minimum: 0, maximum: maxCents, default: 0, description: "Cents" })),
  enabled: Type.Optional(Type.Boolean({ default: true })),
});

export const RequestCostsQuestion = Type.Object({
  requestIds: Type.Array(Type.String({ maxLength: 512 }), { minItems: 1, maxItems: 1000 }),
});
export const RequestCosts = Type.Object({
  requests: Type.Array(Type.Object({ requestId: Type.String(), costNanoUsd: Type.Integer() })),
});

export const TermsBody = Type.Object({
  credit_line_usd: Type.Number({
    minimum: 0,
    maximum: maxUsd,
    description: "Amount that the account may owe; 0: prepaid",
  }),
  due_days: Type.Integer({ minimum: 0, maximum: 365 }),
  needs_payment_method: Type.Boolean(),
});
export const TermsChange = Type.Object({
  ...Type.Partial(TermsBody).properties,
  note: Type.String({ maxLength: 1024 }),
});

export const TopupRequestBody = Type.Object({
  id: Type.String(),
  uid: Type.String(),
  amount_usd: Type.Number(),
  state: Type.String({ enum: ["requested", "done", "failed"] }),
  created_at: Type.Integer({ description: "Unix seconds" }),
});
export type TopupRequestBody = Static<typeof TopupRequestBody>;
export const TopupDecision = Type.Object({ note: Type.String({ maxLength: 1024 }) });
