import { type Static, Type } from "typebox";
import { nullable } from "../inference/sampling-schemas.ts";

export const Checklist = Type.Object({
  payments_balance: Type.Number({ description: "USD; negative: funds ready to spend" }),
  recent: Type.Number({ description: "USD used since the most recent invoice" }),
  limit: nullable.number({ description: "USD per month; null: none" }),
  suspend_reason: nullable.string({
    enum: ["balance", "payment-method", "overdue-invoices", "limit-reached", "admin", "bad-cc", null],
  }),
  email: Type.Boolean(),
  billing_address: Type.Boolean(),
  payment_method: Type.Boolean(),
  suspended: Type.Boolean(),
  overdue_invoices: Type.Number(),
  last_checked: Type.Integer({ description: "Unix seconds; 0: never" }),
  topup: Type.Boolean(),
  topup_amount: Type.Integer({ description: "Cents" }),
  topup_threshold: Type.Integer({ description: "Cents" }),
  topup_failed: Type.Boolean(),
});
export type Checklist = Static<typeof Checklist>;

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

export const UsageByKeyBody = Type.Object({
  tokens: Type.Array(Type.Intersect([Type.Object({ token_id: Type.String(), name: Type.String() }), UsageBody])),
});
export type UsageByKeyBody = Static<typeof UsageByKeyBody>;

export const Period = Type.Object({
  from: Type.Optional(
    Type.String({ default: "current", description: "YYYY.MM, current, current(-N) or unix seconds" }),
  ),
  to: Type.Optional(Type.String({ description: "Same format; default: only the month of `from`" })),
});

export const InvoiceQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 10 })),
  starting_after: Type.Optional(Type.String({ description: "Id of the last invoice of the previous page" })),
  invoice_type: Type.Optional(Type.String({ description: "The only type is `usage`" })),
});

export const InvoiceList = Type.Object({
  invoices: Type.Array(
    Type.Object({
      id: Type.String(),
      status: Type.String({ enum: ["open", "paid", "overdue"] }),
      total: Type.Number({ description: "Cents" }),
      amount_due: Type.Number({ description: "Cents" }),
      created: Type.Integer({ description: "Unix seconds" }),
      due_date: Type.Integer({ description: "Unix seconds" }),
      period: Type.String({ description: "YYYY.MM" }),
      invoice_type: Type.String(),
      hosted_invoice_url: Type.String(),
      invoice_pdf: nullable.string(),
    }),
  ),
  has_more: Type.Boolean(),
  next_cursor: nullable.string({ description: "For `starting_after`" }),
});
export type InvoiceList = Static<typeof InvoiceList>;

export const Rent = Type.Object({
  id_to_duration: Type.Record(Type.String(), Type.Number({ description: "Seconds" })),
});
