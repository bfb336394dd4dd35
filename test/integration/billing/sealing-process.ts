// A control plane that seals one account without pause, until it is killed: node sealing-process.ts URL ACCOUNT MONTH
import { invoiceKeySeal } from "../../../control-plane/accounts/seals.ts";
import { createInvoiceKeys } from "../../../control-plane/billing/invoice-keys.ts";
import { createUsageSeals } from "../../../control-plane/billing/usage-seals.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { createInvoiceKeyStore, createUsageSealStore } from "../../../control-plane/store/money/usage-seal-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { log } from "./world.ts";

const [, , url = "", account = "", month = ""] = process.argv;
const secrets = {
  keks: [{ version: 1, bytes: Buffer.from(process.env["SECRET"] ?? "", "hex") }],
  pepper: Buffer.alloc(32),
};
const { db } = openDatabase(url, { maxConnections: 2, log });
const keys = createInvoiceKeys({ store: createInvoiceKeyStore(db), seal: invoiceKeySeal(secrets) });
const seals = createUsageSeals({
  store: createUsageSealStore(db, { settledAfterMs: 1_000 }),
  keys,
  log,
  items: 20,
  minAgeMs: 0,
});
process.once("disconnect", () => process.exit());
await keys.newest();
process.send?.("sealing");
for (;;)
  await seals
    .export(account as AccountId, Number(month))
    .then((lines) => lines.return(undefined))
    .catch(() => {});
