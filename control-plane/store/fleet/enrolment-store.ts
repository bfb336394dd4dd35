import { timingSafeEqual } from "node:crypto";
import { type Selectable, sql } from "kysely";
import type { HostId } from "../../../proto/ids.ts";
import type { EnrolmentClaim, EnrolmentStore, EnrolmentVerdict } from "../../fleet/store.ts";
import { auditAct, writeAudit } from "../accounts/audit-rows.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Database, Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";

const authorityName = "nodes";

export function createEnrolmentStore(db: Db): EnrolmentStore {
  const readAuthority = () =>
    db
      .selectFrom("nodeAuthority")
      .select(["certificate", "sealedKey"])
      .where("name", "=", authorityName)
      .executeTakeFirst();
  return asked<EnrolmentStore>({
    async authority(make) {
      const stored = await readAuthority();
      if (stored) return stored;
      const made = await make();
      await db
        .insertInto("nodeAuthority")
        .values({ name: authorityName, certificate: made.certificate, sealedKey: made.sealedKey })
        .onConflict((at) => at.doNothing())
        .execute();
      // When replicas start concurrently, the first one's is used.
      return (await readAuthority()) ?? made;
    },

    addToken: (token, act) =>
      inTransaction(db, async (trx) => {
        await trx
          .insertInto("nodeJoinToken")
          .values({
            tokenId: token.id,
            secretHash: token.secretHash,
            pool: token.pool,
            forHost: token.forHost ?? null,
            createdBy: act.by,
            expiresAt: token.expiresAt,
            usedAt: null,
            usedBy: null,
          })
          .execute();
        await auditAct(trx, act, {
          action: "node_token.create",
          subject: token.id,
          account: null,
          after: { pool: token.pool, for_host: token.forHost ?? null, expires_at: token.expiresAt.toISOString() },
        });
      }),

    async tokens() {
      const rows = await db
        .selectFrom("nodeJoinToken")
        .select(["tokenId as id", "pool", "forHost", "createdBy", "usedBy"])
        .select([epochMs("createdAt").as("createdAtMs"), epochMs("expiresAt").as("expiresAtMs")])
        .select(epochMs<null>("usedAt").as("usedAtMs"))
        .where("expiresAt", ">", sql<Date>`now() - interval '7 days'`)
        .orderBy("createdAt", "desc")
        .limit(100)
        .execute();
      return rows.map((row) => ({
        ...row,
        forHost: row.forHost as HostId | null,
        // Beside the hash of its key.
        usedBy: (row.usedBy?.split(" ", 1)[0] ?? null) as HostId | null,
      }));
    },

    enrolled: () =>
      db
        .selectFrom("nodeIdentity as n")
        .leftJoin("host as h", "h.hostId", "n.hostId")
        .select(["n.hostId as id", "h.hostname", "n.pool"])
        .select([epochMs("n.enrolledAt").as("enrolledAtMs"), epochMs("n.notAfter").as("certificateExpiresAtMs")])
        .select(epochMs<null>("n.revokedAt").as("revokedAtMs"))
        .orderBy("n.enrolledAt", "desc")
        .execute(),

    enroll: (claim) => inTransaction(db, (trx) => enroll(trx, claim)),

    identity: (host) =>
      db
        .selectFrom("nodeIdentity")
        .select(["keyHash", sql<boolean>`revoked_at is not null`.as("isRevoked")])
        .where("hostId", "=", host)
        .executeTakeFirst(),

    async renewed(host, { keyHash, serial, notAfter }) {
      const { rows } = await sql`
        insert into node_identity (host_id, key_hash, serial, not_after)
        values (${host}, ${keyHash}, ${serial}, ${notAfter})
        on conflict (host_id) do update set serial = excluded.serial, not_after = excluded.not_after
          where node_identity.revoked_at is null and node_identity.key_hash = excluded.key_hash
        returning host_id`.execute(db);
      return rows.length > 0;
    },

    revoke: (host, act) =>
      inTransaction(db, async (trx) => {
        // Locks tokens before the identity, as enroll does, which excludes deadlocks.
        const tokens = await trx
          .selectFrom("nodeJoinToken")
          .select("tokenId")
          .where((eb) => eb.or([eb("forHost", "=", host), sql<boolean>`starts_with(used_by, ${`${host} `})`]))
          .orderBy("tokenId")
          .forUpdate()
          .execute();
        const { numUpdatedRows } = await trx
          .updateTable("nodeIdentity")
          .set({ revokedAt: now })
          .where("hostId", "=", host)
          .where("revokedAt", "is", null)
          .executeTakeFirst();
        if (numUpdatedRows === 0n) return false;
        // Tokens for the host, and the one it enrolled with, no longer admit it.
        if (tokens.length > 0)
          await trx
            .updateTable("nodeJoinToken")
            .set({ expiresAt: sql`least(expires_at, now())` })
            .where(
              "tokenId",
              "in",
              tokens.map((one) => one.tokenId),
            )
            .execute();
        await trx
          .updateTable("host")
          .set({
            // Fences the current session.
            nodeEpoch: sql<bigint>`nextval('node_epoch')`,
            schedulable: false,
            identityAlert: "",
            condition: "revoked: the host's certificate was revoked; `stoker node token create --node` brings it back",
            revision: (eb) => eb("revision", "+", 1n),
          })
          .where("hostId", "=", host)
          .execute();
        await auditAct(trx, act, { action: "node.revoke", subject: host, account: null });
        // Replicas reload routes when a host changes.
        await announce(trx, "host", host);
        return true;
      }),
  });
}

