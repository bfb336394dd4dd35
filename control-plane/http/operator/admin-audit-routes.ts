import type { AccountId } from "../../../proto/ids.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { readTime } from "../core/read-time.ts";
import type { OperatorFeatures } from "./features.ts";
import { AuditPage, AuditQuery } from "./operator-schemas.ts";
import { renderAudit } from "./render-operator.ts";

export function addAdminAuditRoutes(endpoints: Endpoints, { audit }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/audit", {
    summary: "List audit log entries, newest first",
    query: AuditQuery,
    answer: AuditPage,
    async handler({ query: { account, action, from, to, cursor, limit } }) {
      const filter = {
        ...(account === undefined ? {} : { account: account as AccountId }),
        ...(action === undefined ? {} : { action }),
        ...(from === undefined ? {} : { fromMs: readTime("from", from, "query") }),
        ...(to === undefined ? {} : { toMs: readTime("to", to, "query") }),
      };
      const page = await audit.read(filter, cursor, limit ?? 50);
      return { entries: page.records.map(renderAudit), next_cursor: page.nextCursor };
    },
  });
}
