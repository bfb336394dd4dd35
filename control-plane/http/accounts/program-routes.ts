import { Type } from "typebox";
import { fromUsd } from "../../../proto/money.ts";
import { unixSeconds } from "../../../proto/unix-seconds.ts";
import type { ApplicationRecord } from "../../accounts/applications.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { wireRecord } from "../core/wire-record.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import { Note, Page } from "../operator/operator-schemas.ts";
import type { AccountFeatures } from "./features.ts";

const words = (maxLength: number) => Type.String({ minLength: 1, maxLength });

/** Clients send the whole record: fields that Stoker sets are accepted and ignored. */
const ApplicationRequest = Type.Object({
  company: words(256),
  ceo: words(256),
  funding: words(256),
  founded_on: words(64),
  website: words(512),
  deal: Type.Optional(nullable.string({ maxLength: 512 })),
  id: Type.Optional(Type.Unknown({ description: "Ignored" })),
  uid: Type.Optional(Type.Unknown({ description: "Ignored" })),
  created_at: Type.Optional(Type.Unknown({ description: "Ignored" })),
  status: Type.Optional(Type.Unknown({ description: "Ignored" })),
});

const ApplicationBody = Type.Object({
  id: Type.String(),
  uid: Type.String(),
  email: Type.String(),
  company: Type.String(),
  ceo: Type.String(),
  funding: Type.String(),
  founded_on: Type.String(),
  website: Type.String(),
  deal: Type.String(),
  created_at: Type.Integer({ description: "Unix seconds" }),
  status: Type.String({ enum: ["pending", "approved", "rejected"] }),
  decided_at: nullable.integer({ description: "Unix seconds" }),
  decision_note: nullable.string({ description: "Note of the operator" }),
});

const Status = Type.Unsafe<"pending" | "approved" | "rejected">({
  type: "string",
  enum: ["pending", "approved", "rejected"],
});
const Approval = Type.Object({
  note: Note,
  credit_usd: Type.Optional(
    nullable.number({ minimum: 0, maximum: 1_000_000, description: "Credit granted with the approval" }),
  ),
});

export function addProgramRoutes(endpoints: Endpoints, { applications }: AccountFeatures): void {
  const own = endpoints.with({ tag: "billing", access: "key" });
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  own.post("/payment/program/application", {
    right: "changeMoney",
    summary: "Apply to the startup program",
    idempotent: true,
    body: ApplicationRequest,
    answer: ApplicationBody,
    refusals: [409],
    async handler({ caller, body: { company, ceo, funding, founded_on: foundedOn, website, deal } }) {
      const request = { company, ceo, funding, foundedOn, website, deal: deal ?? "" };
      return renderApplication(await applications.apply(caller.account, request));
    },
  });

  own.get("/payment/program/application", {
    right: "readMoney",
    summary: "Get the account's latest application",
    answer: ApplicationBody,
    refusals: [404],
    handler: async ({ caller }) => renderApplication(await applications.own(caller.account)),
  });

  admin.get("/v1/admin/program-applications", {
    summary: "List applications to the startup program, newest first",
    query: Type.Object({ status: Type.Optional(Status), ...Page }),
    answer: Type.Object({ applications: Type.Array(ApplicationBody), next_cursor: nullable.string() }),
    async handler({ query }) {
      const page = await applications.list(query.status, query.cursor, query.limit ?? 50);
      return { applications: page.applications.map(renderApplication), next_cursor: page.nextCursor };
    },
  });

  const decision = { answer: ApplicationBody, refusals: [404, 409] } as const;
  admin.post("/v1/admin/program-applications/:id/approve", {
    ...decision,
    summary: "Approve an application, optionally with credit",
    body: Approval,
    async handler({ caller, params, body, reply }) {
      const credit = fromUsd(body.credit_usd ?? 0);
      const act = actOf(caller, reply, body.note);
      return renderApplication(await applications.decide(params.id, { status: "approved", credit, act }));
    },
  });
  admin.post("/v1/admin/program-applications/:id/reject", {
    ...decision,
    summary: "Reject an application",
    body: Type.Object({ note: Note }),
    async handler({ caller, params, body, reply }) {
      const act = actOf(caller, reply, body.note);
      return renderApplication(await applications.decide(params.id, { status: "rejected", credit: fromUsd(0), act }));
    },
  });
}

const renderApplication = (one: ApplicationRecord) =>
  wireRecord(ApplicationBody, one, {
    uid: one.account,
    created_at: unixSeconds(one.createdAtMs),
    decided_at: one.decision && unixSeconds(one.decision.atMs),
    decision_note: one.decision?.note ?? null,
  });
