import { Type } from "typebox";
import type { Incident } from "../../oversight/incidents.ts";
import { type IncidentKind, incidentKinds, type Severity } from "../../oversight/judge.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { isoTime } from "../deployments/render-deployment.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { OperatorFeatures } from "./features.ts";
import { Page } from "./operator-schemas.ts";

const severity = ["critical", "warning", "info"] as const;

const IncidentsQuery = Type.Object({
  state: Type.Optional(
    Type.Unsafe<"open" | "ended">({
      type: "string",
      enum: ["open", "ended"],
      default: "open",
      description: "open: the most severe first; ended: of the last 90 days, the last first",
    }),
  ),
  kind: Type.Optional(Type.Unsafe<IncidentKind>({ type: "string", enum: [...incidentKinds] })),
  severity: Type.Optional(Type.Unsafe<Severity>({ type: "string", enum: [...severity] })),
  ...Page,
});

const named = (description: string) =>
  Type.Union([Type.Object({ id: Type.String(), name: nullable.string() }), Type.Null()], { description });

const IncidentsPage = Type.Object({
  incidents: Type.Array(
    Type.Object({
      id: Type.String(),
      kind: Type.String({ enum: [...incidentKinds] }),
      severity: Type.String({ enum: [...severity] }),
      summary: Type.String({ description: "One sentence" }),
      advice: Type.String({ description: "What to do" }),
      runbook: Type.String({ description: "Section of the documentation: page#anchor" }),
      account: Type.Union([Type.Object({ uid: Type.String(), email: Type.String() }), Type.Null()]),
      deployment: named("name null: it was deleted"),
      node: named("Host; name null: it was removed"),
      gpu: nullable.string({ description: "UUID" }),
      began_at: Type.String({ description: "ISO 8601" }),
      ended_at: nullable.string({ description: "ISO 8601; null: it is open" }),
    }),
  ),
  next_cursor: nullable.string(),
  open: Type.Object(
    { critical: Type.Integer(), warning: Type.Integer(), info: Type.Integer() },
    { description: "Open incidents by severity, whatever the filter" },
  ),
});

const pageSize = 50;

export function addIncidentRoutes(endpoints: Endpoints, { incidents }: OperatorFeatures): void {
  endpoints.with({ tag: "operator", access: "admin" }).get("/v1/admin/incidents", {
    summary: "List incidents, open or ended: hosts, GPUs, deployments of all accounts, webhooks, money, backups",
    query: IncidentsQuery,
    answer: IncidentsPage,
    async handler({ query: { state = "open", kind, severity, cursor, limit } }) {
      const filter = { isOpen: state === "open", kind, severity };
      const { page, nextCursor, open } = await incidents.list(filter, cursor, limit ?? pageSize);
      return { incidents: page.map(rendered), next_cursor: nextCursor, open };
    },
  });
}

const rendered = ({ id, kind, severity, summary, advice, host, ...one }: Incident) => ({
  id: String(id),
  kind,
  severity,
  summary,
  advice,
  runbook: `operations/incidents#${kind.replaceAll("_", "-")}`,
  account: one.account,
  deployment: one.deployment,
  node: host,
  gpu: one.gpu,
  began_at: isoTime(one.beganAtMs),
  ended_at: one.endedAtMs === null ? null : isoTime(one.endedAtMs),
});
