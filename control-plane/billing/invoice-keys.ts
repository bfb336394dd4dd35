// Keys that sign sealed usage and statements of invoices. Old versions stay published, and each one is signed by the one before.
import type { KeyObject } from "node:crypto";
import {
  type InvoicePublicKey,
  makeInvoiceKey,
  openInvoiceKey,
  signedTexts,
  signInvoiceText,
} from "../../proto/invoice-file.ts";
import type { Act } from "../act.ts";
import { conflict } from "../service-error.ts";
import { type Clock, systemClock } from "./clock.ts";

export interface StoredInvoiceKey extends InvoicePublicKey {
  /** PKCS#8, sealed. */
  readonly sealed: Buffer;
}

/** Every method throws DatabaseUnavailable. */
export interface InvoiceKeyStore {
  newestKey(): Promise<StoredInvoiceKey | undefined>;
  /** Oldest first. */
  publicKeys(): Promise<readonly InvoicePublicKey[]>;
  /** False when another process added that version. With `by` an audit entry. */
  addKey(key: StoredInvoiceKey, by?: Act): Promise<boolean>;
}

interface InvoiceSigner {
  readonly version: number;
  sign(text: string): string;
}

export interface InvoiceKeys {
  /** Made at first use. */
  newest(): Promise<InvoiceSigner>;
  list(): Promise<readonly InvoicePublicKey[]>;
  /** As `list`, at most `publishedMs` old: anybody may read it at any rate. */
  published(): Promise<readonly InvoicePublicKey[]>;
  /** Signs from now on with a new key. Throws keyChanged. */
  rotate(by: Act): Promise<InvoicePublicKey>;
}

export const publishedMs = 5_000;

export const keyChanged = () =>
  conflict(
    "invoice_key_changed",
    "Another operator rotated the key at the same time. List the keys before another rotation.",
  );

export function createInvoiceKeys(deps: {
  readonly store: InvoiceKeyStore;
  readonly seal: { seal(plain: Buffer, id: string): Buffer; open(sealed: Buffer, id: string): Buffer };
  readonly clock?: Clock;
}): InvoiceKeys {
  const { store, seal } = deps;
  const { unixMs, monotonicMs } = deps.clock ?? systemClock;
  const opened = new Map<number, KeyObject>();
  let published: { readonly untilMs: number; readonly keys: Promise<readonly InvoicePublicKey[]> } | undefined;

  function signerOf({ version, sealed }: StoredInvoiceKey): InvoiceSigner {
    const key = opened.get(version) ?? openInvoiceKey(seal.open(sealed, String(version)));
    opened.set(version, key);
    return { version, sign: (text) => signInvoiceText(text, key) };
  }

  /** Undefined: another process added that version. */
  async function add(before: StoredInvoiceKey | undefined, by?: Act): Promise<InvoicePublicKey | undefined> {
    const { publicKey, privateKey } = makeInvoiceKey();
    const version = (before?.version ?? 0) + 1;
    const createdUs = Math.floor(unixMs()) * 1_000;
    const signature = before ? signerOf(before).sign(signedTexts.key(version, publicKey, createdUs)) : "";
    const sealed = seal.seal(privateKey, String(version));
    const key = { version, publicKey, createdUs, signature };
    return (await store.addKey({ ...key, sealed }, by)) ? key : undefined;
  }

  async function newest(): Promise<StoredInvoiceKey> {
    for (;;) {
      const key = await store.newestKey();
      if (key) return key;
      // When control planes start concurrently, the first one's is used.
      await add(undefined);
    }
  }

  return {
    newest: async () => signerOf(await newest()),
    list: () => store.publicKeys(),
    async published() {
      if (!published || monotonicMs() >= published.untilMs)
        published = { untilMs: monotonicMs() + publishedMs, keys: store.publicKeys() };
      const read = published;
      try {
        return await read.keys;
      } catch (error) {
        if (published === read) published = undefined;
        throw error;
      }
    },
    async rotate(by) {
      const key = await add(await newest(), by);
      if (!key) throw keyChanged();
      return key;
    },
  };
}
