import { type Static, Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import { fromUsd, nano, toUsd } from "../../../proto/money.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { AccountName } from "../../accounts/operator.ts";
import type { Charge } from "../../billing/store.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { MoneyFeatures } from "./features.ts";
import { TermsBody, TermsChange, TopupDecision, TopupRequestBody } from "./paying-routes.ts";

const AdminTopupRequest = Type.Object({
  ...TopupRequestBody.properties,
  email: Type.String(),
  display_name: Type.String(),
});

export function addAdminBillingRoutes(endpoints: Endpoints, { paying, charges, operator }: MoneyFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/topup-requests", {
    summary: "List top-ups that wait for the operator, oldest first",
    answer: Type.Object({ requests: Type.Array(AdminTopupRequest) }),
    async handler() {
      const requests = await charges.requests();
      const names = await operator.names(requests.map(({ account }) => account));
      return { requests: requests.map((one) => renderRequest(one, names)) };
    },
  });

  for (const verb of ["fulfil", "reject"] as const) {
    admin.post(`/v1/admin/topup-requests/:request_id/${verb}`, {
      summary: verb === "fulfil" ? "Credit a top-up that was paid" : "Reject a top-up",
      body: TopupDecision,
      answer: AdminTopupRequest,
      refusals: [404, 409],
      async handler({ caller, params, body, reply }) {
        const decided = await charges[verb](params.request_id, actOf(caller, reply, body.note));
        return renderRequest(decided, await operator.names([decided.account]));
      },
    });
  }

  const terms = { answer: TermsBody };
  const read = async (account: AccountId) => {
    const { creditLine, dueDays, needsPaymentMethod } = await paying.terms(account);
    return { credit_line_usd: toUsd(nano(creditLine)), due_days: dueDays, needs_payment_method: needsPaymentMethod };
  };
  admin.get("/v1/admin/accounts/:uid/terms", {
    ...terms,
    summary: "Get the credit line and payment terms of an account",
    refusals: [404],
    handler: ({ params }) => read(params.uid as AccountId),
  });
  admin.post("/v1/admin/accounts/:uid/terms", {
    ...terms,
    summary: "Change the credit line and payment terms of an account",
    body: TermsChange,
    refusals: [404],
    async handler({ caller, params, body, reply }) {
      const account = params.uid as AccountId;
      const before = await paying.terms(account);
      const changed = {
        creditLine: body.credit_line_usd === undefined ? before.creditLine : fromUsd(body.credit_line_usd),
        dueDays: body.due_days ?? before.dueDays,
        needsPaymentMethod: body.needs_payment_method ?? before.needsPaymentMethod,
      };
      await paying.setTerms(account, changed, actOf(caller, reply, body.note));
      return read(account);
    },
  });
}

function renderRequest(charge: Charge, names: ReadonlyMap<AccountId, AccountName>): Static<typeof AdminTopupRequest> {
  const { email, displayName } = names.get(charge.account) ?? { email: charge.account, displayName: charge.account };
  return {
    id: charge.id,
    uid: charge.account,
    email,
    display_name: displayName,
    amount_usd: toUsd(nano(charge.amount)),
    state: charge.state,
    created_at: unixSeconds(charge.createdAtMs),
  };
}
