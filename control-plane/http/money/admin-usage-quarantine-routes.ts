import { type Static, Type } from "typebox";
import type { HostId } from "../../../proto/ids.ts";
import type { Quarantined } from "../../billing/store.ts";
import { actOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { MoneyFeatures } from "./features.ts";

const note = Type.String({ maxLength: 1024, description: "Kept in the audit log" });

const QuarantineQuery = Type.Object({
  host_id: Type.Optional(Type.String({ maxLength: 64 })),
  cursor: Type.Optional(Type.String({ maxLength: 18, pattern: "^\\d{1,18}$" })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200 })),
});

const QuarantinedBody = Type.Object({
  id: Type.String(),
  host_id: Type.String({ description: "Host that sent the record; empty: unknown" }),
  request_id: Type.String({ description: "Id sent by the host" }),
  attempt: Type.Integer(),
  problem: Type.String({
    description:
      "unsealed, bad_seal, unknown_key, other_host, malformed, refused_value, expired, unknown_instance or outside_life: see the operator's guide",
  }),
  why: Type.String(),
  record: Type.String({ description: "JSON, as the host sent it" }),
  at: Type.String({ format: "date-time" }),
});
type QuarantinedBody = Static<typeof QuarantinedBody>;

const QuarantinePageBody = Type.Object({
  hosts: Type.Array(
    Type.Object({
      host_id: Type.String(),
      open: Type.Integer({ description: "Records that wait for an operator" }),
      dropped: Type.Integer({
        description: "Records dropped because the host had reached the maximum",
      }),
    }),
  ),
  records: Type.Array(QuarantinedBody),
  next_cursor: Type.Union([Type.String(), Type.Null()]),
});

const QuarantinedId = Type.Object({ record_id: Type.String({ pattern: "^\\d{1,18}$" }) });
const QuarantineDecision = Type.Object({ note });
const QuarantineHostDecision = Type.Object({ host_id: Type.String({ maxLength: 64 }), note });
const DiscardedBody = Type.Object({ discarded: Type.Integer() });
const path = "/v1/admin/usage-quarantine";

export function addUsageQuarantineRoutes(endpoints: Endpoints, { usageQuarantine: desk }: MoneyFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get(path, {
    summary: "List quarantined usage records, oldest first, and their hosts",
    query: QuarantineQuery,
    answer: QuarantinePageBody,
    async handler({ query: { host_id, cursor, limit } }) {
      const page = await desk.list(host_id as HostId | undefined, BigInt(cursor ?? 0), limit ?? 50);
      return {
        hosts: page.hosts.map(({ host, open, dropped }) => ({ host_id: host, open, dropped })),
        records: page.records.map(rendered),
        next_cursor: page.next === undefined ? null : String(page.next),
      };
    },
  });

  for (const verb of ["release", "discard"] as const) {
    admin.post(`${path}/:record_id/${verb}`, {
      summary:
        verb === "release"
          ? "Bill a quarantined record as its ticket says"
          : "Discard a quarantined record: it bills nothing",
      params: QuarantinedId,
      body: QuarantineDecision,
      answer: QuarantinedBody,
      refusals: verb === "release" ? [404, 409] : [404],
      handler: async ({ caller, params, body, reply }) =>
        rendered(await desk[verb](BigInt(params.record_id), actOf(caller, reply, body.note))),
    });
  }

  admin.post(`${path}/discard`, {
    summary: "Discard all quarantined records of a host",
    body: QuarantineHostDecision,
    answer: DiscardedBody,
    handler: async ({ caller, body, reply }) => ({
      discarded: await desk.discardHost(body.host_id as HostId, actOf(caller, reply, body.note)),
    }),
  });
}

const rendered = (one: Quarantined): QuarantinedBody => ({
  id: String(one.id),
  host_id: one.host,
  request_id: one.requestId,
  attempt: one.attempt,
  problem: one.problem,
  why: one.why,
  record: one.record,
  at: one.at.toISOString(),
});
