import { Readable } from "node:stream";
import { type Static, Type } from "typebox";
import type { InvoicePublicKey } from "../../../proto/invoice-file.ts";
import { readPeriod } from "../../billing/period.ts";
import type { Endpoints } from "../core/endpoint.ts";
import type { MoneyFeatures } from "./features.ts";

const KeyBody = Type.Object({
  version: Type.Integer(),
  public_key: Type.String({ description: "Ed25519, base64 of 32 bytes" }),
  created_at: Type.Integer({ description: "Unix seconds" }),
  signature: Type.String({
    description: "By the key of the version before, base64; empty: the first key",
  }),
});
type KeyBody = Static<typeof KeyBody>;

const KeysBody = Type.Object({ keys: Type.Array(KeyBody, { description: "Oldest first; the last one signs" }) });

const keyBody = ({ version, publicKey, createdUs, signature }: InvoicePublicKey): KeyBody => ({
  version,
  public_key: publicKey,
  created_at: Math.floor(createdUs / 1e6),
  signature,
});

export function addInvoiceExportRoutes(endpoints: Endpoints, { usageSeals, invoiceKeys }: MoneyFeatures): void {
  endpoints.with({ tag: "billing", access: "key" }).get("/v1/invoice-exports/:month", {
    right: "readMoney",
    isOpenToOperators: true,
    summary:
      "Export a month as JSON lines that `stoker invoice verify` verifies: prices, every usage record, and signatures",
    params: Type.Object({
      month: Type.String({ maxLength: 16, description: "YYYY.MM, current or current-N (UTC)" }),
    }),
    answer: Type.Unsafe<unknown>({ contentMediaType: "application/x-ndjson" }),
    refusals: [404, 429],
    async handler({ caller, params, reply }) {
      const gone = new AbortController();
      reply.raw.once("close", () => gone.abort());
      const { first } = readPeriod(params.month, undefined, Date.now());
      const lines = await usageSeals.export(caller.account, first, gone.signal);
      reply.headers({ "content-type": "application/x-ndjson", "cache-control": "no-store" });
      return Readable.from(lines, { objectMode: false });
    },
  });

  endpoints.with({ tag: "billing", access: "public" }).get("/v1/invoice-keys", {
    summary: "List the public keys that sign invoice exports",
    answer: KeysBody,
    handler: async () => ({ keys: (await invoiceKeys.published()).map(keyBody) }),
  });
}
