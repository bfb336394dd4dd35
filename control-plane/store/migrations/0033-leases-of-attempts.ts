import type { Kysely } from "kysely";
import { createSettlementFunctions } from "./settlement-functions.ts";

/** A settlement knows the leases of earlier attempts as well: what they took goes back to where it came from. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createSettlementFunctions(db);
}
