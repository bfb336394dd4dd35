import type { AccountId } from "../../../proto/ids.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { readTime } from "../core/read-time.ts";
import type { OperatorFeatures } from "./features.ts";
import { AuditPage, AuditQuery } from "./operator-schemas.ts";
import { renderAudit } from "./render-operator.ts";

export function addAdminAuditRoutes(endpoints: Endpoints, { audit }: OperatorFeatures): void {
  endpoints.add({
    method: "GET",
    path: "/v1/admin/audit",
    summary: "List audit log entries, newest first",
    tag: "operator",
    access: "admin",
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
