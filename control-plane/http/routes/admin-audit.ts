import type { AccountId } from "../../../proto/ids.ts";
import type { Endpoints } from "../endpoint.ts";
import { BadTime } from "../errors.ts";
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
        ...(from === undefined ? {} : { fromMs: timeOf("from", from) }),
        ...(to === undefined ? {} : { toMs: timeOf("to", to) }),
      };
      const page = await operator.audit(filter, cursor, limit ?? 50);
      return { entries: page.records.map(renderAudit), next_cursor: page.nextCursor };
    },
  });
}

function timeOf(param: string, text: string): number {
  const ms = /^\d{1,11}$/.test(text) ? Number(text) * 1000 : Date.parse(text);
  if (Number.isNaN(ms)) throw new BadTime(param);
  return ms;
}
