import { type Static, Type } from "typebox";
import type { KeyId } from "../../../proto/ids.ts";
import { fromUsd, nano, toUsd } from "../../../proto/money.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { Caller } from "../../accounts/caller.ts";
import { renderAlert } from "../../billing/limit-alerts.ts";
import type { Payment } from "../../billing/store.ts";
import { badRequest } from "../../service-error.ts";
import { largeBodyBytes } from "../body/json-body.ts";
import { actOf, originOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { withoutQuery } from "../files/webhooks-routes.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { MoneyFeatures } from "./features.ts";
import { cents } from "./payment-routes.ts";

/** Maximum limit in USD. */
const maxUsd = 1_000_000_000;
/** Cents. */
const maxCents = 100_000_000;

const BillingConfig = Type.Object({
  limit: Type.Number({ description: "USD per UTC month; negative: none" }),
  webhook: nullable.string({
    description:
      "URL that receives alerts of limits; null: none. Without its query for an operator who acts as the account",
  }),
  alert_mail: Type.Boolean({
    description: "Alerts of limits are mailed to the account's address, once it is verified",
  }),
  sends_mail: Type.Boolean({ description: "The operator of this server set a mail server" }),
  invoice_address: Type.String({ description: "Lines that invoices print below the buyer's name" }),
});
const BillingConfigRequest = Type.Object({
  limit: nullable.number({ maximum: maxUsd, description: "USD per UTC month; negative: none; null: unchanged" }),
  webhook: Type.Optional(
    nullable.string({
      maxLength: 2048,
      pattern: "^[^\\u0000]*$",
      description: "URL that receives alerts of limits; empty: none; null: unchanged",
    }),
  ),
  alert_mail: Type.Optional(nullable.boolean({ description: "Mail alerts of limits; null: unchanged" })),
  invoice_address: Type.Optional(
    nullable.string({
      maxLength: 500,
      pattern: "^[^\\u0000]*$",
      description: "Lines that invoices print below the buyer's name; null: unchanged",
    }),
  ),
});

const LimitAlertsQuery = Type.Object({ limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })) });
const LimitAlertsBody = Type.Object({
  alerts: Type.Array(
    Type.Object({
      scope: Type.String({ enum: ["account", "project", "key"] }),
      token_id: nullable.string({ description: "Key whose limit it is" }),
      project_id: nullable.string({ description: "Project whose limit it is" }),
      name: nullable.string({ description: "Name of the key or project" }),
      period: Type.String({ description: "YYYY.MM" }),
      percent: Type.Integer({ description: "Part of the limit that was spent: 50, 80 or 100" }),
      limit: Type.Number({ description: "USD, at that time" }),
      spend: Type.Number({ description: "USD, at that time" }),
      created_at: Type.Integer({ description: "Unix seconds" }),
      webhook_id: nullable.string({ description: "Delivery of its webhook call; null: no URL was set" }),
      mail: nullable.string({ enum: ["pending", "sent", "failed"], description: "State of its mail; null: none" }),
    }),
  ),
});

const KeyLimitRequest = Type.Object({
  token_id: Type.String(),
  limit: Type.Optional(nullable.number({ maximum: maxUsd, description: "USD per UTC month" })),
});
const KeyLimits = Type.Array(
  Type.Object({
    token_id: Type.String(),
    name: Type.String(),
    limit: nullable.number({ description: "USD per UTC month; null: none; 0: blocked" }),
    spend: Type.Number({ description: "USD this month" }),
  }),
);

const FundsRequest = Type.Object({
  amount: Type.Integer({ minimum: 100, maximum: maxCents, description: "Cents" }),
});
const FundsQuery = Type.Object({ limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })) });
const FundsBody = Type.Object({
  provider: Type.String({
    enum: ["manual", "stripe"],
    description: "manual: the operator credits payments; stripe: customers pay on a page",
  }),
  payments: Type.Array(
    Type.Object({
      id: Type.String(),
      kind: Type.String({ enum: ["topup", "credit", "correction"] }),
      amount: Type.Number({ description: "Cents; negative only for a correction" }),
      status: Type.String({
        enum: ["requested", "charging", "done", "failed"],
        description:
          "requested: waits for the operator; charging: waits for the payment provider; done: part of the funds",
      }),
      error_message: nullable.string({ description: "Why it failed" }),
      created_at: Type.Integer({ description: "Unix seconds" }),
    }),
  ),
});
const CheckoutUrl = Type.Object({ checkout_url: nullable.string() });
const PortalUrl = Type.Object({ url: Type.String() });

