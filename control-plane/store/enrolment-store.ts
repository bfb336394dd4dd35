import { timingSafeEqual } from "node:crypto";
import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { EnrolmentClaim, EnrolmentStore, EnrolmentVerdict } from "../fleet/store.ts";
import { asked } from "./asked.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

const authorityName = "nodes";

export function createEnrolmentStore(db: Kysely<Database>): EnrolmentStore {
  const readAuthority = async () => {
    const row = await db
      .selectFrom("node_authority")
      .select(["certificate", "sealed_key"])
      .where("name", "=", authorityName)
      .executeTakeFirst();
    return row && { certificate: row.certificate, sealedKey: row.sealed_key };
  };
  return asked<EnrolmentStore>({
    async authority(make) {
      const there = await readAuthority();
      if (there) return there;
      const made = await make();
      await db
        .insertInto("node_authority")
        .values({ name: authorityName, certificate: made.certificate, sealed_key: made.sealedKey })
        .onConflict((at) => at.doNothing())
        .execute();
      // Of two replicas that start together the first one's stays.
      return (await readAuthority()) ?? made;
    },

    addToken: (token, act) =>
      inTransaction(db, async (trx) => {
        await trx
          .insertInto("node_join_token")
          .values({
            token_id: token.id,
            secret_hash: token.secretHash,
            pool: token.pool,
            for_host: token.forHost ?? null,
            created_by: act.by,
            expires_at: token.expiresAt,
            used_at: null,
            used_by: null,
          })
          .execute();
        await writeAudit(trx, {
          actor: act.by,
          action: "node_token.create",
          subject: token.id,
          account: null,
          ip: act.ip,
          after: { pool: token.pool, for_host: token.forHost ?? null, expires_at: token.expiresAt.toISOString() },
          note: act.note,
        });
      }),

    enroll: (claim) => inTransaction(db, (trx) => enroll(trx, claim)),

    async identity(host) {
      const row = await db
        .selectFrom("node_identity")
        .select(["key_hash", "revoked_at"])
        .where("host_id", "=", host)
        .executeTakeFirst();
      return row && { keyHash: row.key_hash, isRevoked: row.revoked_at !== null };
    },

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
        // Tokens before the identity, as in enrolling: two that wait for each other would both lose.
        const tokens = await trx
          .selectFrom("node_join_token")
          .select("token_id")
          .where((eb) => eb.or([eb("for_host", "=", host), sql<boolean>`starts_with(used_by, ${`${host} `})`]))
          .orderBy("token_id")
          .forUpdate()
          .execute();
        const { numUpdatedRows } = await trx
          .updateTable("node_identity")
          .set({ revoked_at: sql`now()` })
          .where("host_id", "=", host)
          .where("revoked_at", "is", null)
          .executeTakeFirst();
        if (numUpdatedRows === 0n) return false;
        // What was made before the revocation brings the host back no more: a token for it, or one it came in with.
        if (tokens.length > 0)
          await trx
            .updateTable("node_join_token")
            .set({ expires_at: sql`least(expires_at, now())` })
            .where(
              "token_id",
              "in",
              tokens.map((one) => one.token_id),
            )
            .execute();
        await trx
          .updateTable("host")
          .set({
            // Whatever session there is, it is of an older epoch now.
            node_epoch: sql<bigint>`nextval('node_epoch')`,
            schedulable: false,
            identity_alert: "",
            condition: "revoked: the host's certificate was revoked; `stoker node token create --node` brings it back",
            revision: (eb) => eb("revision", "+", 1n),
          })
          .where("host_id", "=", host)
          .execute();
        await writeAudit(trx, {
          actor: act.by,
          action: "node.revoke",
          subject: host,
          account: null,
          ip: act.ip,
          note: act.note,
        });
        // Routes are read again where deployments or hosts changed.
        await announce(trx, "host", host);
        return true;
      }),
  });
}

async function enroll(trx: Transaction<Database>, claim: EnrolmentClaim): Promise<EnrolmentVerdict> {
  const token = claim.token && (await readToken(trx, claim, claim.token));
  if (typeof token === "string") return token;
  const known = await trx
    .selectFrom("node_identity")
    .select(["key_hash", "revoked_at", "pool"])
    .where("host_id", "=", claim.hostId)
    .forUpdate()
    .executeTakeFirst();
  const mayReplace = token?.for_host === claim.hostId;
  // A token that was used is good for its host and key again, and not against a revocation that came later.
  if (known?.revoked_at && (!mayReplace || token.used_at !== null)) return "revoked";
  if (known && !mayReplace && !known.key_hash.equals(claim.keyHash)) return "host_taken";
  const values = {
    key_hash: claim.keyHash,
    serial: claim.serial,
    not_after: claim.notAfter,
    enrolled_at: new Date(),
    revoked_at: null,
    pool: token?.pool ?? known?.pool ?? "",
  };
  await trx
    .insertInto("node_identity")
    .values({ host_id: claim.hostId, ...values })
    .onConflict((at) => at.column("host_id").doUpdateSet(values))
    .execute();
  if (token) {
    await trx
      .updateTable("node_join_token")
      .set({ used_at: sql`coalesce(used_at, now())`, used_by: userOf(claim) })
      .where("token_id", "=", token.token_id)
      .execute();
  }
  if (mayReplace)
    await trx.updateTable("host").set({ identity_alert: "" }).where("host_id", "=", claim.hostId).execute();
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

/** The token, locked, or why it does not let this host in. */
async function readToken(
  trx: Transaction<Database>,
  claim: EnrolmentClaim,
  given: { readonly id: string; readonly secretHash: Buffer },
): Promise<Selectable<Database["node_join_token"]> | EnrolmentVerdict> {
  const row = await trx
    .selectFrom("node_join_token")
    .selectAll()
    .select(sql<boolean>`expires_at <= now()`.as("is_expired"))
    .where("token_id", "=", given.id)
    .forUpdate()
    .executeTakeFirst();
  if (!row || row.secret_hash.length !== given.secretHash.length || !timingSafeEqual(row.secret_hash, given.secretHash))
    return "unknown_token";
  // An answer that was lost is asked for again; the key decides that it is the same host.
  if (row.used_by !== null && row.used_by !== userOf(claim)) return "used_token";
  if (row.is_expired) return "expired_token";
  if (row.for_host !== null && row.for_host !== claim.hostId) return "other_host";
  return row;
}
