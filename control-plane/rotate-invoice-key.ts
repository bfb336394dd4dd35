// Replaces the key that signs invoice exports. Run by `stoker admin rotate-invoice-key` on a host with the secrets, while control planes
// run or not: each reads the newest key before it signs.
import { invoiceKeySeal } from "./accounts/seals.ts";
import { bySystem } from "./act.ts";
import { createInvoiceKeys } from "./billing/invoice-keys.ts";
import { createInvoiceKeyStore } from "./store/money/usage-seal-store.ts";
import { runOperatorCommand } from "./wiring/operator-command.ts";

await runOperatorCommand(async ({ db, secrets }) => {
  const keys = createInvoiceKeys({ store: createInvoiceKeyStore(db), seal: invoiceKeySeal(secrets) });
  const { version, publicKey } = await keys.rotate(bySystem("stoker admin rotate-invoice-key, on the host"));
  return `Key ${version} signs from now on: ${publicKey}. The one before signed it and stays published.`;
});
