// Rows of workload identities, for the transactions of members.
import type { MemberId } from "../../../proto/ids.ts";
import type { Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";

/** Deletes the workload identities that a member created, and unless `onlyCreated` those whose keys are the member's. Revokes their keys. */
export async function endWorkloadsOf(trx: Trx, member: MemberId, { onlyCreated = false } = {}): Promise<void> {
  const rules = await trx
    .selectFrom("workloadIdentity")
    .select("ruleId")
    .where((row) => row.or([row("createdBy", "=", member), ...(onlyCreated ? [] : [row("memberId", "=", member)])]))
    .forUpdate()
    .execute();
  if (rules.length === 0) return;
  const ids = rules.map(({ ruleId }) => ruleId);
  // Locked: a key that is being created finds its exchange deleted, and is revoked.
  const exchanges = await trx
    .selectFrom("workloadExchange")
    .select("tokenId")
    .where("ruleId", "in", ids)
    .forUpdate()
    .execute();
  const keys = exchanges.flatMap(({ tokenId }) => (tokenId === null ? [] : [tokenId]));
  if (keys.length > 0)
    await trx
      .updateTable("apiKey")
      .set({ revokedAt: now })
      .where("tokenId", "in", keys)
      .where("revokedAt", "is", null)
      .execute();
  await trx.deleteFrom("workloadIdentity").where("ruleId", "in", ids).execute();
}
