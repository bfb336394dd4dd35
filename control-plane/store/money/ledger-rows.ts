// The ledger's four books. A credit: customer_available +x, platform_revenue -x. A capture: customer_available -x,
// customer_spent +x; the closing of the month's invoice moves it on to platform_revenue. A loss: platform_loss +x, platform_revenue -x.
import { sql } from "kysely";
import { randomId } from "../../../proto/ids.ts";
import type { Trx } from "../core/schema.ts";

export interface LedgerMove {
  readonly from: string;
  readonly to: string;
  readonly amount: bigint;
  readonly kind: "credit" | "topup" | "capture" | "correction" | "loss" | "invoice";
  readonly account: string;
  readonly key?: string;
  readonly model?: string;
  readonly priceVersion?: bigint;
  readonly discountId?: string | undefined;
  readonly requestId?: string;
  readonly attempt?: number;
  readonly note?: string;
}

/** Each move is one transaction of the ledger: two entries that sum to 0. Moves of 0 leave no trace. */
export async function writeLedger(trx: Trx, moves: readonly LedgerMove[]): Promise<void> {
  const entries = moves.flatMap((move) => {
    if (move.amount === 0n) return [];
    const transaction_id = randomId(20);
    const common = {
      transaction_id,
      account_id: move.account,
      kind: move.kind,
      request_id: move.requestId ?? null,
      attempt: move.attempt ?? null,
      key_id: move.key ?? null,
      model: move.model ?? null,
      price_version: move.priceVersion?.toString() ?? null,
      discount_id: move.discountId ?? null,
      note: move.note ?? null,
    };
    return [
      { ...common, book: move.from, amount: (-move.amount).toString() },
      { ...common, book: move.to, amount: move.amount.toString() },
    ];
  });
  if (entries.length === 0) return;
  await sql`
    insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model,
      price_version, discount_id, note)
    select transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model, price_version, discount_id, note
    from json_populate_recordset(null::ledger_entry, ${JSON.stringify(entries)}::json)`.execute(trx);
}
