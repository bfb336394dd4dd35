import { sql } from "kysely";
import type { KekStore } from "../../accounts/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import { asked } from "./outage.ts";
import { findsRow } from "./rows.ts";
import type { Db, Trx } from "./schema.ts";
import { now } from "./time.ts";

/** Shared while an account is created; exclusive when a version comes into use. */
const kekLock = 7_205_004;

/** Sealed ticket keys begin with their version (wiring/seals.ts). */
const versionPrefix = (version: number): Buffer => {
  const prefix = Buffer.alloc(4);
  prefix.writeUInt32BE(version);
  return prefix;
};

/** Columns of the sealed bytes, and the rows that an older version sealed. */
const sealedColumns = {
  "data keys": {
    table: sql`account`,
    id: sql.ref("accountId"),
    sealed: sql.ref("wrappedDek"),
    below: (version: number) => sql`kek_version < ${version}`,
    set: (version: number) => sql`wrapped_dek = u.resealed, kek_version = ${version}`,
  },
  "ticket keys": {
    table: sql`host`,
    id: sql.ref("hostId"),
    sealed: sql.ref("ticketKey"),
    below: (version: number) => sql`substring(ticket_key from 1 for 4) < ${versionPrefix(version)}::bytea`,
    set: () => sql`ticket_key = u.resealed`,
  },
  "authority keys": {
    table: sql`node_authority`,
    id: sql.ref("name"),
    sealed: sql.ref("sealedKey"),
    below: (version: number) => sql`substring(sealed_key from 1 for 4) < ${versionPrefix(version)}::bytea`,
    set: () => sql`sealed_key = u.resealed`,
  },
  "provider secrets": {
    table: sql`identity_provider`,
    id: sql.ref("providerId"),
    sealed: sql.ref("clientSecret"),
    below: (version: number) => sql`substring(client_secret from 1 for 4) < ${versionPrefix(version)}::bytea`,
    set: () => sql`client_secret = u.resealed`,
  },
  "invoice keys": {
    table: sql`invoice_key`,
    // As text, as every other id is.
    id: sql`invoice_key.version::text`,
    sealed: sql.ref("sealedKey"),
    below: (version: number) => sql`substring(sealed_key from 1 for 4) < ${versionPrefix(version)}::bytea`,
    set: () => sql`sealed_key = u.resealed`,
  },
};

export function createKekStore(db: Db): KekStore {
  return asked<KekStore>({
    last: () =>
      db
        .selectFrom("kek")
        .select(["version", sql<boolean>`finished_at is not null`.as("isFinished")])
        .orderBy("version", "desc")
        .limit(1)
        .executeTakeFirst(),

    begin: (version, fingerprint, act) =>
      inTransaction(db, async (trx) => {
        const { numInsertedOrUpdatedRows: inserted } = await trx
          .insertInto("kek")
          .values({ version, fingerprint, inUseAt: null, finishedAt: null })
          .onConflict((at) => at.column("version").doNothing())
          .executeTakeFirst();
        if (!inserted) {
          const stored = await trx
            .selectFrom("kek")
            .select("fingerprint")
            .where("version", "=", version)
            .executeTakeFirstOrThrow();
          if (!stored.fingerprint.equals(fingerprint)) return false;
        } else {
          await auditAct(trx, act, { action: "kek.rotate", subject: `kek/${version}`, account: null });
        }
        await announce(trx, "kek", String(version));
        return true;
      }),

    async lagging(version, withinMs) {
      const rows = await db
        .selectFrom("replica")
        .leftJoin("replicaKek", "replicaKek.replicaId", "replica.replicaId")
        .select("replica.replicaId")
        .where(sql<boolean>`seen_at > now() - ${withinMs} * interval '1 millisecond'`)
        .where((eb) => eb.or([eb("replicaKek.version", "is", null), eb("replicaKek.version", "<", version)]))
        .execute();
      return rows.map((row) => row.replicaId);
    },

    use: (version) =>
      inTransaction(db, async (trx) => {
        await sql`select pg_advisory_xact_lock(${sql.lit(kekLock)})`.execute(trx);
        await sql`update kek set in_use_at = coalesce(in_use_at, now()) where version = ${version}`.execute(trx);
      }),

    async sealedBelow(kind, version, after, limit) {
      const { table, id, sealed, below } = sealedColumns[kind];
      const { rows } = await sql<{ id: string; sealed: Buffer }>`
        select ${id} as id, ${sealed} as sealed from ${table}
        where ${below(version)} and ${id} > ${after} order by ${id} limit ${limit}`.execute(db);
      return rows;
    },

    async reseal(kind, version, rows) {
      const { table, id, sealed, below, set } = sealedColumns[kind];
      const { numAffectedRows } = await sql`
        update ${table} set ${set(version)}
        from unnest(
          ${rows.map((row) => row.id)}::text[], ${rows.map((row) => row.sealed)}::bytea[],
          ${rows.map((row) => row.resealed)}::bytea[]
        ) as u (id, sealed, resealed)
        where ${id} = u.id and ${sealed} = u.sealed and ${below(version)}`.execute(db);
      return Number(numAffectedRows ?? 0n);
    },

    async countBelow(kind, version) {
      const { table, below } = sealedColumns[kind];
      const { rows } = await sql<{ count: bigint }>`
        select count(*) as count from ${table} where ${below(version)}`.execute(db);
      return Number(rows[0]?.count ?? 0n);
    },

    finish: (version, resealed, act) =>
      inTransaction(db, async (trx) => {
        await trx.updateTable("kek").set({ finishedAt: now }).where("version", "=", version).execute();
        await auditAct(trx, act, { action: "kek.rewrap", subject: `kek/${version}`, account: null, after: resealed });
      }),

    async hold(replica, version) {
      await sql`
        insert into replica_kek (replica_id, version) select replica_id, ${version}::int from replica
        where replica_id = ${replica}
        on conflict (replica_id) do update set version = excluded.version`.execute(db);
    },
  });
}

/** Returns true when a rotation has replaced `version`; blocks the next rotation until the transaction ends. */
export async function isRetired(trx: Trx, version: number): Promise<boolean> {
  await sql`select pg_advisory_xact_lock_shared(${sql.lit(kekLock)})`.execute(trx);
  return trx
    .selectFrom("kek")
    .select("version")
    .where("version", ">", version)
    .where("inUseAt", "is not", null)
    .limit(1)
    .$call(findsRow);
}
