import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import { fromUsd } from "../../../proto/money.ts";
import { type SuspendReason, suspendReasons } from "../../../proto/suspend-reason.ts";
import { badRequest } from "../../service-error.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import {
  AccountList,
  AccountPatch,
  AdminAccount,
  CreditRequest,
  LiftRequest,
  Page,
  SuspendRequest,
  ViewState,
} from "../operator/operator-schemas.ts";
import { renderDetail, renderSummary } from "../operator/render-operator.ts";
import { NewAccount } from "./account-schemas.ts";
import type { AccountFeatures } from "./features.ts";

export function addAdminAccountRoutes(endpoints: Endpoints, { accounts, operator }: AccountFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.post("/v1/admin/accounts", {
    summary: "Create an account with credit and its first key",
    needsRecentSignIn: true,
    holdsSecrets: true,
    body: NewAccount,
    answer: Type.Object({ uid: Type.String(), api_key: Type.String({ description: "Shown once" }) }),
    refusals: [409],
    async handler({ caller, body, reply }) {
      const { account, apiKey } = await accounts.createAccount({
        email: body.email,
        displayName: body.display_name,
        creditNanoUsd: fromUsd(body.credit_usd ?? 0),
        isAdmin: false,
        act: actOf(caller, reply),
      });
      return { uid: account, api_key: apiKey };
    },
  });

  admin.get("/v1/admin/accounts", {
    summary: "List accounts with their funds and standing, newest first",
    query: Type.Object({
      query: Type.Optional(
        Type.String({ maxLength: 320, description: "Part of an e-mail address, a display name or a uid" }),
      ),
      suspended: Type.Optional(
        Type.Unsafe<SuspendReason | "any">({
          type: "string",
          enum: ["any", ...suspendReasons],
          description: "Accounts that are suspended for this reason, or for any",
        }),
      ),
      ...Page,
    }),
    answer: AccountList,
    async handler({ query: { query = "", suspended, cursor, limit } }) {
      const filter = { query, ...(suspended === undefined ? {} : { suspended }) };
      const { accounts, nextCursor } = await operator.accounts(filter, cursor, limit ?? 50);
      return { accounts: accounts.map(renderSummary), next_cursor: nextCursor };
    },
  });

  const one = { answer: AdminAccount };
  admin.get("/v1/admin/accounts/:uid", {
    ...one,
    summary: "Get an account: funds, keys, deployments, suspensions; also a deleted one",
    refusals: [404],
    handler: async ({ params }) => renderDetail(await operator.account(params.uid as AccountId)),
  });

  admin.patch("/v1/admin/accounts/:uid", {
    ...one,
    summary: "Change whether an account is an operator's or a team's, and whether it may use the tier `priority`",
    needsRecentSignIn: true,
    body: AccountPatch,
    refusals: [404, 409],
    async handler({ caller, params, body, reply }) {
      const change = {
        ...(typeof body.is_admin === "boolean" ? { isAdmin: body.is_admin } : {}),
        ...(typeof body.is_team_account === "boolean" ? { isTeamAccount: body.is_team_account } : {}),
        ...(typeof body.may_prioritize === "boolean" ? { mayPrioritize: body.may_prioritize } : {}),
      };
      const act = actOf(caller, reply, body.note ?? "");
      return renderDetail(await operator.changeAccount(params.uid as AccountId, change, act));
    },
  });

  admin.post("/v1/admin/accounts/:uid/views", {
    summary: "Record in the audit log that a view of the account in the console begins or ends",
    body: ViewState,
    refusals: [404],
    handler: ({ caller, params, body, reply }) =>
      operator.noteViewState(params.uid as AccountId, body.state, actOf(caller, reply, "")),
  });

  addAdminCreditRoutes(endpoints, operator);
}

function addAdminCreditRoutes(endpoints: Endpoints, operator: AccountFeatures["operator"]): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });
  const one = { answer: AdminAccount };

  admin.post("/v1/admin/accounts/:uid/credit", {
    ...one,
    summary: "Grant credit, or correct it; once per Idempotency-Key",
    body: CreditRequest,
    refusals: [400, 404, 409],
    async handler({ caller, params, body, reply }) {
      const account = params.uid as AccountId;
      const amount = fromUsd(body.amount_usd);
      const request = {
        account,
        amount,
        idempotencyKey: idempotencyKeyOf(reply),
        mayGoBelowZero: body.may_go_below_zero ?? false,
      };
      await operator.credit(request, actOf(caller, reply, body.note));
      return renderDetail(await operator.account(account));
    },
  });

  admin.post("/v1/admin/accounts/:uid/suspend", {
    ...one,
    summary: "Add a reason to suspend an account",
    body: SuspendRequest,
    refusals: [404, 409],
    async handler({ caller, params, body, reply }) {
      const account = params.uid as AccountId;
      await operator.suspend(account, body.reason ?? "admin", actOf(caller, reply, body.note));
      return renderDetail(await operator.account(account));
    },
  });

  admin.post("/v1/admin/accounts/:uid/lift", {
    ...one,
    summary: "Remove one reason of a suspension, or all",
    body: LiftRequest,
    refusals: [404, 409],
    async handler({ caller, params, body, reply }) {
      const account = params.uid as AccountId;
      await operator.lift(account, body.reason ?? undefined, actOf(caller, reply, body.note));
      return renderDetail(await operator.account(account));
    },
  });
}

/** The ledger stores the key with the grant, so a repetition is recognised without a time limit. */
function idempotencyKeyOf(reply: FastifyReply): string | undefined {
  const key = reply.request.headers["idempotency-key"];
  if (key === undefined || key === "") return undefined;
  if (typeof key !== "string" || !/^[\x21-\x7e]{1,255}$/.test(key))
    throw badRequest("bad_request", "Idempotency-Key must be 1 to 255 printable ASCII characters without spaces.");
  return key;
}
