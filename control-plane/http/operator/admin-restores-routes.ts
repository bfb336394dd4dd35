import { Readable } from "node:stream";
import { type Static, Type } from "typebox";
import type { AccountId } from "../../../proto/ids.ts";
import { nano, toUsd } from "../../../proto/money.ts";
import type { NoticedRestore } from "../../fleet/store.ts";
import type { DatabaseBackup } from "../../oversight/store.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { readTime } from "../core/read-range.ts";
import type { OperatorFeatures } from "./features.ts";
import { AuditExportQuery, AuditPage, AuditQuery } from "./operator-schemas.ts";
import { renderAudit } from "./render-operator.ts";

export function addAdminAuditRoutes(endpoints: Endpoints, { audit, auditChain }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/audit", {
    summary: "List audit log entries, newest first",
    query: AuditQuery,
    answer: AuditPage,
    async handler({ query: { account, actor, action, from, to, cursor, limit } }) {
      const filter = {
        ...(account === undefined ? {} : { account: account as AccountId }),
        ...(actor === undefined ? {} : { actor }),
        ...(action === undefined ? {} : { action }),
        ...(from === undefined ? {} : { fromMs: readTime("from", from, "query") }),
        ...(to === undefined ? {} : { toMs: readTime("to", to, "query") }),
      };
      const page = await audit.read(filter, cursor, limit ?? 50);
      return { entries: page.records.map(renderAudit), next_cursor: page.nextCursor };
    },
  });

  admin.get("/v1/admin/audit/export", {
    summary:
      "Export the audit log as JSON lines, oldest first, with its chain of hashes; the last line says whether more follow",
    query: AuditExportQuery,
    answer: Type.Unsafe<unknown>({ contentMediaType: "application/x-ndjson" }),
    async handler({ query: { after, since, until, limit }, reply }) {
      const gone = new AbortController();
      reply.raw.once("close", () => gone.abort());
      const range = {
        after: after === undefined ? undefined : BigInt(after),
        sinceMs: since === undefined ? undefined : readTime("since", since, "query"),
        untilMs: until === undefined ? undefined : readTime("until", until, "query"),
        limit: limit ?? 100_000,
      };
      const lines = await auditChain.export(range, gone.signal);
      reply.headers({ "content-type": "application/x-ndjson", "cache-control": "no-store" });
      return Readable.from(lines, { objectMode: false });
    },
  });
}

const time = (description: string) => Type.String({ format: "date-time", description });
const orNull = <T extends Parameters<typeof Type.Union>[0][number]>(type: T) => Type.Union([type, Type.Null()]);

const ReportBody = Type.Object({
  hosts: Type.Integer({ description: "Hosts when it ended" }),
  missing_node_ids: Type.Array(Type.String(), { description: "Hosts that did not send all their records in time" }),
  resent_records: Type.Integer({
    description: "Records that hosts sent again, including those that were in the backup",
  }),
  recovered_records: Type.Integer({ description: "Records from before the restore that were settled after it" }),
  recovered_usd: Type.Number({ description: "Charge of the recovered records" }),
  lost_records_at_most: Type.Integer({
    description: "Records that hosts had dropped although they may be younger than the backup",
  }),
});

const RestoreBody = Type.Object({
  id: Type.String(),
  cause: Type.String({ description: "How the restore was noticed" }),
  began_at: time("When it was noticed"),
  ends_by: time("It ends at this time, even if hosts are still awaited"),
  ended_at: orNull(time("When every host had sent its records, or ends_by; null: the database needs to be reconciled")),
  awaited_hosts: Type.Array(Type.Object({ node_id: Type.String(), name: Type.String() }), {
    description: "Hosts whose usage records are still awaited",
  }),
  report: orNull(ReportBody),
});
type RestoreBody = Static<typeof RestoreBody>;

const RestoresBody = Type.Object({ restores: Type.Array(RestoreBody) });

const maxRestores = 20;

const BackupBody = Type.Object({
  file: Type.String(),
  taken_at: time("Moment of its content"),
  size_bytes: Type.Integer(),
  rows: Type.Integer({ description: "Rows of all tables" }),
  version: Type.String({ description: "Version of Stoker that created it" }),
  verified_at: orNull(time("Last trial restore that succeeded; null: none yet")),
});
const BackupsBody = Type.Object({
  last_taken_at: orNull(time("Moment of the newest backup; null: none is known")),
  last_verified_at: orNull(time("Last trial restore of any backup that succeeded; null: none")),
  backups: Type.Array(BackupBody),
});
type BackupsBody = Static<typeof BackupsBody>;

const maxBackups = 100;

export function addRestoreRoutes(endpoints: Endpoints, { backupNotes, restores }: OperatorFeatures): void {
  const admin = endpoints.with({ tag: "operator", access: "admin" });

  admin.get("/v1/admin/backups", {
    summary: "List backups of the control plane that succeeded, newest first, with their last trial restore",
    answer: BackupsBody,
    handler: async () => renderBackups(await backupNotes.list(maxBackups)),
  });

  admin.get("/v1/admin/restores", {
    summary: "List restores of the database, newest first, with awaited hosts and recovered usage",
    answer: RestoresBody,
    handler: async () => ({ restores: (await restores.list(maxRestores)).map(rendered) }),
  });
}

function renderBackups(backups: readonly DatabaseBackup[]): BackupsBody {
  const verified = backups.flatMap(({ verifiedAt }) => (verifiedAt ? [verifiedAt.toISOString()] : []));
  return {
    last_taken_at: backups[0]?.takenAt.toISOString() ?? null,
    last_verified_at: verified.toSorted().at(-1) ?? null,
    backups: backups.map((one) => ({
      file: one.file,
      taken_at: one.takenAt.toISOString(),
      size_bytes: one.sizeBytes,
      rows: one.rows,
      version: one.version,
      verified_at: one.verifiedAt?.toISOString() ?? null,
    })),
  };
}

const rendered = ({ report, ...one }: NoticedRestore): RestoreBody => ({
  id: one.id,
  cause: one.cause,
  began_at: one.beganAt.toISOString(),
  ends_by: one.endsBy.toISOString(),
  ended_at: one.endedAt?.toISOString() ?? null,
  awaited_hosts: one.awaited.map(({ host, name }) => ({ node_id: host, name })),
  report: report
    ? {
        hosts: report.hosts,
        missing_node_ids: [...report.missingHosts],
        resent_records: report.resent,
        recovered_records: report.recovered,
        recovered_usd: toUsd(nano(BigInt(report.recoveredCharge))),
        lost_records_at_most: report.lostAtMost,
      }
    : null,
});