const TopupRequest = Type.Object({
  amount: Type.Optional(Type.Integer({ minimum: 0, maximum: maxCents, default: 0, description: "Cents" })),
  threshold: Type.Optional(Type.Integer({ minimum: 0, maximum: maxCents, default: 0, description: "Cents" })),
  enabled: Type.Optional(Type.Boolean({ default: true })),
});

const RequestCostsQuestion = Type.Object({
  requestIds: Type.Array(Type.String({ maxLength: 512 }), { minItems: 1, maxItems: 1000 }),
});
const RequestCosts = Type.Object({
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

const centsToNano = (cents: number) => BigInt(cents) * 10_000_000n;
const usdOrNone = (limit: bigint | null) => (limit === null ? -1 : toUsd(nano(limit)));

export function addPayingRoutes(endpoints: Endpoints, deps: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const { limits, paying } = deps;
  const configOf = async ({ account, operator }: Caller) => {
    const { alertUrl, alertMail, invoiceAddress } = await paying.settings(account);
    return {
      limit: usdOrNone(await limits.ofAccount(account)),
      webhook: alertUrl !== null && operator !== undefined ? withoutQuery(alertUrl) : alertUrl,
      alert_mail: alertMail,
      sends_mail: deps.mailServer !== undefined,
      invoice_address: invoiceAddress,
    };
  };

  own.get("/payment/config", {
    right: "readMoney",
    isOpenToOperators: true,
    summary: "Get the account's monthly limit, the URL of its alerts, and its address on invoices",
    answer: BillingConfig,
    handler: ({ caller }) => configOf(caller),
  });

  own.post("/payment/config", {
    right: "changeMoney",
    summary: "Set the account's monthly limit, the URL of its alerts, and its address on invoices",
    body: BillingConfigRequest,
    answer: BillingConfig,
    refusals: [400],
    async handler({ caller, body, reply }) {
      const { account } = caller;
      const { limit, webhook, alert_mail: isMailed, invoice_address: address } = body;
      const target = webhook ? await deps.webhooks.check(webhook) : null;
      const by = actOf(caller, reply);
      if (typeof limit === "number") await limits.setAccount(account, limit < 0 ? null : fromUsd(limit), by);
      if (typeof webhook === "string") await paying.setAlertTarget(account, target, by);
      if (typeof isMailed === "boolean") await paying.setAlertMail(account, isMailed, by);
      if (typeof address === "string") await paying.setInvoiceAddress(account, address.trim(), by);
      return configOf(caller);
    },
  });

  own.get("/payment/limit-alerts", {
    right: "readMoney",
    isOpenToOperators: true,
    summary:
      "List alerts of monthly limits, newest first: 50, 80 and 100 % of the limit of the account, a project or a key",
    query: LimitAlertsQuery,
    answer: LimitAlertsBody,
    async handler({ caller, query }) {
      const alerts = await deps.limitAlerts.list(caller.account, query.limit ?? 20);
      return { alerts: alerts.map((one) => ({ ...renderAlert(one), webhook_id: one.webhookId, mail: one.mail })) };
    },
  });

  own.get("/payment/key-limits", {
    right: "readMoney",
    isOpenToOperators: true,
    summary: "List monthly limit and spend of each API key",
    answer: KeyLimits,
    handler: async ({ caller }) => renderLimits(await limits.ofKeys(caller.account)),
  });

  own.post("/payment/key-limits", {
    right: "changeMoney",
    summary: "Set the monthly limit of a key; null or negative: none, 0: blocked",
    body: KeyLimitRequest,
    answer: KeyLimits,
    refusals: [404],
    async handler({ caller, body, reply }) {
      const limit = typeof body.limit !== "number" || body.limit < 0 ? null : fromUsd(body.limit);
      await limits.setKey(caller.account, body.token_id as KeyId, limit, actOf(caller, reply));
      return renderLimits(await limits.ofKeys(caller.account));
    },
  });

  addFundsRoutes(endpoints, deps);
}

function addFundsRoutes(endpoints: Endpoints, { paying, charges, publicUrl }: MoneyFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const open = endpoints.with({ tag: "billing", access: "public" });

  own.get("/payment/funds", {
    right: "readMoney",
    isOpenToOperators: true,
    summary: "List top-ups that wait or failed, and credits, newest first",
    query: FundsQuery,
    answer: FundsBody,
    async handler({ caller, query }) {
      const payments = await charges.payments(caller.account, query.limit ?? 20);
      return { provider: paying.providerName, payments: payments.map(renderPayment) };
    },
  });

  own.post("/payment/funds", {
    right: "changeMoney",
    summary: "Add funds: returns a payment page, or null after a request to the operator",
    idempotent: true,
    body: FundsRequest,
    answer: CheckoutUrl,
    refusals: [404, 409],
    holdsSecrets: true,
    async handler({ caller, body, reply }) {
      const page = `${originOf(publicUrl, reply.request)}/console/billing`;
      return { checkout_url: await paying.addFunds(caller.account, body.amount, page) };
    },
  });

  own.post("/payment/topup", {
    right: "changeMoney",
    summary: "Charge an amount whenever the funds fall below a threshold",
    body: TopupRequest,
    async handler({ caller, body, reply }) {
      const amount = centsToNano(body.amount ?? 0);
      const topup = { amount, threshold: centsToNano(body.threshold ?? 0), isOn: body.enabled ?? true };
      await paying.setTopup(caller.account, topup, actOf(caller, reply));
    },
  });

  own.get("/payment/billing-portal", {
    right: "changeMoney",
    summary: "Get the page where card and address are changed",
    query: Type.Object({ return_url: Type.Optional(Type.String({ maxLength: 2048, pattern: "^https?://[!-~]+$" })) }),
    answer: PortalUrl,
    refusals: [404],
    holdsSecrets: true,
    async handler({ caller, query, reply }) {
      const own = `${originOf(publicUrl, reply.request)}/console/billing`;
      // Without a provider the portal is our own page; never redirect to another site.
      const back = paying.providerName === "manual" ? own : (query.return_url ?? own);
      return { url: await paying.portal(caller.account, back) };
    },
  });

  own.post("/v1/request-costs", {
    right: "readUsage",
    summary: "Get the cost of requests; unknown and unsettled ones are omitted",
    bodyLimitBytes: largeBodyBytes,
    body: RequestCostsQuestion,
    answer: RequestCosts,
    async handler({ caller, body }) {
      const costs = await paying.requestCosts(caller.account, body.requestIds);
      const found = [...new Set(body.requestIds)].flatMap((requestId) => {
        const cost = costs.get(requestId);
        return cost === undefined ? [] : [{ requestId, costNanoUsd: Number(cost) }];
      });
      return { requests: found };
    },
  });

  open.post("/payment/stripe/webhook", {
    bodyLimitBytes: largeBodyBytes,
    summary: "Receive signed events of Stripe",
    answer: Type.Object({ received: Type.Boolean() }),
    refusals: [400, 404],
    async handler({ reply }) {
      const { readBody, headers } = reply.request;
      if (!readBody) throw badRequest("bad_request", "The event is empty.");
      await paying.takeEvent(readBody.bytes, String(headers["stripe-signature"] ?? ""));
      return { received: true };
    },
  });
}

const renderPayment = ({ id, kind, amount, state, why, createdAtMs }: Payment) => ({
  id,
  kind,
  amount: cents(nano(amount)),
  status: state,
  error_message: why === "" ? null : why,
  created_at: unixSeconds(createdAtMs),
});

function renderLimits(limits: Awaited<ReturnType<MoneyFeatures["limits"]["ofKeys"]>>) {
  return limits.map(({ key, name, limit, spent }) => ({
    token_id: key,
    name,
    limit: limit === null ? null : toUsd(nano(limit)),
    spend: toUsd(nano(spent)),
  }));
}