async function enroll(trx: Trx, claim: EnrolmentClaim): Promise<EnrolmentVerdict> {
  const token = claim.token && (await readToken(trx, claim, claim.token));
  if (typeof token === "string") return token;
  const known = await trx
    .selectFrom("nodeIdentity")
    .select(["keyHash", "revokedAt", "pool"])
    .where("hostId", "=", claim.hostId)
    .forUpdate()
    .executeTakeFirst();
  const mayReplace = token?.forHost === claim.hostId;
  // A used token admits its host and key again, but not after a revocation.
  if (known?.revokedAt && (!mayReplace || token.usedAt !== null)) return "revoked";
  if (known && !mayReplace && !known.keyHash.equals(claim.keyHash)) return "host_taken";
  const values = {
    keyHash: claim.keyHash,
    serial: claim.serial,
    notAfter: claim.notAfter,
    enrolledAt: new Date(),
    revokedAt: null,
    pool: token?.pool ?? known?.pool ?? "",
  };
  await trx
    .insertInto("nodeIdentity")
    .values({ hostId: claim.hostId, ...values })
    .onConflict((at) => at.column("hostId").doUpdateSet(values))
    .execute();
  if (token) {
    await trx
      .updateTable("nodeJoinToken")
      .set({ usedAt: sql`coalesce(used_at, now())`, usedBy: userOf(claim) })
      .where("tokenId", "=", token.tokenId)
      .execute();
  }
  if (mayReplace) await trx.updateTable("host").set({ identityAlert: "" }).where("hostId", "=", claim.hostId).execute();
  await writeAudit(trx, {
    actor: "system",
    action: "node.enroll",
    subject: claim.hostId,
    account: null,
    ip: claim.ip,
    after: { token: claim.token?.id ?? "standing", serial: claim.serial, not_after: claim.notAfter.toISOString() },
  });
  return "enrolled";
}

const userOf = (claim: EnrolmentClaim): string => `${claim.hostId} ${claim.keyHash.toString("hex")}`;

/** Returns the locked token, or why it does not admit this host. */
async function readToken(
  trx: Trx,
  claim: EnrolmentClaim,
  given: { readonly id: string; readonly secretHash: Buffer },
): Promise<Selectable<Database["nodeJoinToken"]> | EnrolmentVerdict> {
  const row = await trx
    .selectFrom("nodeJoinToken")
    .selectAll()
    .select(sql<boolean>`expires_at <= now()`.as("isExpired"))
    .where("tokenId", "=", given.id)
    .forUpdate()
    .executeTakeFirst();
  if (!row || row.secretHash.length !== given.secretHash.length || !timingSafeEqual(row.secretHash, given.secretHash))
    return "unknown_token";
  // The response may have been lost: the same host and key may retry.
  if (row.usedBy !== null && row.usedBy !== userOf(claim)) return "used_token";
  if (row.isExpired) return "expired_token";
  if (row.forHost !== null && row.forHost !== claim.hostId) return "other_host";
  return row;
}
