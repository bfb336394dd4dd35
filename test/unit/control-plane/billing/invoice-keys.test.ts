// Public keys that anybody may list.
import { expect, it } from "vitest";
import {
  createInvoiceKeys,
  type InvoiceKeyStore,
  publishedMs,
} from "../../../../control-plane/billing/invoice-keys.ts";

it("are read once in some seconds however often they are listed, and again after a failure", async () => {
  let nowMs = 0;
  let reads = 0;
  let isDown = false;
  const key = { version: 1, publicKey: "", createdUs: 0, signature: "" };
  const store: InvoiceKeyStore = {
    newestKey: () => Promise.resolve(undefined),
    addKey: () => Promise.resolve(true),
    publicKeys() {
      reads += 1;
      return isDown ? Promise.reject(new Error("down")) : Promise.resolve([key]);
    },
  };
  const keys = createInvoiceKeys({
    store,
    seal: { seal: (plain) => plain, open: (sealed) => sealed },
    clock: { monotonicMs: () => nowMs, unixMs: () => nowMs },
  });
  const lists = await Promise.all(Array.from({ length: 100 }, () => keys.published()));
  expect(lists).toEqual(Array.from({ length: 100 }, () => [key]));
  nowMs += publishedMs - 1;
  await keys.published();
  expect(reads).toBe(1);
  nowMs += 1;
  isDown = true;
  await expect(keys.published()).rejects.toThrow("down");
  isDown = false;
  expect(await keys.published()).toEqual([key]);
  expect(reads).toBe(3);
  // What signs an export must be among the keys of its file.
  await keys.list();
  expect(reads).toBe(4);
});
