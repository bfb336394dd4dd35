import type { AccountId } from "../../../proto/ids.ts";
import type { Endpoints } from "../endpoint.ts";
import { readTime } from "../read-time.ts";
import { renderAudit } from "../render-operator.ts";
import { AuditPage, AuditQuery } from "../schemas/operator.ts";
import type { HttpDeps } from "../verbs.ts";

export function addAdminAuditRoutes(endpoints: Endpoints, { operator }: Pick<HttpDeps, "operator">): void {
  endpoints.add({
    method: "GET",
    path: "/v1/admin/audit",
    summary: "Who did what to whom, when and from where; newest first",
    tag: "operator",
    access: "admin",
    query: AuditQuery,
    answer: AuditPage,
    refusals: [503],
    async handler({ query: { account, action, from, to, cursor, limit } }) {
      const filter = {
        ...(account === undefined ? {} : { account: account as AccountId }),
        ...(action === undefined ? {} : { action }),
        ...(from === undefined ? {} : { fromMs: readTime("from", from) }),
        ...(to === undefined ? {} : { toMs: readTime("to", to) }),
      };
      const page = await operator.audit(filter, cursor, limit ?? 50);
      return { entries: page.records.map(renderAudit), next_cursor: page.nextCursor };
    },
  });
}
